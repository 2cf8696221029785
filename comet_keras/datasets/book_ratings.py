"""The ratings file of Book-Crossing."""

import itertools
import re

import numpy as np

from comet_keras.datasets.recommender import find_repeated
from comet_keras.datasets.text_table import find_file, read_text

NAME = "BX-Book-Ratings.csv"
HEADER = "user-id;isbn;book-rating"
# A quoted ISBN is any text: some hold blanks, `<` or escaped quotes. Copies without quotes are about as well.
LINE = re.compile(r'^"?(\d+)"?;(?:"(.+)"|([^";]+));"?(\d+)"?$', re.MULTILINE | re.ASCII)


def find_book_ratings(folder):
    """Returns the path of `BX-Book-Ratings.csv`, plain or .gz, in `folder`, or None."""
    return find_file(folder / NAME)


def read_book_ratings(path):
    """Reads `"user";"ISBN";"rating"` lines below a header, latin-1.

    Args:
        path: the file.

    Returns:
        `(users, books, ratings, malformed)`: int64 codes `(N,)` of users and of ISBNs (texts as they
        stand, so different spellings are different books), in ascending order of what they stand for,
        int64 ratings `(N,)` in 0..10, and the number of lines skipped as malformed.

    Raises:
        ValueError: if the file is empty or cut off, has another header, or more than 10 malformed lines
            that are more than 1 % of all; or naming the line, if a rating is not in 0..10 or a user
            has rated a book twice.
    """
    text = read_text(path)
    header, _, text = text.partition("\n")
    if header.replace('"', "").strip().lower() != HEADER:
        raise ValueError(f'{path}, line 1: expected the header "User-ID";"ISBN";"Book-Rating". Found: {header[:80]!r}')
    if not text:
        raise ValueError(f"{path} has a header but no rows")
    found = LINE.findall(text)
    lines = text.count("\n") + 1
    malformed = lines - len(found)
    if malformed > max(10, lines // 100) or not found:
        number, line = next((n, line) for n, line in enumerate(text.split("\n"), 2) if not LINE.fullmatch(line))
        raise ValueError(
            f'{path}: {malformed} of {lines} lines are malformed, the first in line {number}: expected '
            f'"user";"ISBN";"rating". Found: {line[:80]!r}'
        )
    users, quoted, plain, ratings = zip(*found)
    wrong = [row for row, rating in enumerate(ratings) if len(rating) > 2 or int(rating) > 10]
    if wrong:
        _reject(path, text, wrong[0], "a rating must lie in 0..10")
    users, books = _codes(users, key=int), _codes([one or other for one, other in zip(quoted, plain)])
    repeated = find_repeated(users * (books.max() + 1) + books)
    if repeated.any():
        _reject(path, text, int(np.argmax(repeated)), "this user has rated this book on an earlier line")
    return users, books, np.array(ratings, "int64"), malformed


def _codes(texts, key=None):
    """int64 `(N,)`: the place of each text among the distinct ones, in the order of `key`."""
    # Not np.unique: one long text would widen an array of a million.
    code = {text: place for place, text in enumerate(sorted(set(texts), key=key))}
    return np.fromiter(map(code.__getitem__, texts), "int64", len(texts))


def _reject(path, text, row, message):
    matching = ((n, line) for n, line in enumerate(text.split("\n"), 2) if LINE.fullmatch(line))
    number, line = next(itertools.islice(matching, row, None))
    raise ValueError(f"{path}, line {number}: {message}. Found: {line[:80]!r}")
