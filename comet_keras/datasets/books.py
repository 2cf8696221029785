"""Books: does a user read a book, and how does the user rate it?"""

from pathlib import Path

import numpy as np

from comet_keras.datasets.book_ratings import find_book_ratings, read_book_ratings
from comet_keras.datasets.recommender import make_dataset, make_split, split_rows
from comet_keras.datasets.registry import DATASETS
from comet_keras.validation import non_negative_int, positive_int


def books(data_dir=None, rows=None, seed=0, minimum=5):
    """Two tasks on Book-Crossing: a read flag for every record, a rating for the read ones.

    A record with a rating of 1..10 counts as read; the records with rating 0,
    which the source calls implicit, are the negatives. Users and books with few
    records are left out, again and again until each has `minimum` records among
    those that are left. The rest is split 70/15/15 at random.

    Source: COMET (KDD 2023), Supplement S1.1; data by Ziegler, McNee, Konstan
    and Lausen (2005). The paper has 18,960 users, 31,070 books and 556,724
    records, and split sizes that add up to them, so its negatives are among the
    records. It does not say whether it filters once or until nothing changes.
    Nothing is downloaded.

    Args:
        data_dir: folder, str or path, with the original `BX-Book-Ratings.csv`,
            plain or gzipped: latin-1, header `"User-ID";"ISBN";"Book-Rating"`.
            (Copies with only the explicit ratings lack the negatives.) ISBNs
            are read as text, as odd as some are. Malformed lines, which copies
            of this source are known for, are skipped and counted in
            `description`; a file with more than 10 that are more than 1 % of
            its lines is refused.
        rows: int, number of training rows, drawn at random. Defaults to all.
        seed: int, decides draw and split.
        minimum: int, records that each user and each book has. Defaults to 5.

    Returns:
        `Dataset` with features `{"user": int32 (N,), "book": int32 (N,)}`,
        targets `{"read": float32 (N,), "rating": float32 (N,)}` (rating 0 where
        unread) and sample weights `{"read": ones, "rating": read}`, float32 `(N,)`.

    Raises:
        FileNotFoundError: if the file is not there; says what was looked for.
        ValueError: if the file is cut off or malformed (naming file and line),
            if no record is left, or if `rows` is too large.

    Example:

    >>> import pathlib, tempfile
    >>> from comet_keras.datasets import books
    >>> lines = [f'"{user}";"034545104{book}";"{user * book % 8}"' for user in range(1, 9) for book in range(8)]
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "BX-Book-Ratings.csv").write_text("\\n".join(['"User-ID";"ISBN";"Book-Rating"', *lines]))
    >>> data = books(folder)
    >>> len(data.train), data.vocabulary_sizes
    (44, {'user': 8, 'book': 8})
    """
    minimum = positive_int("minimum", minimum)
    info = DATASETS["books"]
    path = find_book_ratings(Path(info.require(data_dir)))
    if path is None:
        raise FileNotFoundError(info.nothing_in(data_dir))
    users, isbns, ratings, malformed = read_book_ratings(path)
    kept = frequent(users, isbns, minimum)
    if not len(kept):
        raise ValueError(f"{path}: no users and books with `minimum`={minimum} records of each other")
    people, users = np.unique(users[kept], return_inverse=True)
    titles, isbns = np.unique(isbns[kept], return_inverse=True)
    total, ratings = len(ratings), ratings[kept]
    parts = split_rows(len(kept), rows, np.random.default_rng(non_negative_int("seed", seed)))
    return make_dataset(
        "books",
        [make_split("book", "read", users[part], isbns[part], ratings[part] > 0, ratings[part]) for part in parts],
        (len(people), len(titles)),
        f"{len(kept)} of {total} records of {path.name}, {np.count_nonzero(ratings)} of them read: {len(people)} users "
        f"and {len(titles)} books with at least {minimum} records; {malformed} malformed lines skipped; "
        f"split 70/15/15 at random (seed={seed}).",
    )


def frequent(users, items, minimum):
    """Returns the numbers of the rows left when each of their users and items has `minimum` of them.

    Args:
        users, items: int arrays `(N,)` of codes from 0.
        minimum: int.
    """
    kept = np.arange(len(users))
    while True:
        rare = [np.bincount(codes[kept], minlength=1)[codes[kept]] < minimum for codes in (users, items)]
        if not np.any(rare):
            return kept
        kept = kept[~(rare[0] | rare[1])]
