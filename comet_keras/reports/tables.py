"""Aligned text tables."""


def text_table(rows, headers=None, precision=4):
    """Returns rows as lines of text with aligned columns: numbers to the right, text to the left.

    Args:
        rows: sequence of rows, each a sequence of as many values: str, int, float, None (an empty
            cell) or whatever `str` makes readable.
        headers: optional sequence of str, a title for each column.
        precision: int, decimals of floats. Default 4. For other formats give strings; a column of
            strings that all read as numbers is set to the right as well.

    Returns:
        str, without a newline at the end; empty if there are neither rows nor headers.

    Raises:
        ValueError: if rows differ in length.

    Example:

    >>> from comet_keras.reports import text_table
    >>> print(text_table([["softmax", 0.5, 8], ["comet+", 0.25, 2]], ["gate", "loss", "experts"]))
    gate       loss  experts
    -------  ------  -------
    softmax  0.5000        8
    comet+   0.2500        2
    """
    rows = [[_cell(value, precision) for value in row] for row in rows]
    lines = ([[str(title) for title in headers]] if headers else []) + rows
    if not lines:
        return ""
    if len({len(line) for line in lines}) > 1:
        raise ValueError(f"All rows must have as many cells. Received: {[len(line) for line in lines]}")
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    right = [_is_numeric([row[i] for row in rows]) for i in range(len(widths))]
    if headers:
        lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right)
        ).rstrip()
        for line in lines
    )


def _cell(value, precision):
    if value is None:
        return ""
    # Numpy's floats are no Python floats in every width, but all have `item`.
    value = value.item() if hasattr(value, "item") else value
    return f"{value:.{precision}f}" if isinstance(value, float) else str(value)


def _is_numeric(cells):
    filled = [cell for cell in cells if cell]
    try:
        return bool(filled) and all(float(cell.rstrip("%")) is not None for cell in filled)
    except ValueError:
        return False
