import pytest
from reports.synthetic_searches import ALPHA, failed, random_trials

from comet_keras.reports import (
    SearchRecord,
    bootstrap_curve,
    bootstrap_table,
    reduction_table,
    render_table,
    trials_table,
    tuning_reduction,
)


@pytest.fixture(scope="module")
def records():
    best = {"softmax": 0.5, "topk": 0.45, "topk+": 0.44, "comet": 0.3, "comet+": 0.25}
    made = {}
    for seed, (gate, level) in enumerate(best.items()):
        made[gate] = SearchRecord("movielens", gate, ALPHA, random_trials(60, level, 0.02, seed), 16)
    made["topk"].trials[7] = failed(7)
    return made


def test_trials_table(records):
    table = trials_table(records)
    rows = {row[0]: dict(zip(table.headers, row)) for row in table.rows}
    assert list(rows) == ["Softmax", "Top-k", "Top-k+", "COMET", "COMET+"]
    assert [rows["Top-k"][name] for name in ("trials", "failed", "top")] == [60, 1, 3]
    assert rows["COMET+"]["test loss"].significant and rows["COMET+"]["test loss"].best
    assert float(rows["COMET+"]["p"]) < 0.05
    assert rows["Top-k"]["p"] is None and not rows["Top-k"]["test loss"].significant
    assert rows["COMET"]["n/s"].mean == 2.0
    assert table.headers[-2:] == ["watch auc", "rating mse"]
    assert rows["Top-k"]["rating mse"].mean == pytest.approx(2 * rows["Top-k"]["test loss"].mean)
    assert "against Top-k, the best existing gate" in table.notes
    assert "5% of trials" in table.caption and "MovieLens (alpha = 0.9)" in table.caption


def test_one_trial_is_not_tested(records):
    table = trials_table(records, fraction=0.01)
    assert all(row[table.headers.index("p")] is None for row in table.rows)
    assert "A single trial has no standard error" in table.notes
    assert "±" not in render_table(table).split("Mean ±")[0]


def test_bootstrap_table(records):
    table, curves = bootstrap_table(records, [1, 4])
    assert table.headers == ["s", "Softmax", "Top-k", "Top-k+", "COMET", "COMET+"]
    assert [row[0] for row in table.rows] == ["1", "4"]
    expected = bootstrap_curve(records["comet"].trials, [1, 4])
    assert table.rows[1][4].mean == expected.means[1] and table.rows[1][4].error == expected.errors[1]
    assert "without replacement" in table.caption
    with_, _ = bootstrap_table(records, [70], with_replacement=True)
    assert "drawn with replacement" in with_.caption
    assert bootstrap_table(records)[1]["topk"].budgets.tolist() == [1, 2, 5, 10, 15, 20, 25, 30]
    with pytest.raises(ValueError, match="Softmax: `budgets`"):
        bootstrap_table(records, [61])


def test_reduction_table(records):
    table = reduction_table(records)
    pairs = [tuple(row[:2]) for row in table.rows]
    assert pairs == [
        ("Top-k+", "Top-k"),
        ("COMET+", "COMET"),
        ("COMET", "Softmax"),
        ("COMET", "Top-k"),
        ("COMET+", "Softmax"),
        ("COMET+", "Top-k"),
    ]
    found = tuning_reduction(records["topk+"].trials, records["topk"].trials)
    assert table.rows[0][2:] == [30, f"{found.target:.4f}", str(found.budget), f"{found.factor:.1f}x"]
    assert table.rows[2][4:] == ["1", "30.0x"]


def test_reductions_that_are_not_reached_or_not_there(records):
    worse = {"topk": records["comet"], "topk+": records["softmax"]}
    assert reduction_table(worse).rows[0][4:] == ["not with 60", None]
    assert reduction_table({"topk": records["topk"]}) is None
