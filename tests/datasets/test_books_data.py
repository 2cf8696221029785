import collections
import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from comet_keras.datasets import books
from comet_keras.datasets.book_ratings import read_book_ratings
from comet_keras.datasets.books import frequent

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "books"
needs_real_files = pytest.mark.skipif(not REAL.is_dir(), reason="the Book-Crossing file is not beside the repository")

HEADER = '"User-ID";"ISBN";"Book-Rating"'


def write(path, lines, header=HEADER, newline="\n", end="\n"):
    data = (newline.join([header, *lines]) + end).encode("latin-1")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def line(user, isbn, rating):
    return f'"{user}";"{isbn}";"{rating}"'


def dense_lines(users=8, titles=9):
    """Every user has a record of every book; every third one is a rating."""
    return [
        line(276700 + user, f"03455{book:04d}X", (user + book) % 11 if (user + book) % 3 == 0 else 0)
        for user in range(users)
        for book in range(titles)
    ]


def rows_of(data):
    """(user, book, read, rating) of all splits, checked against the weights."""
    rows = []
    for split in data.splits.values():
        np.testing.assert_array_equal(split.sample_weights["rating"], split.targets["read"])
        assert split.sample_weights["read"].tolist() == [1] * len(split)
        rows += list(zip(*(column.tolist() for column in (*split.features.values(), *split.targets.values()))))
    return rows


def expected_rows(lines):
    """The same of quoted lines, ids numbered in ascending order."""
    table = [next(csv.reader([text], delimiter=";")) for text in lines]
    users = sorted({int(user) for user, _, _ in table})
    isbns = sorted({isbn for _, isbn, _ in table})
    return sorted(
        (users.index(int(user)), isbns.index(isbn), float(rating != "0"), float(rating)) for user, isbn, rating in table
    )


@pytest.mark.parametrize("name", ["BX-Book-Ratings.csv", "BX-Book-Ratings.csv.gz"])
@pytest.mark.parametrize("newline, end", [("\n", "\n"), ("\r\n", "\r\n"), ("\n", "")])
def test_original_layout_is_read_however_lines_end(tmp_path, name, newline, end):
    lines = dense_lines()
    write(tmp_path / name, lines, newline=newline, end=end)
    data = books(tmp_path)
    assert sorted(rows_of(data)) == expected_rows(lines)
    assert data.vocabulary_sizes == {"user": 8, "book": 9}
    assert data.tasks == {"read": "binary", "rating": "regression"}
    assert [len(split) for split in data.splits.values()] == [50, 11, 11]
    arrays = [*data.train.features.values(), *data.train.targets.values(), *data.train.sample_weights.values()]
    assert [array.dtype for array in arrays] == ["int32"] * 2 + ["float32"] * 4


ODD = ["3518365479<90", "3442248027  3", " 0330299891", '\\"0432534220\\"', "0;5", '"', "caf\xe9", "03454x", "03454X"]


def test_isbns_are_texts_as_they_stand(tmp_path):
    path = write(tmp_path / "BX-Book-Ratings.csv", [line(user, isbn, 7) for user in (9, 10) for isbn in ODD])
    users, isbns, ratings, malformed = read_book_ratings(path)
    assert malformed == 0 and ratings.tolist() == [7] * 18
    assert users.tolist() == [0] * 9 + [1] * 9  # in the order of numbers, not of texts
    assert isbns.tolist() == [sorted(ODD).index(isbn) for isbn in ODD] * 2


def test_copies_without_quotes_or_with_some_of_them_are_read(tmp_path):
    lines = ["1;034545104X;5", '"1";0155061224;"0"', '1;"0446520802;"7"', '1;"052165615X";3']
    users, isbns, ratings, malformed = read_book_ratings(write(tmp_path / "r.csv", lines, "User-ID;ISBN;Book-Rating"))
    # The third has a quote without its partner.
    assert (users.tolist(), isbns.tolist(), ratings.tolist(), malformed) == ([0] * 3, [1, 0, 2], [5, 0, 3], 1)


def test_malformed_lines_are_skipped_and_counted(tmp_path):
    lines = dense_lines()
    broken = ['"276725";"0345"', "", '"x";"0345";"5"', '"1";"";"5"', '"1";"0345";"five"', "\xff\x00"]
    mixed = lines.copy()
    for place, text in zip((0, 5, 20, 21, 40, 60), broken):
        mixed.insert(place, text)
    write(tmp_path / "BX-Book-Ratings.csv", mixed)
    data = books(tmp_path)
    assert sorted(rows_of(data)) == expected_rows(lines)
    assert "6 malformed lines skipped" in data.description


def test_file_of_many_malformed_lines_is_refused(tmp_path):
    lines = dense_lines()
    write(tmp_path / "BX-Book-Ratings.csv", [*lines[:3], *["276725,0345,5"] * 11, *lines[3:]])
    with pytest.raises(ValueError, match=r"11 of 83 lines are malformed, the first in line 5: .*276725,0345,5"):
        books(tmp_path)
    write(tmp_path / "BX-Book-Ratings.csv", ["276725,0345,5"])
    with pytest.raises(ValueError, match=r"1 of 1 lines are malformed, the first in line 2"):
        books(tmp_path)


@pytest.mark.parametrize(
    "text, match",
    [
        (line(1, "0345", 11), r"a rating must lie in 0\.\.10"),
        (line(1, "0345", "9" * 30), r"a rating must lie in 0\.\.10"),
        (dense_lines()[0], "has rated this book on an earlier line"),
    ],
)
def test_impossible_line_is_named_behind_malformed_ones(tmp_path, text, match):
    lines = dense_lines()
    write(tmp_path / "BX-Book-Ratings.csv", [lines[0], "malformed", *lines[1:10], text, *lines[10:]])
    with pytest.raises(ValueError, match=rf"BX-Book-Ratings.csv, line 13: .*{match}"):
        books(tmp_path)


def test_empty_cut_off_and_foreign_files_are_named(tmp_path):
    path = write(tmp_path / "BX-Book-Ratings.csv.gz", dense_lines())
    whole = path.read_bytes()
    for data, match in [
        (whole[: len(whole) // 2], "not a complete gzip file"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(HEADER.encode()), "has a header but no rows"),
        (gzip.compress(b"user,isbn,rating\n1,2,3\n"), "line 1: expected the header.*user,isbn,rating"),
    ]:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"BX-Book-Ratings.csv.gz.*{match}"):
            books(tmp_path)


def test_folder_without_data_and_no_folder_say_what_to_download(tmp_path):
    (tmp_path / "bx_explicit_ratings.csv").write_text("user,isbn,rating\n1,2,3\n")
    with pytest.raises(FileNotFoundError, match=r"BX-Book-Ratings\.csv.*BX-CSV-Dump.zip"):
        books(tmp_path)
    with pytest.raises(FileNotFoundError, match="`data_dir` is missing.*BX-CSV-Dump.zip"):
        books()
    with pytest.raises(FileNotFoundError, match="not a folder.*nowhere"):
        books(tmp_path / "nowhere")


def test_users_and_books_are_filtered_until_each_has_enough_records():
    # Book 5 has two records only together with user 3, who has one book that is not as rare.
    users = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3])
    items = np.array([0, 1, 2, 0, 1, 2, 0, 1, 5, 6, 0])
    assert frequent(users, items, 1).tolist() == list(range(11))
    assert frequent(users, items, 2).tolist() == list(range(8))
    assert frequent(users, items, 3).tolist() == []


def test_what_is_left_has_enough_records_and_nothing_else_was_left_out(tmp_path):
    rng = np.random.default_rng(4)
    pairs = sorted({(int(user), int(book)) for user, book in rng.zipf(1.5, (900, 2)) if max(user, book) < 200})
    write(tmp_path / "BX-Book-Ratings.csv", [line(user, book, (user * book) % 4) for user, book in pairs])
    data = books(tmp_path, minimum=3)
    left = set(pairs)
    while True:
        counts = [collections.Counter(pair[side] for pair in left) for side in (0, 1)]
        few = {pair for pair in left if counts[0][pair[0]] < 3 or counts[1][pair[1]] < 3}
        if not few:
            break
        left -= few
    assert 30 < len(left) < len(pairs)
    assert data.vocabulary_sizes == {"user": len(counts[0]), "book": len(counts[1])}
    assert sorted(rows_of(data)) == expected_rows([line(user, book, (user * book) % 4) for user, book in sorted(left)])
    with pytest.raises(ValueError, match="`minimum`=100"):
        books(tmp_path, minimum=100)
    with pytest.raises(ValueError, match="minimum"):
        books(tmp_path, minimum=0)


def test_seed_decides_the_split_and_rows_are_drawn_from_it(tmp_path):
    write(tmp_path / "BX-Book-Ratings.csv", dense_lines())
    whole, part, other = books(tmp_path, seed=3), books(tmp_path, rows=20, seed=3), books(tmp_path)
    for name in ("user", "book"):
        np.testing.assert_array_equal(part.train.features[name], whole.train.features[name][:20])
        np.testing.assert_array_equal(part.test.features[name], whole.test.features[name])
    assert rows_of(whole) != rows_of(other) and sorted(rows_of(whole)) == sorted(rows_of(other))
    with pytest.raises(ValueError, match="at most 50"):
        books(tmp_path, rows=51)


def test_sizes_are_those_of_the_paper():
    from comet_keras.datasets.recommender import split_rows

    parts = split_rows(556_724, None, np.random.default_rng(0))
    assert [len(part) for part in parts] == [389_706, 83_509, 83_509]
    assert len(np.unique(np.concatenate(parts))) == 556_724


# --- the real file -----------------------------------------------------------


@needs_real_files
def test_real_file():
    with gzip.open(REAL / "BX-Book-Ratings.csv.gz", "rt", encoding="latin-1") as file:
        table = [(user, isbn, int(rating)) for user, isbn, rating in list(csv.reader(file, delimiter=";"))[1:]]
    assert len(table) == 100_726
    left, before = table, None
    while before != len(left):
        before = len(left)
        users, isbns = (collections.Counter(row[side] for row in left) for side in (0, 1))
        left = [row for row in left if users[row[0]] >= 5 and isbns[row[1]] >= 5]
    data = books(REAL)
    splits = data.splits.values()
    assert data.vocabulary_sizes == {"user": len(users), "book": len(isbns)} == {"user": 1_986, "book": 2_789}
    assert sum(map(len, splits)) == len(left) == 33_520
    assert [len(split) for split in splits] == [23_464, 5_028, 5_028]
    assert sum(split.targets["read"].sum() for split in splits) == sum(rating > 0 for *_, rating in left)
    assert sum(split.targets["rating"].sum(dtype="float64") for split in splits) == sum(rating for *_, rating in left)
    assert "of 100726 records" in data.description and "; 0 malformed" in data.description
