"""MovieLens from the COMET paper's own pairs."""

import pytest
from datasets.movielens_files import FOLDERS, pair_rows, rows_of, write, write_pairs

from comet_keras.datasets import movielens


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
