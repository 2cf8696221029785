"""What the recommender data sets share: pairs of a user and an item, a flag, and a rating of the flagged pairs."""

import numpy as np

from comet_keras.datasets.dataset import Dataset, Split
from comet_keras.validation import positive_int


def make_split(item, flag, users, items, flags, ratings):
    """Returns the `Split` of pairs whose rating counts where the flag is set.

    Args:
        item: str, name of the feature beside `"user"`.
        flag: str, name of the task beside `"rating"`.
        users, items: int arrays `(N,)`, ids from 0.
        flags: array `(N,)` of 0 and 1.
        ratings: array `(N,)`, 0 where the flag is not set.
    """
    flags = flags.astype("float32")
    return Split(
        features={"user": users.astype("int32"), item: items.astype("int32")},
        targets={flag: flags, "rating": ratings.astype("float32")},
        sample_weights={flag: np.ones_like(flags), "rating": flags.copy()},
    )


def make_dataset(name, splits, sizes, description):
    """Returns the `Dataset` of three splits of `make_split`; `sizes` are the numbers of users and of items."""
    features, tasks = splits[0].features, splits[0].targets
    return Dataset(
        name,
        *splits,
        tasks={task: "regression" if task == "rating" else "binary" for task in tasks},
        vocabulary_sizes=dict(zip(features, sizes)),
        description=description,
    )


def split_rows(count, rows, generator):
    """Splits row numbers 70/15/15 into training, validation and test at random (COMET, KDD 2023, Supplement S1.1).

    The paper's 556,724 records of Books become 389,706, 83,509 and 83,509, as it says.

    Args:
        count: int, number of rows.
        rows: int or None, the training rows to keep, the first of their random order. None: all.
        generator: `numpy.random.Generator`.

    Returns:
        Three int arrays of distinct row numbers.

    Raises:
        ValueError: if a split would be empty or `rows` is too large.
    """
    train = count * 7 // 10
    middle = train + (count - train) // 2
    if not 0 < train < middle:
        raise ValueError(f"Too few rows to split 70/15/15. Received: {count}")
    if rows is not None and positive_int("rows", rows) > train:
        raise ValueError(f"`rows` must be at most {train}, the number of training rows. Received: rows={rows}")
    order = generator.permutation(count)
    return order[:train][:rows], order[train:middle], order[middle:]


def find_repeated(keys):
    """bool `(N,)`: True where an equal key stands further up."""
    order = np.argsort(keys, kind="stable")
    repeated = np.zeros(len(keys), bool)
    repeated[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return repeated
