"""MovieLens from tensorflow-datasets, on its mocked data."""

import sys

import numpy as np
import pytest

from comet_keras.datasets import movielens
from comet_keras.datasets.movielens_tfds import read_ratings

LINES = [
    f"{user}::{movie}::{1 + (user + movie) % 5}::1" for user in range(1, 21) for movie in range(1 + user % 3, 12, 2)
]


@pytest.fixture(scope="module")
def tfds():
    return pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets is not installed")


def mocked(tfds, lines):
    """Mocks tensorflow-datasets with the ratings of `lines`, in the types of its own data set."""
    import tensorflow as tf

    def as_dataset(self, *args, decoders=None, **kwargs):
        features = self.info.features
        assert self.info.full_name.startswith("movielens/1m-ratings/")
        assert set(decoders.extract_features(features)) == {"user_id", "movie_id", "user_rating"}
        columns = list(zip(*(line.split("::") for line in lines)))
        rows = {
            "user_id": np.array(columns[0], object),
            "movie_id": np.array(columns[1], object),
            "user_rating": np.array(columns[2], "float32"),
        }
        for name, values in rows.items():
            assert features[name].np_dtype == (object if values.dtype == object else values.dtype)
        return tf.data.Dataset.from_tensor_slices(rows)

    return tfds.testing.mock_data(as_dataset_fn=as_dataset)


def rows_of(split):
    return list(zip(*(column.tolist() for column in (*split.features.values(), *split.targets.values()))))


def test_ratings_are_those_of_the_file_in_whatever_order_they_come(tfds, tmp_path):
    (tmp_path / "ratings.dat").write_text("\n".join(LINES))
    from_file = movielens(tmp_path)
    datasets = []
    for lines in (LINES, np.random.default_rng(0).permutation(LINES).tolist()):
        with mocked(tfds, lines):
            datasets.append(movielens())
    first, again = datasets
    assert rows_of(first.train) == rows_of(again.train) and rows_of(first.test) == rows_of(again.test)
    assert first.vocabulary_sizes == from_file.vocabulary_sizes == {"user": 20, "movie": 11}
    assert "movielens/1m-ratings" in first.description

    def watched(data):
        return sorted(row for split in data.splits.values() for row in rows_of(split) if row[2] == 1)

    # The file is in the order of users and movies too, so that even the draws are the same.
    assert watched(first) == watched(from_file) and rows_of(first.train) == rows_of(from_file.train)


def test_a_folder_of_tensorflow_datasets_serves_too(tfds, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No MovieLens data in .*ratings\.dat"):
        movielens(tmp_path)
    (tmp_path / "movielens" / "1m-ratings").mkdir(parents=True)
    with mocked(tfds, LINES):
        assert movielens(tmp_path).vocabulary_sizes == {"user": 20, "movie": 11}


def test_ids_that_are_no_numbers_and_repeated_pairs_are_refused(tfds):
    # tensorflow-datasets' own mocks fill texts with letters, in the types and names of the data set.
    with tfds.testing.mock_data(num_examples=5), pytest.raises(ValueError, match="user_id must be a whole number"):
        read_ratings()
    with mocked(tfds, [*LINES, LINES[3]]), pytest.raises(ValueError, match="more than once"):
        read_ratings()


def test_without_tensorflow_datasets_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(FileNotFoundError, match=r"not installed.*grouplens.org.*comet_keras\[datasets\]"):
        movielens()
