"""The ratings files of the MovieLens releases."""

from pathlib import Path

import numpy as np

from comet_keras.datasets.recommender import find_repeated
from comet_keras.datasets.text_table import Table, find_file

LOOKED_FOR = ("ratings.dat or one ratings*.dat", "u.data", "ratings.csv")


def find_ratings(folder):
    """Returns the ratings file in `folder`, or None.

    Raises:
        ValueError: if there is no `ratings.dat` but several `ratings*.dat`.
    """
    folder = Path(folder)
    exact = find_file(folder / "ratings.dat")
    if exact is not None:
        return exact
    parts = sorted([*folder.glob("ratings*.dat"), *folder.glob("ratings*.dat.gz")])
    if len(parts) > 1:
        raise ValueError(f"{folder} has several ratings files; keep one: {[part.name for part in parts]}")
    return next(iter(parts), None) or find_file(folder / "u.data") or find_file(folder / "ratings.csv")


def read_ratings(path):
    """Reads `ratings*.dat` (`user::movie::rating::time`), `u.data` (tabs) or `ratings.csv` (header), plain or .gz.

    Args:
        path: the file.

    Returns:
        `(users, movies, ratings, num_users, num_movies)`: int64 ids `(N,)` from 0,
        float32 ratings `(N,)`, and the sizes of the vocabularies.

    Raises:
        ValueError: naming file and line, if a line is malformed or a pair comes twice.
    """
    name = Path(path).name.removesuffix(".gz")
    if name.endswith(".csv"):
        table = Table(path, 4, ",", header="userId,movieId,rating,timestamp")
    else:
        table = Table(path, 4, "::" if name.endswith(".dat") else "\t")
    users, num_users = from_zero(table.integers(0, "the user id"))
    movies, num_movies = from_zero(table.integers(1, "the movie id"))
    table.reject(find_repeated(users * num_movies + movies), "this user has rated this movie on an earlier line")
    return users, movies, table.values[:, 2].astype("float32"), num_users, num_movies


def from_zero(ids):
    """Returns ids that start at 0 and how many there are, gaps included.

    Ids that start at 1 or above are lowered by 1, as in the COMET paper's data
    (ML-1M: 6,040 users, 3,952 movies, some of them never rated). If that leaves
    more than half of the range unused, as with the movie ids of the newer
    releases, ids are renumbered instead: the i-th smallest becomes i.
    """
    lowered = ids - min(int(ids.min()), 1)
    size = int(lowered.max()) + 1
    distinct, codes = np.unique(ids, return_inverse=True)
    return (codes, len(distinct)) if size > 2 * len(distinct) else (lowered, size)
