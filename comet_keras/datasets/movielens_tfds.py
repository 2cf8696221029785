"""The ratings of ML-1M from tensorflow-datasets."""

import numpy as np

from comet_keras.datasets.movielens_ratings import from_zero
from comet_keras.datasets.recommender import find_repeated
from comet_keras.datasets.registry import DATASETS
from comet_keras.datasets.tfds_arrays import from_tfds

NAME = "movielens/1m-ratings"
COLUMNS = ("user_id", "movie_id", "user_rating")


def read_ratings(data_dir=None):
    """Loads the ratings, ordered by user and movie: tensorflow-datasets stores them in an order of its own.

    Args:
        data_dir: folder in which tensorflow-datasets has prepared them before, or None: its own folder,
            and a download if nothing is there.

    Returns:
        As `movielens_ratings.read_ratings`.

    Raises:
        FileNotFoundError: if the data is not there and cannot be had.
        ValueError: if an id is no whole number or a pair comes twice.
    """
    (table,) = from_tfds(DATASETS["movielens"], NAME, ["train"], data_dir, _decoders())
    users, num_users = from_zero(_ids(table, "user_id"))
    movies, num_movies = from_zero(_ids(table, "movie_id"))
    order = np.lexsort((movies, users))
    users, movies, ratings = users[order], movies[order], table["user_rating"][order].astype("float32")
    if find_repeated(users * num_movies + movies).any():
        raise ValueError(f"{NAME} of tensorflow-datasets has a pair of user and movie more than once")
    return users, movies, ratings, num_users, num_movies


def _decoders():
    """What keeps tensorflow-datasets from decoding the titles and genres of a million rows."""
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        return None  # `from_tfds` reports it
    return tfds.decode.PartialDecoding({column: True for column in COLUMNS})


def _ids(table, column):
    """The ids, which tensorflow-datasets keeps as text, as int64."""
    texts = np.asarray(table[column]).astype("S")
    if not np.char.isdigit(texts).all():
        text = texts[~np.char.isdigit(texts)][0].decode("latin-1")
        raise ValueError(f"{NAME} of tensorflow-datasets: {column} must be a whole number. Found: {text!r}")
    return texts.astype("int64")
