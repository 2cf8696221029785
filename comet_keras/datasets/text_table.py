"""Text files of numbers, plain or gzipped, with errors that name file and line."""

import io
from pathlib import Path

import numpy as np

from comet_keras.datasets.gzipped import read_bytes


def find_file(path):
    """Returns `path`, else `path` with `.gz` added, else None: whichever is a file."""
    path = Path(path)
    return next((file for file in (path, path.with_name(path.name + ".gz")) if file.is_file()), None)


class Table:
    """The numbers of a text file.

    Args:
        path: the file; gzipped if its name ends in `.gz`.
        columns: int, values a line, or None: as many as the first line has.
        separator: str between values.
        header: the first line, or None if the file has no header.

    Attributes:
        values: float64 `(N, columns)`.

    Raises:
        ValueError: if the file is empty, cut off, or has a malformed line; the
            message names the file and the line.
    """

    def __init__(self, path, columns, separator=",", header=None):
        self.path = Path(path)
        lines = read_text(self.path).split("\n")
        self.first_line = 1
        if header is not None:
            if lines[0].strip().lower() != header.lower():
                raise ValueError(f"{self.path}, line 1: expected the header {header!r}. Found: {lines[0][:80]!r}")
            del lines[0]
            self.first_line = 2
        if not lines:
            raise ValueError(f"{self.path} has a header but no rows")
        columns = lines[0].count(separator) + 1 if columns is None else columns
        self.values = self._parse(lines, columns, separator)
        self.reject(~np.isfinite(self.values).all(axis=1), "expected finite numbers")

    def __len__(self):
        return len(self.values)

    def reject(self, bad, message):
        """Raises ValueError for the first row where `bad`, bool `(N,)`, is True."""
        if bad.any():
            row = int(np.argmax(bad))
            found = ", ".join(f"{value:g}" for value in self.values[row])
            raise ValueError(f"{self.path}, line {row + self.first_line}: {message}. Found: {found}")

    def integers(self, column, name, low=0, high=np.iinfo("int32").max):
        """Returns a column as int64; each value must be whole and in `low..high`."""
        values = self.values[:, column]
        bad = (values != np.floor(values)) | (values < low) | (values > high)
        self.reject(bad, f"{name} must be an integer in {low}..{high}")
        return values.astype("int64")

    def _parse(self, lines, columns, separator):
        # numpy splits at one character only; a control character cannot hide in a number.
        delimiter = separator if len(separator) == 1 else "\x1f"
        text = "\n".join(lines).replace(separator, delimiter)
        try:
            if "" in lines:  # numpy would skip it, and the rows of two files no longer match
                raise ValueError("blank line")
            values = np.loadtxt(io.StringIO(text), delimiter=delimiter, comments=None, ndmin=2)
            if values.shape[1] != columns:
                raise ValueError("wrong number of columns")
        except ValueError as error:
            self._find_malformed(lines, columns, separator)
            raise ValueError(f"{self.path} cannot be read: {error}") from error
        return values

    def _find_malformed(self, lines, columns, separator):
        for number, line in enumerate(lines, self.first_line):
            fields = line.split(separator)
            if len(fields) != columns or not all(map(_is_number, fields)):
                raise ValueError(
                    f"{self.path}, line {number}: expected {columns} numbers separated by {separator!r}. "
                    f"Found: {line[:80]!r}"
                ) from None


def _is_number(field):
    try:
        float(field)
    except ValueError:
        return False
    return True


def read_text(path):
    """Returns the text of a file, plain or gzipped, without a byte order mark and with `\\n` between lines.

    Raises:
        ValueError: if the file is empty or cut off; the message names it.
    """
    # Latin-1 reads any byte, so that a stray one is reported with its line.
    text = read_bytes(path).removeprefix(b"\xef\xbb\xbf").decode("latin-1").replace("\r\n", "\n").rstrip("\n")
    if not text.strip():
        raise ValueError(f"{path} is empty")
    return text
