"""Unwatched pairs, and the splits they go into."""

import numpy as np
import pytest
from datasets.movielens_files import all_rows, rating_lines, rows_of, write

from comet_keras.datasets import movielens
from comet_keras.datasets.negatives import per_user, uniform


@pytest.fixture
def watched():
    rng = np.random.default_rng(5)
    rate = np.linspace(0.05, 0.95, 40)[:, None]
    users, movies = np.nonzero(rng.random((40, 60)) < rate)
    return users + 3, 2 * movies  # ids with gaps


@pytest.mark.parametrize("sampler", [per_user, uniform])
def test_no_negative_is_watched_or_comes_twice(watched, sampler):
    drawn = list(zip(*sampler(*watched, np.random.default_rng(0))))
    assert len(set(drawn)) == len(drawn)
    assert not set(drawn) & set(zip(*watched))
    assert {user for user, _ in drawn} <= set(watched[0])
    assert {movie for _, movie in drawn} <= set(watched[1])


def test_each_user_gets_as_many_negatives_as_are_watched_or_left(watched):
    users, movies = watched
    drawn, _ = per_user(users, movies, np.random.default_rng(0))
    catalogue = len(set(movies))
    for user in set(users):
        seen = (users == user).sum()
        assert (drawn == user).sum() == min(seen, catalogue - seen)


def test_uniform_draws_as_many_pairs_as_are_watched_or_left():
    users, movies = np.nonzero(np.arange(20).reshape(4, 5) % 3 == 0)  # 7 of 20 watched
    assert len(uniform(users, movies, np.random.default_rng(0))[0]) == 7
    users, movies = np.nonzero(np.arange(20).reshape(4, 5) % 4 != 0)  # 15 of 20 watched
    assert len(uniform(users, movies, np.random.default_rng(0))[0]) == 5


@pytest.mark.parametrize("sampler", [per_user, uniform])
def test_every_unwatched_pair_is_drawn_equally_often(sampler):
    # Three users, eight movies, two watched each: 18 pairs are free and 6 are drawn a round.
    users, movies = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 7, 1, 2, 3, 6])
    movies = np.append(movies, [4, 5])
    users = np.append(users, [0, 0])  # all eight movies occur; user 0 has watched four
    rng = np.random.default_rng(0)
    counts = np.zeros((3, 8))
    for _ in range(2000):
        np.add.at(counts, sampler(users, movies, rng), 1)
    free = np.ones((3, 8), bool)
    free[users, movies] = False
    assert (counts[~free] == 0).all()
    share = counts / 2000
    if sampler is per_user:
        np.testing.assert_allclose(share[0][free[0]], 1)  # four free, four wanted
        np.testing.assert_allclose(share[1:][free[1:]], 2 / 6, atol=0.06)
    else:
        np.testing.assert_allclose(share[free], 8 / 16, atol=0.06)


def test_user_who_watched_everything_gets_no_negatives():
    users, movies = per_user(np.array([0, 0, 1]), np.array([0, 1, 1]), np.random.default_rng(0))
    assert list(zip(users, movies)) == [(1, 0)]


@pytest.mark.parametrize("negatives", ["per_user", "uniform"])
def test_splits_of_ratings_share_no_pair_and_are_stratified(tmp_path, negatives):
    lines = rating_lines(users=60, movies=30)
    write(tmp_path / "ratings.dat", lines)
    data = movielens(tmp_path, negatives=negatives)
    rows = all_rows(data)
    assert len({row[:2] for row in rows}) == len(rows) == 2 * len(lines)
    total = len(rows)
    test = -(-total // 10)
    validation = -(-(total - test) // 8)
    assert [len(split) for split in data.splits.values()] == [total - test - validation, validation, test]
    for split in data.splits.values():
        assert abs(split.targets["watch"].mean() - 0.5) < 1 / len(split)
        np.testing.assert_array_equal(split.sample_weights["rating"], split.targets["watch"])
        np.testing.assert_array_equal(split.targets["rating"] > 0, split.targets["watch"] == 1)
    assert negatives in data.description


def test_seed_decides_negatives_and_splits(tmp_path):
    write(tmp_path / "ratings.dat", rating_lines(users=30, movies=30))
    first, again, other = movielens(tmp_path), movielens(tmp_path), movielens(tmp_path, seed=1)
    assert rows_of(first.train) == rows_of(again.train)
    assert rows_of(first.train) != rows_of(other.train)
    assert set(all_rows(first)) != set(all_rows(other))


def test_rows_limits_the_training_rows_of_ratings(tmp_path):
    write(tmp_path / "ratings.dat", rating_lines(users=30, movies=30))
    whole, part = movielens(tmp_path), movielens(tmp_path, rows=50)
    assert len(part.train) == 50 and set(rows_of(part.train)) < set(rows_of(whole.train))
    assert rows_of(part.test) == rows_of(whole.test)
