"""The COMET paper's own (user, movie) pairs, as its repository ships them."""

from pathlib import Path

import numpy as np

from comet_keras.datasets.text_table import Table, find_file

FEATURES, WATCH, RATING = "shared_features", "watch_classification_targets", "rating_regression_targets"
NUM_USERS, NUM_MOVIES = 6040, 3952  # ids of ML-1M less 1; some movies were never rated


def find_pairs(folder):
    """Returns `folder` if it holds the paper's pairs, else None."""
    folder = Path(folder)
    return folder if (folder / FEATURES).is_dir() else None


def has_train_pairs(folder):
    """True unless `shared_features_train.csv` is missing."""
    return find_file(_file(folder, FEATURES, "train")) is not None


def read_pairs(folder, split):
    """Reads one split of the paper's pairs.

    Args:
        folder: holds `shared_features/`, `watch_classification_targets/` and
            `rating_regression_targets/`, with files `<folder>_<split>.csv`, plain or .gz.
        split: `"train"`, `"val"` or `"test"`.

    Returns:
        `(users, movies, watched, ratings)`, four arrays `(N,)`.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a line is malformed (naming file and line) or the files'
            numbers of rows differ.
    """
    pairs, watch, rating = (
        Table(_existing(_file(folder, part, split)), columns)
        for part, columns in ((FEATURES, 2), (WATCH, 1), (RATING, 1))
    )
    if len({len(pairs), len(watch), len(rating)}) > 1:
        counts = ", ".join(f"{table.path}: {len(table)}" for table in (pairs, watch, rating))
        raise ValueError(f"The files of a split must have the same number of rows. Received: {counts}")
    users = pairs.integers(0, "the user id", high=NUM_USERS - 1)
    movies = pairs.integers(1, "the movie id", high=NUM_MOVIES - 1)
    watched = watch.integers(0, "the watch target", high=1)
    return users, movies, watched, rating.values[:, 0].astype(np.float32)


def _file(folder, part, split):
    return Path(folder) / part / f"{part}_{split}.csv"


def _existing(path):
    file = find_file(path)
    if file is None:
        raise FileNotFoundError(f"Neither {path} nor {path}.gz is there")
    return file
