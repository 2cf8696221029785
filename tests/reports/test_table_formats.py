import csv
import io
import math

import pytest

from comet_keras.reports import Measured, Table, render_table

TABLE = Table(
    "Losses of 5% & more",
    ["Dataset", "n", "gate_name", "loss"],
    [
        ["Books", 9, "Top-k", Measured(247.87, 0.17)],
        ["Books", 9, "COMET", Measured(240.79, 0.14, significant=True, best=True)],
        ["Jester", 16, "COMET", Measured(67.12, math.nan)],
        ["Jester", 16, "DSelect-k", None],
    ],
    "* p < 0.05",
)


def test_measured_cells():
    assert str(Measured(0.12345, 0.00678, 3)) == "0.123 ± 0.007"
    assert str(Measured(1.0, math.nan)) == str(Measured(1.0)) == "1.00"
    assert str(Measured(1.0, 0.5, 1, significant=True)) == "*1.0 ± 0.5"


def test_text_aligns_decimal_points_and_names_a_group_once():
    assert render_table(TABLE).splitlines() == [
        "Losses of 5% & more",
        "",
        "Dataset   n  gate_name  loss",
        "-------  --  ---------  --------------",
        "Books     9  Top-k       247.87 ± 0.17",
        "             COMET      *240.79 ± 0.14",
        "Jester   16  COMET        67.12",
        "             DSelect-k",
        "",
        "* p < 0.05",
    ]


def test_markdown():
    assert render_table(TABLE, "markdown").splitlines() == [
        "Losses of 5% & more",
        "",
        "| Dataset | n | gate_name | loss |",
        "| --- | ---: | --- | ---: |",
        "| Books | 9 | Top-k | 247.87 ± 0.17 |",
        r"|  |  | COMET | **\*240.79 ± 0.14** |",
        "| Jester | 16 | COMET | 67.12 |",
        "|  |  | DSelect-k |  |",
        "",
        r"\* p < 0.05",
    ]


def test_latex():
    lines = render_table(TABLE, "latex").splitlines()
    assert lines[0] == r"\begin{table}" and lines[-1] == r"\end{table}"
    assert r"\caption{Losses of 5\% \& more}" in lines
    assert r"\begin{tabular}{lrlr}" in lines
    assert r"Dataset & n & gate\_name & loss \\" in lines
    assert r"Books & 9 & Top-k & $247.87 \pm 0.17$ \\" in lines
    assert r" &  & COMET & ${}^{*}\mathbf{240.79} \pm 0.14$ \\" in lines
    assert r"Jester & 16 & COMET & $67.12$ \\" in lines
    assert lines.count(r"\midrule") == 2  # below the titles, and between the groups
    body = lines[lines.index(r"\toprule") + 1 : lines.index(r"\bottomrule")]
    assert {line.count("&") for line in body if line != r"\midrule"} == {3}


def test_csv_is_read_back():
    rows = list(csv.DictReader(io.StringIO(render_table(TABLE, "csv"))))
    assert list(rows[0]) == ["Dataset", "n", "gate_name", "loss", "loss error", "loss significant"]
    assert rows[1]["Dataset"] == "Books" and rows[1]["n"] == "9"
    read = [(row["loss"], row["loss error"], row["loss significant"]) for row in rows]
    assert read == [("247.87", "0.17", "0"), ("240.79", "0.14", "1"), ("67.12", "", "0"), ("", "", "")]


def test_a_pipe_does_not_break_a_markdown_row():
    text = render_table(Table("", ["a"], [["x|y"]]), "markdown")
    assert text.splitlines()[-1] == r"| x\|y |"


def test_unknown_format():
    with pytest.raises(ValueError, match="`format`.*latex.*html"):
        render_table(TABLE, "html")
