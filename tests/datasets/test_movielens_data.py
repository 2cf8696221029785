"""The real files of MovieLens, where they are there."""

import time
from pathlib import Path

import numpy as np
import pytest
from datasets.movielens_files import rows_of

from comet_keras.datasets import movielens
from comet_keras.datasets.movielens_ratings import read_ratings

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "movielens"
needs_real_files = pytest.mark.skipif(not REAL.is_dir(), reason="the MovieLens files are not beside the repository")


@pytest.fixture(scope="module")
def papers_pairs():
    return movielens(REAL)


@needs_real_files
def test_real_pairs_of_the_paper(papers_pairs):
    data = papers_pairs
    assert [len(split) for split in data.splits.values()] == [200_000, 24_944, 199_950]
    pairs = [split.features["user"].astype("int64") * 3952 + split.features["movie"] for split in data.splits.values()]
    assert len(np.unique(np.concatenate(pairs))) == 424_894
    movies = np.concatenate([data.train.features["movie"], data.validation.features["movie"]])
    assert len(np.unique(movies)) == len(np.unique(data.test.features["movie"])) == 3_706
    for split in data.splits.values():
        np.testing.assert_array_equal(split.targets["rating"] > 0, split.targets["watch"] == 1)
        assert abs(split.targets["watch"].mean() - 0.5002) < 0.005
    assert "missing" in data.description


@needs_real_files
def test_real_half_of_ml_1m():
    start = time.perf_counter()
    data = movielens(REAL / "ml-1m")
    assert time.perf_counter() - start < 20
    user = np.concatenate([split.features["user"] for split in data.splits.values()]).astype("int64")
    movie = np.concatenate([split.features["movie"] for split in data.splits.values()])
    watch = np.concatenate([split.targets["watch"] for split in data.splits.values()])
    assert watch.sum() == 487_650
    assert len(np.unique(user * 3952 + movie)) == len(user)
    assert len(np.unique(movie[watch == 1])) == 3_615
    assert data.vocabulary_sizes["user"] == 2_999
    seen, drawn = np.bincount(user[watch == 1]), np.bincount(user[watch == 0])
    np.testing.assert_array_equal(drawn, np.minimum(seen, 3_615 - seen))


@needs_real_files
def test_real_half_agrees_with_the_papers_pairs(papers_pairs):
    # Watched test pairs of whole users are in the ratings file, with the same ratings; unwatched ones are not.
    test = papers_pairs.test
    users, movies, ratings, _, _ = read_ratings(next((REAL / "ml-1m").glob("ratings*")))
    rated = dict(zip(zip(users.tolist(), movies.tolist()), ratings.tolist()))
    for user, movie, watch, rating in rows_of(test):
        if user < 2998:
            assert rated.get((user, movie), 0) == rating and ((user, movie) in rated) == watch


@needs_real_files
def test_real_ml_100k():
    data = movielens(REAL / "ml-100k")
    assert data.vocabulary_sizes == {"user": 943, "movie": 1_682}
    assert [len(split) for split in data.splits.values()] == [157_500, 22_500, 20_000]
    assert sum(split.targets["watch"].sum() for split in data.splits.values()) == 100_000
