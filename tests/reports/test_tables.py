import numpy as np
import pytest

from comet_keras.reports import text_table


def test_numbers_to_the_right_and_text_to_the_left():
    table = text_table([["a", 1.5, 10], ["long name", 22.25, 3]], ["gate", "loss", "n"], precision=2)
    assert table.splitlines() == [
        "gate        loss   n",
        "---------  -----  --",
        "a           1.50  10",
        "long name  22.25   3",
    ]


def test_cells_of_other_kinds():
    table = text_table([[None, np.float32(0.5), "12%"], ["x", None, "3%"]], precision=1)
    assert table.splitlines() == ["   0.5  12%", "x        3%"]


def test_no_rows():
    assert text_table([]) == ""
    assert text_table([], ["gate", "loss"]).splitlines() == ["gate  loss", "----  ----"]


def test_ragged_rows_are_refused():
    with pytest.raises(ValueError, match="as many cells"):
        text_table([["a", 1], ["b"]])
