import json

import numpy as np
import pytest

from comet_keras.reports import Measured, mean_and_error, read_seed_runs, seed_table

RNG = np.random.default_rng(0)
TOPK, TOPK_PLUS = 0.53 + 0.001 * RNG.normal(size=10), 0.52 + 0.001 * RNG.normal(size=10)


def rows_of(table):
    return {row[2]: row[3:] for row in table.rows}


def test_layout_and_figures():
    table = seed_table({"Ours": {"topk": TOPK, "topk+": TOPK_PLUS, "softmax": [0.5, 0.6]}})
    assert table.headers == ["Strategy", "Smoothness", "Gate", "Ours", "Paper"]
    assert [row[:3] for row in table.rows] == [
        ["Trainable", "Differentiable", "Softmax"],
        ["Pre-assigned", "-", "Hash-r"],
        ["Pre-assigned", "-", "Hash-r+"],
        ["Trainable", "Non-differentiable", "Top-k"],
        ["Trainable", "Non-differentiable", "Top-k+"],
        ["Trainable", "Differentiable", "COMET"],
        ["Trainable", "Differentiable", "COMET+"],
    ]
    rows = rows_of(table)
    mean, error = mean_and_error(100 * TOPK_PLUS)
    ours = rows["Top-k+"][0]
    assert (ours.mean, ours.error, ours.digits) == pytest.approx((mean, error, 3))
    assert ours.significant and ours.best
    assert not rows["Top-k"][0].significant and not rows["Top-k"][0].best
    assert rows["Hash-r+"] == [None, Measured(57.0, 0.037, 3, significant=True, best=True)]
    assert rows["Softmax"][1] is None
    assert "2 to 10 of ours" in table.notes


def test_worse_with_local_search_has_no_asterisk():
    rows = rows_of(seed_table({"Ours": {"topk": TOPK_PLUS, "topk+": TOPK}}))
    assert not rows["Top-k+"][0].significant
    assert rows["Top-k"][0].best and not rows["Top-k+"][0].best


def test_runs_are_read_by_start(tmp_path):
    path = tmp_path / "runs.jsonl"
    runs = [("hash", "none", 0.57), ("hash+", "warm", 0.55), ("hash+", "soft", 0.54), ("hash+", "cold", 0.56)]
    runs.append(("hash", "none", 0.58))
    lines = [json.dumps({"gate": g, "start": s, "loss": v, "rows": 9, "epochs": 1, "seed": 0}) for g, s, v in runs]
    path.write_text("\n".join(lines) + "\n")
    assert read_seed_runs(path) == {
        "Soft start": {"hash": [0.57, 0.58], "hash+": [0.54]},
        "Warm start": {"hash": [0.57, 0.58], "hash+": [0.55]},
        "Cold start": {"hash": [0.57, 0.58], "hash+": [0.56]},
    }
    path.write_text(lines[0] + "\n")
    assert read_seed_runs(path) == {"Ours": {"hash": [0.57]}}


def test_mistakes_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.jsonl"):
        read_seed_runs(tmp_path / "none.jsonl")
    path = tmp_path / "runs.jsonl"
    good = {"gate": "topk", "start": "none", "loss": 0.5, "rows": 9, "epochs": 1}
    for bad, word in (
        ("{", "line 2"),
        (json.dumps({**good, "gate": "magic"}), "magic"),
        (json.dumps({**good, "loss": None}), "line 2"),
        ("[1]", "line 2"),
        (json.dumps({**good, "epochs": 2}), "different"),
    ):
        path.write_text(json.dumps(good) + "\n" + bad + "\n")
        with pytest.raises(ValueError, match=word):
            read_seed_runs(path)
    path.write_text("")
    with pytest.raises(ValueError, match="no run"):
        read_seed_runs(path)
    with pytest.raises(ValueError, match="`runs`"):
        seed_table({"Ours": {}})
