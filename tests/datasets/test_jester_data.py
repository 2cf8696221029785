import csv
import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from comet_keras.datasets import jester

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "jester"
needs_real_files = pytest.mark.skipif(not REAL.is_dir(), reason="the Jester files are not beside the repository")


def matrix(users, jokes=100, seed=0, rated=0.6):
    """Ratings with two decimals, some of them 0, and None where there is none."""
    rng = np.random.default_rng(seed)
    ratings = np.round(rng.uniform(-10, 10, (users, jokes)), 2)
    ratings[rng.random(ratings.shape) < 0.1] = 0
    return [[float(x) if rng.random() < rated else None for x in row] for row in ratings]


def lines_of(rows):
    fields = [["99" if x is None else f"{x:g}" for x in row] for row in rows]
    return [",".join([str(len(row) - row.count("99")), *row]) for row in fields]


def write(path, rows, newline="\n", end="\n"):
    return write_lines(path, lines_of(rows), newline, end)


def write_lines(path, lines, newline="\n", end="\n"):
    data = (newline.join(lines) + end).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_xls(path, rows, text=None):
    """A sheet in the oldest .xls format; `text` is (row, column, str)."""
    records = [struct.pack("<HHHH", 0x0009, 4, 2, 0x10)]
    for i, row in enumerate(rows):
        cells = [sum(x is not None for x in row), *(99 if x is None else x for x in row)]
        records += [struct.pack("<HHHH3xd", 0x0003, 15, i, j, cell) for j, cell in enumerate(cells)]
    if text:
        i, j, word = text
        records.append(struct.pack("<HHHH3xB", 0x0004, 8 + len(word), i, j, len(word)) + word.encode())
    path.write_bytes(b"".join(records) + struct.pack("<HH", 0x000A, 0))
    return path


def ratings_of(data):
    """dict from (user, joke) to the rating, or None, over all splits; each pair once."""
    found = {}
    for split in data.splits.values():
        rated = split.targets["rate"]
        np.testing.assert_array_equal(split.sample_weights["rating"], rated)
        assert split.sample_weights["rate"].tolist() == [1] * len(split)
        assert (split.targets["rating"][rated == 0] == 0).all()
        for user, joke, flag, rating in zip(*split.features.values(), *split.targets.values()):
            assert (user, joke) not in found
            found[int(user), int(joke)] = float(rating) if flag else None
    return found


def expected_ratings(rows):
    return {
        (user, joke): None if x is None else pytest.approx(x, abs=1e-6)
        for user, row in enumerate(rows)
        for joke, x in enumerate(row)
    }


def test_every_pair_is_a_row_and_a_rating_of_zero_counts(tmp_path):
    rows = matrix(7)
    write(tmp_path / "jester-data-1.csv", rows)
    data = jester(tmp_path)
    assert any(x == 0 for row in rows for x in row)
    assert ratings_of(data) == expected_ratings(rows)
    assert [len(split) for split in data.splits.values()] == [490, 105, 105]
    assert data.vocabulary_sizes == {"user": 7, "joke": 100}
    assert data.tasks == {"rate": "binary", "rating": "regression"}
    arrays = [*data.train.features.values(), *data.train.targets.values(), *data.train.sample_weights.values()]
    assert [array.dtype for array in arrays] == ["int32"] * 2 + ["float32"] * 4
    assert f"{sum(x is not None for row in rows for x in row)} of them rated" in data.description


def test_users_are_numbered_through_the_files_whatever_their_format(tmp_path):
    pytest.importorskip("xlrd", reason="xlrd is not installed")
    rows = matrix(9)
    write(tmp_path / "jester-data-1.csv", rows[:4], newline="\r\n", end="\r\n\r\n")
    write(tmp_path / "jester-data-2.csv.gz", rows[4:6], end="")
    write_xls(tmp_path / "jester-data-3.xls", rows[6:])
    (tmp_path / "jester-notes.csv").write_text("of no concern, since there are originals")
    assert ratings_of(jester(tmp_path)) == expected_ratings(rows)


def test_a_single_file_may_have_fewer_jokes_and_a_count_over_all(tmp_path):
    rows = matrix(30, jokes=4)
    lines = [f"{40 + i % 9},{line.split(',', 1)[1]}" for i, line in enumerate(lines_of(rows))]
    path = write_lines(tmp_path / "jester-first4.csv.gz", lines)
    assert ratings_of(jester(tmp_path)) == ratings_of(jester(path)) == expected_ratings(rows)
    assert jester(path).vocabulary_sizes == {"user": 30, "joke": 4}


def test_several_files_need_all_jokes(tmp_path):
    write(tmp_path / "jester-data-1.csv", matrix(3))
    write(tmp_path / "jester-data-2.csv", matrix(3, jokes=10))
    with pytest.raises(ValueError, match=r"jester-data-2.csv: expected a count and 100 ratings.*Found: 11 numbers"):
        jester(tmp_path)


@pytest.mark.parametrize(
    "names, match",
    [
        (("jester-data-1.csv", "jester-data-1.csv.gz"), "same matrix more than once.*jester-data-1.csv, "),
        (("jester-a.csv", "jester-b.csv"), "several matrices.*jester-a.csv, jester-b.csv"),
    ],
)
def test_unclear_folders_are_refused(tmp_path, names, match):
    for name in names:
        write(tmp_path / name, matrix(3))
    with pytest.raises(ValueError, match=match):
        jester(tmp_path)


def change(line, column, value):
    fields = line.split(",")
    fields[column] = value
    return ",".join(fields)


@pytest.mark.parametrize(
    "column, value, match",
    [
        (5, "10.01", r"a rating must lie in -10\.\.10, or be 99 for none\. Found: 10.01"),
        (100, "-99", "a rating must lie in"),
        (5, "joke", "expected 101 numbers"),
        (5, "", "expected 101 numbers"),
        (5, "nan", "finite"),
        (5, "1,2", "expected 101 numbers"),
        (0, "101", r"count of rated jokes must be an integer in 0\.\.100"),
        (0, "50.5", "count of rated jokes"),
    ],
)
def test_malformed_line_is_named(tmp_path, column, value, match):
    lines = lines_of(matrix(6))
    lines[3] = change(lines[3], column, value)
    write_lines(tmp_path / "jester-data-1.csv", lines)
    with pytest.raises(ValueError, match=rf"jester-data-1.csv, line 4: .*{match}"):
        jester(tmp_path)


@pytest.mark.parametrize("jokes, more", [(100, -1), (100, 1), (8, -1)])
def test_count_that_disagrees_is_named(tmp_path, jokes, more):
    rows = matrix(6, jokes)
    found = sum(x is not None for x in rows[2])
    lines = lines_of(rows)
    lines[2] = change(lines[2], 0, str(found + more))
    write_lines(tmp_path / "jester-data-1.csv", lines)
    with pytest.raises(ValueError, match=rf"line 3: the count .* is not the number .*Found: {found + more}, {found}$"):
        jester(tmp_path)


def test_blank_lines_and_cut_off_files_are_named(tmp_path):
    lines = lines_of(matrix(6))
    write_lines(tmp_path / "jester-data-1.csv", [*lines[:2], "", *lines[2:]])
    with pytest.raises(ValueError, match="jester-data-1.csv, line 3: expected 101 numbers"):
        jester(tmp_path)
    write_lines(tmp_path / "jester-data-1.csv", [*lines[:5], lines[5][:100]], end="")
    with pytest.raises(ValueError, match="jester-data-1.csv, line 6: expected 101 numbers"):
        jester(tmp_path)
    (tmp_path / "jester-data-1.csv").unlink()
    path = write_lines(tmp_path / "jester-data-1.csv.gz", lines)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="jester-data-1.csv.gz is not a complete gzip file"):
        jester(tmp_path)


def test_xls_that_cannot_be_read_says_why(tmp_path, monkeypatch):
    pytest.importorskip("xlrd", reason="xlrd is not installed")
    path = write_xls(tmp_path / "jester-data-1.xls", matrix(3), text=(1, 7, "joke"))
    with pytest.raises(ValueError, match="jester-data-1.xls, line 2: expected 101 numbers. Found: 'joke'"):
        jester(tmp_path)
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 cut off")
    with pytest.raises(ValueError, match="jester-data-1.xls cannot be read as .xls"):
        jester(tmp_path)
    monkeypatch.setitem(sys.modules, "xlrd", None)
    with pytest.raises(ValueError, match="pip install xlrd.*as .csv"):
        jester(tmp_path)


def test_folder_without_data_and_no_folder_say_what_to_download(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"jester-data-\*\.csv.*https://eigentaste.berkeley.edu"):
        jester(tmp_path)
    with pytest.raises(FileNotFoundError, match="`data_dir` is missing.*https://eigentaste.berkeley.edu"):
        jester()
    with pytest.raises(FileNotFoundError, match="not a folder.*nowhere"):
        jester(tmp_path / "nowhere")


def test_seed_decides_the_split_and_rows_are_drawn_from_it(tmp_path):
    write(tmp_path / "jester-data-1.csv", matrix(5))

    def pairs(data, split="train"):
        features = data.splits[split].features
        return list(zip(features["user"].tolist(), features["joke"].tolist()))

    whole, part = jester(tmp_path, seed=3), jester(tmp_path, rows=20, seed=3)
    assert pairs(part) == pairs(whole)[:20] and pairs(part, "test") == pairs(whole, "test")
    assert len({user for user, _ in pairs(part)}) > 2  # drawn, not the first ones
    assert pairs(whole) != pairs(jester(tmp_path))
    for rows, match in ((351, "at most 350"), (0, "`rows`"), (2.5, "`rows`")):
        with pytest.raises(ValueError, match=match):
            jester(tmp_path, rows=rows)
    write(tmp_path / "jester-data-1.csv", matrix(1, jokes=2))
    with pytest.raises(ValueError, match="Too few rows"):
        jester(tmp_path)


# --- the real files ----------------------------------------------------------


def counted(path):
    """Users, jokes, ratings and their sum, counted line by line."""
    with gzip.open(path, "rt") as file:
        lines = list(csv.reader(file))
    ratings = [float(x) for line in lines for x in line[1:] if x != "99"]
    return len(lines), len(lines[0]) - 1, len(ratings), sum(ratings)


@needs_real_files
@pytest.mark.parametrize(
    "source, file, sizes",
    [
        ("", "jester-data-1_5000rows.csv.gz", [350_000, 75_000, 75_000]),
        ("jester-first10-all-users.csv.gz", "jester-first10-all-users.csv.gz", [513_947, 110_131, 110_132]),
    ],
)
def test_real_files(source, file, sizes):
    data = jester(REAL / source)
    users, jokes, rated, total = counted(REAL / file)
    splits = data.splits.values()
    assert data.vocabulary_sizes == {"user": users, "joke": jokes}
    assert [len(split) for split in splits] == sizes and sum(sizes) == users * jokes
    pairs = np.concatenate([split.features["user"] * jokes + split.features["joke"] for split in splits])
    assert len(np.unique(pairs)) == users * jokes
    assert sum(split.targets["rate"].sum() for split in splits) == rated
    assert sum(split.targets["rating"].sum(dtype="float64") for split in splits) == pytest.approx(total, abs=0.01)
    for split in splits:
        assert split.targets["rate"].mean() == pytest.approx(rated / (users * jokes), abs=0.005)


@needs_real_files
def test_real_files_agree_with_each_other():
    numbers = [int(line) - 1 for line in gzip.open(REAL / "jester-data-1_5000rows.rownumbers.txt.gz", "rt")]
    tables = []
    for source, users in (("", np.arange(5_000)), ("jester-first10-all-users.csv.gz", np.array(numbers))):
        data = jester(REAL / source)
        ratings = np.zeros((data.vocabulary_sizes["user"], data.vocabulary_sizes["joke"]), "float32")
        for split in data.splits.values():
            ratings[split.features["user"], split.features["joke"]] = split.targets["rating"]
        tables.append(ratings[users, :10])
    np.testing.assert_array_equal(*tables)
