"""MovieLens from ratings files."""

import gzip

import numpy as np
import pytest
from datasets.movielens_files import all_rows, pair_rows, rating_lines, write, write_pairs

from comet_keras.datasets import movielens
from comet_keras.datasets.movielens_ratings import from_zero, read_ratings


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
