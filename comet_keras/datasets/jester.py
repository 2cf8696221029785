"""Jester: does a user rate a joke, and how?"""

from pathlib import Path

import numpy as np

from comet_keras.datasets.jester_files import find_matrices, read_matrices
from comet_keras.datasets.recommender import make_dataset, make_split, split_rows
from comet_keras.datasets.registry import DATASETS
from comet_keras.validation import non_negative_int


def jester(data_dir=None, rows=None, seed=0):
    """Two tasks on Jester: a flag for every pair of user and joke, a rating for the rated ones.

    Every pair of a user and a joke is a row, so the unrated pairs are the
    negatives. The rows are split 70/15/15 at random.

    Source: COMET (KDD 2023), Supplement S1.1, whose 7.4 million records and
    split sizes are those of the whole matrix, 73,421 users x 100 jokes; data by
    Goldberg, Roeder, Gupta and Perkins (2001),
    https://eigentaste.berkeley.edu/dataset. Nothing is downloaded.

    Args:
        data_dir: folder, str or path, with any number of files
            `jester-data-*.csv`, `.csv.gz` or `.xls` (the last needs xlrd); or
            with one other `jester*` file of these formats; or the path of one
            such file. A line is a user: the number of jokes rated, then 100
            ratings in -10..10, 99 where there is none; no header. Users are
            numbered through the files in the order of their names. A single
            file may have fewer jokes.
        rows: int, number of training rows, drawn at random. Defaults to all.
        seed: int, decides draw and split.

    Returns:
        `Dataset` with features `{"user": int32 (N,), "joke": int32 (N,)}`,
        targets `{"rate": float32 (N,), "rating": float32 (N,)}` (rating 0
        where there is none) and sample weights `{"rate": ones, "rating": rate}`,
        float32 `(N,)`. A rating of 0 counts: the flag decides, not the value.

    Raises:
        FileNotFoundError: if there is no such file; says what was looked for.
        ValueError: if a file is malformed or cut off, or its first column is
            not the number of ratings (naming file and line), or if `rows` is
            too large.

    Example:

    >>> import pathlib, tempfile
    >>> from comet_keras.datasets import jester
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "jester-data-1.csv").write_text("2,-7.5,99,0\\n1,99,99,9.25\\n" * 10)
    >>> data = jester(folder)
    >>> len(data.train), len(data.validation), len(data.test), data.vocabulary_sizes
    (42, 9, 9, {'user': 20, 'joke': 3})
    """
    info = DATASETS["jester"]
    files = find_matrices(info.require(data_dir))
    if not files:
        raise FileNotFoundError(info.nothing_in(data_dir))
    ratings = read_matrices(files)
    users, jokes = ratings.shape
    parts = split_rows(ratings.size, rows, np.random.default_rng(non_negative_int("seed", seed)))
    names = ", ".join(Path(file).name for file in files)
    rated = int(np.isfinite(ratings).sum())
    return make_dataset(
        "jester",
        [_take(ratings, part) for part in parts],
        (users, jokes),
        f"All {ratings.size} pairs of {users} users and {jokes} jokes of {names}, {rated} of them rated, "
        f"split 70/15/15 at random (seed={seed}).",
    )


def _take(ratings, rows):
    """The split of some pairs, numbered along the rows of the matrix."""
    values = ratings.reshape(-1)[rows]
    rated = np.isfinite(values)
    users, jokes = np.divmod(rows, ratings.shape[1])
    return make_split("joke", "rate", users, jokes, rated, np.where(rated, values, np.float32(0)))
