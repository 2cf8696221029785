import gzip
import time
from pathlib import Path

import numpy as np
import pytest

from comet_keras.datasets import movielens
from comet_keras.datasets.movielens_ratings import from_zero, read_ratings
from comet_keras.datasets.negatives import per_user, uniform

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "movielens"
needs_real_files = pytest.mark.skipif(not REAL.is_dir(), reason="the MovieLens files are not beside the repository")

FOLDERS = ("shared_features", "watch_classification_targets", "rating_regression_targets")


def write(path, lines, newline="\n", end="\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (newline.join(lines) + end).encode("latin-1")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_pairs(folder, split, rows, suffix=".csv"):
    """Writes (user, movie, watched, rating) rows in the layout of the COMET repository."""
    columns = ([f"{u},{m}" for u, m, _, _ in rows], [str(w) for _, _, w, _ in rows], [str(r) for _, _, _, r in rows])
    for name, lines in zip(FOLDERS, columns):
        write(folder / name / f"{name}_{split}{suffix}", lines)


def pair_rows(start, count):
    """Distinct pairs; every second one watched, with ratings 1..5."""
    return [(start + i, i % 7, i % 2, 1 + i % 5 if i % 2 else 0) for i in range(count)]


def rows_of(split):
    columns = (split.features["user"], split.features["movie"], split.targets["watch"], split.targets["rating"])
    return list(zip(*(column.tolist() for column in columns)))


def rating_lines(users=12, movies=9):
    """ML-1M lines; user u has rated about half of the movies."""
    return [
        f"{user}::{movie}::{1 + (user + movie) % 5}::978300760"
        for user in range(1, users + 1)
        for movie in range(1, movies + 1)
        if (user * 7 + movie * 3) % 5 < 2
    ]


def all_rows(data):
    return sum((rows_of(split) for split in data.splits.values()), [])


# --- the paper's pairs -------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("subfolder", ["", "comet_split"])
def test_papers_splits_are_used_as_they_are(tmp_path, suffix, subfolder):
    rows = {"train": pair_rows(0, 20), "val": pair_rows(100, 10), "test": pair_rows(200, 6)}
    for split, some in rows.items():
        write_pairs(tmp_path / subfolder, split, some, suffix)
    data = movielens(tmp_path)
    assert rows_of(data.train) == rows["train"]
    assert rows_of(data.validation) == rows["val"]
    assert rows_of(data.test) == rows["test"]
    assert data.vocabulary_sizes == {"user": 6040, "movie": 3952}
    assert data.tasks == {"watch": "binary", "rating": "regression"}


def test_columns_have_the_promised_types_and_weights(tmp_path):
    for split in ("train", "val", "test"):
        write_pairs(tmp_path, split, pair_rows(0, 10))
    train = movielens(tmp_path).train
    assert train.features["user"].dtype == train.features["movie"].dtype == "int32"
    assert train.targets["watch"].dtype == train.targets["rating"].dtype == "float32"
    assert train.sample_weights["watch"].tolist() == [1] * 10
    assert train.sample_weights["rating"].tolist() == [0, 1] * 5
    assert train.sample_weights["rating"].dtype == "float32"


def test_rating_counts_by_the_watch_flag_not_by_its_value(tmp_path):
    for split in ("train", "val", "test"):
        write_pairs(tmp_path, split, [(0, 0, 1, 0), (0, 1, 0, 5)])
    assert movielens(tmp_path).train.sample_weights["rating"].tolist() == [1, 0]


def test_without_training_pairs_the_validation_file_serves_for_both(tmp_path):
    validation, test = pair_rows(0, 30), pair_rows(100, 8)
    write_pairs(tmp_path, "val", validation)
    write_pairs(tmp_path, "test", test)
    data = movielens(tmp_path, rows=20)
    assert len(data.train) == 20 and len(data.validation) == 10
    assert sorted(rows_of(data.train) + rows_of(data.validation)) == sorted(validation)
    assert rows_of(data.test) == test
    assert "validation file" in data.description and "20 rows" in data.description
    assert rows_of(data.train) != rows_of(movielens(tmp_path, rows=20, seed=1).train)
    assert rows_of(data.train) == rows_of(movielens(tmp_path, rows=20).train)
    assert len(movielens(tmp_path).train) == 27


def test_validation_file_must_leave_rows_for_validation(tmp_path):
    write_pairs(tmp_path, "val", pair_rows(0, 30))
    write_pairs(tmp_path, "test", pair_rows(0, 8))
    with pytest.raises(ValueError, match="must be below 30"):
        movielens(tmp_path, rows=30)


def test_fewer_training_rows_can_be_drawn(tmp_path):
    for split in ("train", "val", "test"):
        write_pairs(tmp_path, split, pair_rows(0, 20))
    data = movielens(tmp_path, rows=5)
    assert len(data.train) == 5 and len(data.validation) == 20
    assert set(rows_of(data.train)) < set(pair_rows(0, 20))
    with pytest.raises(ValueError, match="at most 20"):
        movielens(tmp_path, rows=21)


def test_files_of_different_length_are_refused(tmp_path):
    for split in ("train", "val", "test"):
        write_pairs(tmp_path, split, pair_rows(0, 10))
    write(tmp_path / FOLDERS[1] / f"{FOLDERS[1]}_val.csv", ["1"] * 9)
    with pytest.raises(ValueError, match=r"same number of rows.*_val.csv: 10.*_val.csv: 9"):
        movielens(tmp_path)


def test_missing_file_of_a_split_is_named(tmp_path):
    for split in ("train", "val", "test"):
        write_pairs(tmp_path, split, pair_rows(0, 10))
    (tmp_path / FOLDERS[2] / f"{FOLDERS[2]}_test.csv").unlink()
    with pytest.raises(FileNotFoundError, match="rating_regression_targets_test.csv"):
        movielens(tmp_path)


@pytest.mark.parametrize(
    "folder, line, match",
    [
        (0, "1,2,3", "expected 2 numbers"),
        (0, "1", "expected 2 numbers"),
        (0, "", "expected 2 numbers"),
        (0, "1,x", "expected 2 numbers"),
        (0, "6040,1", r"user id must be an integer in 0\.\.6039"),
        (0, "1,3952", r"movie id must be an integer in 0\.\.3951"),
        (0, "-1,1", "user id"),
        (0, "1,1.5", "movie id"),
        (1, "2", r"watch target must be an integer in 0\.\.1"),
        (1, "", "expected 1 numbers"),
        (2, "nan", "finite"),
    ],
)
def test_malformed_line_of_the_pairs_is_named(tmp_path, folder, line, match):
    for split in ("train", "val", "test"):
        write_pairs(tmp_path, split, pair_rows(0, 10))
    path = tmp_path / FOLDERS[folder] / f"{FOLDERS[folder]}_val.csv"
    lines = path.read_text().split("\n")
    lines[3] = line
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=rf"{path.name}, line 4: .*{match}"):
        movielens(tmp_path)


# --- ratings files -----------------------------------------------------------


@pytest.mark.parametrize("name", ["ratings.dat", "ratings.dat.gz", "ratings_part.dat.gz", "ml-1m/ratings.dat"])
@pytest.mark.parametrize("newline, end", [("\n", "\n"), ("\n", ""), ("\r\n", "\r\n"), ("\n", "\n\n")])
def test_ratings_dat_is_read_however_lines_end(tmp_path, name, newline, end):
    lines = rating_lines()
    write(tmp_path / name, lines, newline, end)
    watched = sorted(row for row in all_rows(movielens(tmp_path)) if row[2] == 1)
    expected = sorted(
        (int(user) - 1, int(movie) - 1, 1, float(rating)) for user, movie, rating, _ in (l.split("::") for l in lines)
    )
    assert watched == expected


@pytest.mark.parametrize("name", ["u.data", "u.data.gz", "ml-100k/u.data"])
def test_u_data_is_read(tmp_path, name):
    write(tmp_path / name, [line.replace("::", "\t") for line in rating_lines()])
    data = movielens(tmp_path)
    assert sum(row[2] for row in all_rows(data)) == len(rating_lines())
    assert data.vocabulary_sizes == {"user": 12, "movie": 9}


@pytest.mark.parametrize("mark", ["", "\xef\xbb\xbf"])
def test_ratings_csv_is_read_with_half_stars_and_a_byte_order_mark(tmp_path, mark):
    lines = [line.replace("::", ",") for line in rating_lines()]
    lines[0] = "1,1,3.5,978300760"
    path = write(tmp_path / "ratings.csv", [mark + "userId,movieId,rating,timestamp", *lines])
    users, movies, ratings, num_users, num_movies = read_ratings(path)
    assert (users[0], movies[0], ratings[0]) == (0, 0, 3.5)
    assert len(users) == len(lines) and (num_users, num_movies) == (12, 9)


def test_ratings_csv_needs_its_header(tmp_path):
    write(tmp_path / "ratings.csv", [line.replace("::", ",") for line in rating_lines()])
    with pytest.raises(ValueError, match="ratings.csv, line 1: expected the header"):
        movielens(tmp_path)


def test_papers_pairs_come_before_ratings_and_ratings_dat_before_the_rest(tmp_path):
    write(tmp_path / "ratings.csv", ["userId,movieId,rating,timestamp", "1,1,1,1"])
    write(tmp_path / "u.data", [line.replace("::", "\t") for line in rating_lines(11)])
    assert "u.data" in movielens(tmp_path).description
    write(tmp_path / "ratings.dat", rating_lines())
    assert "ratings.dat" in movielens(tmp_path).description
    for split in ("train", "val", "test"):
        write_pairs(tmp_path / "comet_split", split, pair_rows(0, 10))
    assert len(movielens(tmp_path).train) == 10


def test_several_parts_are_refused(tmp_path):
    write(tmp_path / "ratings1.dat", rating_lines())
    write(tmp_path / "ratings2.dat.gz", rating_lines())
    with pytest.raises(ValueError, match="several ratings files.*ratings1.dat.*ratings2.dat.gz"):
        movielens(tmp_path)


@pytest.mark.parametrize(
    "line, match",
    [
        ("1::2::3", "expected 4 numbers"),
        ("1,2::3::4", "expected 4 numbers"),
        ("1::2::3::4::5", "expected 4 numbers"),
        ("1:2:3:4", "expected 4 numbers"),
        ("1::caf\xe9::3::4", "expected 4 numbers.*caf\xe9"),
        ("", "expected 4 numbers"),
        ("1.5::2::3::4", "user id must be an integer"),
        ("1::-2::3::4", "movie id must be an integer"),
        ("1::2::inf::4", "finite"),
        ("1::99999999999::3::4", "movie id must be an integer"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_malformed_line_of_the_ratings_is_named(tmp_path, line, match, suffix):
    lines = rating_lines()
    lines.insert(4, line)
    write(tmp_path / f"ratings.dat{suffix}", lines)
    with pytest.raises(ValueError, match=rf"ratings.dat{suffix}, line 5: .*{match}"):
        movielens(tmp_path)


def test_line_numbers_count_the_header(tmp_path):
    lines = [line.replace("::", ",") for line in rating_lines()]
    lines[2] = "1,2,x,4"
    write(tmp_path / "ratings.csv", ["userId,movieId,rating,timestamp", *lines])
    with pytest.raises(ValueError, match="line 4"):
        movielens(tmp_path)


def test_repeated_pair_is_named(tmp_path):
    lines = rating_lines()
    write(tmp_path / "ratings.dat", [*lines, lines[3]])
    with pytest.raises(ValueError, match=f"line {len(lines) + 1}: .*earlier line"):
        movielens(tmp_path)


def test_empty_and_cut_off_files_are_named(tmp_path):
    path = write(tmp_path / "ratings.dat.gz", rating_lines())
    whole = path.read_bytes()
    for data, match in [
        (whole[: len(whole) // 2], "not a complete gzip file"),
        (b"not gzip at all", "not a complete gzip file"),
        (whole[:20] + bytes(10) + whole[30:], "not a complete gzip file"),
        (b"", "empty"),
        (gzip.compress(b""), "empty"),
        (gzip.compress(b"\n\n"), "empty"),
    ]:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"ratings.dat.gz is .*{match}"):
            movielens(tmp_path)
    path.unlink()
    write(tmp_path / "ratings.csv", ["userId,movieId,rating,timestamp"])
    with pytest.raises(ValueError, match="ratings.csv has a header but no rows"):
        movielens(tmp_path)


def test_folder_without_data_says_what_was_looked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"shared_features/.*ratings\.dat.*u\.data.*ratings\.csv"):
        movielens(tmp_path)
    with pytest.raises(FileNotFoundError, match="not a folder"):
        movielens(tmp_path / "nowhere")


@pytest.mark.parametrize("arguments", [{"negatives": "popular"}, {"rows": 0}, {"rows": 2.5}])
def test_wrong_arguments_are_refused(tmp_path, arguments):
    write(tmp_path / "ratings.dat", rating_lines())
    with pytest.raises(ValueError, match=next(iter(arguments))):
        movielens(tmp_path, **arguments)


def test_too_few_ratings_to_split_are_refused(tmp_path):
    write(tmp_path / "ratings.dat", ["1::1::5::1", "2::2::4::1"])
    with pytest.raises(ValueError, match="too few ratings"):
        movielens(tmp_path)


@pytest.mark.parametrize(
    "ids, expected",
    [
        ([1, 2, 3], ([0, 1, 2], 3)),
        ([3, 1], ([2, 0], 3)),  # a gap alone is no reason to renumber
        ([0, 1, 2], ([0, 1, 2], 3)),
        ([10, 193609, 10, 47], ([0, 2, 0, 1], 3)),
        ([5, 5], ([0, 0], 1)),
    ],
)
def test_ids_start_at_zero_and_are_renumbered_only_when_sparse(ids, expected):
    codes, size = from_zero(np.array(ids))
    assert (codes.tolist(), size) == expected


# --- unwatched pairs ---------------------------------------------------------


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


# --- the real files ----------------------------------------------------------


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
