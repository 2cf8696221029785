"""The matrices of ratings that Jester is handed out as."""

from pathlib import Path

import numpy as np

from comet_keras.datasets.text_table import Table

JOKES = 100  # of the three original matrices
NOT_RATED = 99
ENDINGS = (".csv", ".csv.gz", ".xls")


def find_matrices(data_dir):
    """Returns the paths of the matrices to read, in order; empty if there are none.

    Args:
        data_dir: folder, or the path of one matrix.

    Raises:
        ValueError: if a matrix is there in two formats, or it is unclear which one is meant.
    """
    path = Path(data_dir)
    if path.is_file():
        return [path]
    files = sorted(file for file in path.glob("jester*") if file.name.endswith(ENDINGS) and file.is_file())
    originals = [file for file in files if file.name.startswith("jester-data-")]
    stems = [file.name.split(".")[0] for file in originals]
    twice = [file.name for file, stem in zip(originals, stems) if stems.count(stem) > 1]
    if twice:
        raise ValueError(f"{path} has the same matrix more than once; keep one: {', '.join(twice)}")
    if not originals and len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ValueError(f"{path} has several matrices, none named jester-data-*; keep one: {names}")
    return originals or files


def read_matrices(paths):
    """Reads matrices and puts the users of one below those of the other.

    Args:
        paths: list of files: a line for each user with the number of jokes rated, then a rating for each
            joke, in -10..10, or 99 where there is none.

    Returns:
        float32 `(users, jokes)`, NaN where there is no rating.

    Raises:
        ValueError: naming file and line, if a line is malformed or a rating or count cannot be right; and
            if a matrix of several does not have all 100 jokes.
    """
    return np.concatenate([_read_matrix(path, alone=len(paths) == 1) for path in paths])


def _read_matrix(path, alone):
    table = Sheet(path) if path.suffix == ".xls" else Table(path, columns=None)
    jokes = table.values.shape[1] - 1
    if not 1 <= jokes <= JOKES or (jokes < JOKES and not alone):
        raise ValueError(
            f"{path}: expected a count and {JOKES} ratings a line (fewer only in a single file). "
            f"Found: {jokes + 1} numbers"
        )
    counts = table.integers(0, "the count of rated jokes", high=JOKES)
    ratings = table.values[:, 1:]
    rated = ratings != NOT_RATED
    _reject(table, rated & (np.abs(ratings) > 10), f"a rating must lie in -10..10, or be {NOT_RATED} for none")
    # The count is over all jokes, also in a file with a part of them.
    found = rated.sum(axis=1)
    wrong = counts != found if jokes == JOKES else counts < found
    _reject(table, wrong, "the count in the first column is not the number of ratings in the line", counts, found)
    return np.where(rated, ratings, np.nan).astype("float32")


def _reject(table, bad, message, *columns):
    """Raises ValueError for the first row with a True in `bad`, showing what is wrong rather than 101 numbers."""
    rows = bad.reshape(len(bad), -1).any(axis=1)
    if rows.any():
        row = int(np.argmax(rows))
        shown = [column[row] for column in columns] or [table.values[row, 1:][bad[row]][0]]
        raise ValueError(
            f"{table.path}, line {row + table.first_line}: {message}. Found: {', '.join(f'{x:g}' for x in shown)}"
        )


class Sheet(Table):
    """The numbers of the first sheet of an .xls file, the original format. Needs xlrd.

    Args:
        path: the file.

    Raises:
        ValueError: if xlrd is not installed, the file cannot be read, or a cell is no number.
    """

    def __init__(self, path):
        self.path, self.first_line = Path(path), 1
        try:
            import xlrd
        except ImportError:
            raise ValueError(
                f"{path} needs xlrd to be read: pip install xlrd. Or save it from a spreadsheet program as .csv, "
                "comma-separated, and take the .xls away."
            ) from None
        try:
            sheet = xlrd.open_workbook(str(path)).sheet_by_index(0)
        except Exception as error:  # xlrd raises whatever its parser stumbles over
            raise ValueError(f"{path} cannot be read as .xls: {error!r}") from error
        rows = [sheet.row_values(row) for row in range(sheet.nrows)]
        if not rows:
            raise ValueError(f"{path} is empty")
        for number, row in enumerate(rows, self.first_line):
            if not all(isinstance(cell, float) for cell in row):
                cell = next(cell for cell in row if not isinstance(cell, float))
                raise ValueError(f"{path}, line {number}: expected {len(rows[0])} numbers. Found: {cell!r}")
        self.values = np.array(rows)
