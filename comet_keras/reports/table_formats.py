"""Tables of means with standard errors, as text, Markdown, LaTeX and CSV."""

import csv
import io
import math
from dataclasses import dataclass

from comet_keras.reports.tables import text_table
from comet_keras.validation import one_of

FORMATS = ("text", "markdown", "latex", "csv")


@dataclass(frozen=True)
class Measured:
    """A mean with its standard error, as a cell of a table.

    Args:
        mean: float.
        error: float or None; None or NaN is not shown.
        digits: int, decimals. Default 2.
        significant: bool, whether an asterisk stands in front. Default False.
        best: bool, whether it is set in bold where the format can. Default False.

    Example:

    >>> from comet_keras.reports.table_formats import Measured
    >>> str(Measured(40.69, 0.02, significant=True))
    '*40.69 ± 0.02'
    """

    mean: float
    error: float | None = None
    digits: int = 2
    significant: bool = False
    best: bool = False

    @property
    def parts(self):
        """Mean and error as strings, the error empty if there is none."""
        known = self.error is not None and math.isfinite(self.error)
        return f"{self.mean:.{self.digits}f}", f"{self.error:.{self.digits}f}" if known else ""

    def __str__(self):
        mean, error = self.parts
        return ("*" if self.significant else "") + mean + (f" ± {error}" if error else "")


@dataclass(frozen=True)
class Table:
    """A table with a caption, a line of titles, and rows.

    Attributes:
        caption: str.
        headers: list of str, a title for each column.
        rows: list of rows, each a list of as many cells: str, int, `Measured` or None (empty). A row whose
            first cell differs from that of the row before starts a new group.
        notes: str, below the table.
    """

    caption: str
    headers: list
    rows: list
    notes: str = ""


def render_table(table, format="text"):
    """A `Table` in one of the formats.

    Text and Markdown show a mean and its error in one cell, with an asterisk where it is significant, and
    the best in bold (Markdown); a group's name stands in its first row. LaTeX needs the package `booktabs`.
    CSV has mean, error and asterisk in columns of their own, each group's name in every row, no caption
    and no notes.

    Args:
        table: `Table`.
        format: one of `"text"`, `"markdown"`, `"latex"`, `"csv"`. Default `"text"`.

    Returns:
        str, without a newline at the end.

    Raises:
        ValueError: if there is no such format.

    Example:

    >>> from comet_keras.reports.table_formats import Measured, Table, render_table
    >>> rows = [["Top-k", Measured(41.8, 0.2, 1)], ["COMET", Measured(9.7, None, 1)]]
    >>> table = Table("Losses", ["gate", "loss"], rows)
    >>> print(render_table(table))
    Losses
    <BLANKLINE>
    gate   loss
    -----  ----------
    Top-k  41.8 ± 0.2
    COMET   9.7
    >>> print(render_table(table, "csv"))
    gate,loss,loss error,loss significant
    Top-k,41.8,0.2,0
    COMET,9.7,,0
    """
    return _RENDERERS[one_of("format", format, FORMATS)](table)


def _text(table):
    rows = _without_repeats(table.rows)
    for column in range(len(table.headers)):
        _align([row for row in rows if isinstance(row[column], Measured)], column)
    parts = [table.caption, text_table(rows, table.headers), table.notes]
    return "\n\n".join(part for part in parts if part)


def _align(rows, column):
    """Writes the measured cells of a column so that their decimal points lie below each other."""
    if not rows:
        return
    width = max(len(row[column].parts[0]) + row[column].significant for row in rows)
    for row in rows:
        cell = row[column]
        star = "*" if cell.significant else ""
        mean, error = cell.parts
        row[column] = (star + mean).rjust(width) + (f" ± {error}" if error else "")


def _markdown(table):
    def cell(value):
        if isinstance(value, Measured):
            text = str(value).replace("*", r"\*")
            return f"**{text}**" if value.best else text
        return "" if value is None else str(value).replace("|", r"\|").replace("*", r"\*")

    numeric = _numeric_columns(table)
    lines = [
        [cell(title) for title in table.headers],
        ["---:" if is_number else "---" for is_number in numeric],
        *([cell(value) for value in row] for row in _without_repeats(table.rows)),
    ]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    parts = [table.caption.replace("*", r"\*"), body, table.notes.replace("*", r"\*")]
    return "\n\n".join(part for part in parts if part)


def _latex(table):
    def cell(value):
        if not isinstance(value, Measured):
            return "" if value is None else _escape(str(value))
        mean, error = value.parts
        star = "{}^{*}" if value.significant else ""
        mean = rf"\mathbf{{{mean}}}" if value.best else mean
        return f"${star}{mean}" + (rf" \pm {error}$" if error else "$")

    columns = "".join("r" if is_number else "l" for is_number in _numeric_columns(table))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escape(table.caption)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(_escape(title) for title in table.headers) + r" \\",
        r"\midrule",
    ]
    for i, (row, full) in enumerate(zip(_without_repeats(table.rows), table.rows)):
        if i and _starts_group(full, table.rows[i - 1]):
            lines.append(r"\midrule")
        lines.append(" & ".join(cell(value) for value in row) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if table.notes:
        lines.append(rf"\par\smallskip {_escape(table.notes)}")
    return "\n".join([*lines, r"\end{table}"])


def _csv(table):
    measured = [any(isinstance(row[i], Measured) for row in table.rows) for i in range(len(table.headers))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")

    def spread(values, split):
        return [part for value, several in zip(values, measured) for part in (split(value) if several else [value])]

    def split(value):
        return [*value.parts, int(value.significant)] if isinstance(value, Measured) else [value, None, None]

    writer.writerow(spread(table.headers, lambda title: [title, f"{title} error", f"{title} significant"]))
    for row in table.rows:
        writer.writerow(spread(row, split))
    return out.getvalue().rstrip("\n")


_RENDERERS = {"text": _text, "markdown": _markdown, "latex": _latex, "csv": _csv}


def _starts_group(row, before):
    return row[0] != before[0]


def _without_repeats(rows):
    """Rows as lists, the first cell (and the second, where it is a number) shown once a group."""
    shown = [list(row) for row in rows]
    for i in range(1, len(rows)):
        if not _starts_group(rows[i], rows[i - 1]):
            shown[i][0] = None
            if len(rows[i]) > 1 and isinstance(rows[i][1], int) and rows[i][1] == rows[i - 1][1]:
                shown[i][1] = None
    return shown


def _numeric_columns(table):
    kinds = (int, float, Measured)
    return [
        any(isinstance(row[i], kinds) for row in table.rows)
        and all(row[i] is None or isinstance(row[i], kinds) for row in table.rows)
        for i in range(len(table.headers))
    ]


_SPECIAL = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "±": r"$\pm$", "×": r"$\times$"}


def _escape(text):
    return "".join(_SPECIAL.get(letter, letter) for letter in text)
