import pytest
from reports.synthetic_searches import ALPHA, random_trials, trial

from comet_keras.reports import Measured, SearchRecord, paper_tables, render_table, top_fraction
from comet_keras.reports import paper_numbers as paper
from comet_keras.reports.searches import GATE_ORDER


def record(gate, trials, task="movielens", weights=ALPHA, experts=16):
    return SearchRecord(task, gate, weights, trials, experts)


IMAGES = {"top_left": 0.5, "bottom_right": 0.5}


def cells(table, gate, dataset=None):
    """The row of a gate by title of column."""
    rows = [dict(zip(table.headers, row)) for row in table.rows]
    names = {"Model", "Gate"} & set(table.headers)
    return next(r for r in rows if r[min(names)] == gate and dataset in (None, r["Dataset"]))


def test_a_recommender_search_makes_tables_2_and_7():
    trials = random_trials(40, best=0.4)
    tables = paper_tables([record("topk", trials), record("comet+", random_trials(40, best=0.2))])
    assert [table.caption[:7] for table in tables] == ["Table 2", "Table 7"]
    losses, metrics = tables
    top = top_fraction(trials)
    row = cells(losses, "Top-k")
    assert (row["Dataset"], row["n"]) == ("MovieLens (alpha = 0.9)", 16)
    mean, error = top.loss
    assert (row["Test loss"].mean, row["Test loss"].error) == pytest.approx((100 * mean, 100 * error))
    assert row["Test loss (paper)"] == Measured(41.83, 0.02)
    assert (row["n/s"].mean, row["n/s (paper)"].mean) == (2.0, 2.0)
    comet = cells(losses, "COMET+")
    assert comet["Test loss"].significant and comet["Test loss"].best
    assert comet["Test loss (paper)"] == Measured(40.69, 0.02, significant=True, best=True)
    assert not row["Test loss"].significant and not row["Test loss"].best
    row = cells(metrics, "Top-k")
    mean, error = top.metric("auc", "watch")
    assert (row["Test AUC"].mean, row["Test AUC"].error) == pytest.approx((100 * mean, 100 * error))
    assert row["Test AUC (paper)"] == Measured(91.25, 0.01)
    assert row["Test MSE"].mean == pytest.approx(top.metric("mse")[0])
    assert str(row["Test MSE (paper)"]) == "0.7635 ± 0.0008"
    assert "MovieLens (alpha = 0.9) 2 of 40" in losses.notes


def test_gates_on_one_side_only_leave_the_other_empty():
    losses, metrics = paper_tables([record("topk+", random_trials(3))])
    assert [row[2] for row in losses.rows] == [
        "Softmax", "Hash-r", "Hash-r+", "Top-k", "Top-k+", "DSelect-k", "COMET", "COMET+",
    ]  # fmt: skip
    assert cells(losses, "Hash-r")["Test loss"] is None
    assert cells(metrics, "Top-k+")["Test AUC (paper)"] is None
    assert cells(metrics, "Hash-r")["Test AUC"] is None


def test_images_make_table_3_and_the_other_part_of_table_7():
    trials = random_trials(20, kind="images")
    losses, metrics = paper_tables(
        [
            record("topk", trials, "multi_digits", IMAGES, 8),
            record("topk", trials, "multi_mnist", IMAGES),
        ]
    )
    assert [t.caption[:7] for t in (losses, metrics)] == ["Table 3", "Table 7"]
    # The paper's data sets first.
    assert list(dict.fromkeys(row[0] for row in losses.rows)) == ["MultiMNIST", "MultiDigits"]
    own = cells(losses, "Top-k", "MultiDigits")
    assert own["n"] == 8 and own["Test loss (paper)"] is None
    row = cells(metrics, "Top-k", "MultiMNIST")
    assert row["Test accuracy"].mean == pytest.approx(100 * top_fraction(trials).metric("accuracy")[0])
    assert row["Test accuracy (paper)"] == Measured(98.01, 0.02)


def test_a_task_of_ones_own_has_a_table_without_the_paper():
    done = [trial(i, 0.5 + i, 0.5 + i, {"churn": {"auc": 0.8}}) for i in range(2)]
    losses, metrics = paper_tables([record("comet", done, "churn", {"churn": 1.0}, None)])
    assert [str(cell) for cell in losses.rows[0]] == ["churn", "None", "COMET", "50.00", "None", "None", "None"]
    assert len(losses.rows) == 1
    assert metrics.rows == [["churn", "COMET", None, None]]
    for format in ("text", "markdown", "latex", "csv"):
        assert "churn" in render_table(losses, format)


def test_jester_keeps_the_third_decimal_of_the_paper():
    weights = {"rate": 0.9, "rating": 0.1}
    done = [trial(0, 0.22, 0.219061, {"rate": {"auc": 0.97}, "rating": {"mse": 0.7}}, {"rate": 2.0, "rating": 2.0})]
    losses, metrics = paper_tables([record("comet+", done, "jester", weights)])
    row = cells(losses, "COMET+")
    assert (str(row["Test loss"]), str(row["Test loss (paper)"])) == ("21.906", "*21.906 ± 0.005")
    assert str(cells(metrics, "COMET+")["Test AUC (paper)"]) == "97.362 ± 0.004"


def test_searches_of_some_rows_are_a_setting_of_their_own():
    some = SearchRecord("movielens", "topk", ALPHA, random_trials(3), 16, rows=60_000)
    losses, _ = paper_tables([some, record("topk", random_trials(3))])
    assert [row[2] for row in losses.rows].count("Top-k") == 2
    assert "1 of 3 (60000 training rows)" in losses.notes


def test_a_model_of_ones_own_has_its_rows():
    losses, metrics = paper_tables([record("build", random_trials(3), "own model", {}, None)])
    assert [row[2] for row in losses.rows] == ["build"] and len(metrics.rows) == 1


def test_no_search():
    with pytest.raises(ValueError, match="`records`"):
        paper_tables([])


LOSSES = {**paper.TABLE_2, **paper.TABLE_3}


def test_the_papers_figures_are_whole():
    assert {task for task, _ in LOSSES} == set(paper.NUM_EXPERTS)
    assert set(paper.TABLE_7_RATINGS) == set(paper.TABLE_2) and set(paper.TABLE_7_IMAGES) == set(paper.TABLE_3)
    # Rows counted in the paper: 8 gates, Jester without Hash-r+, images without Hash.
    assert [len(gates) for gates in paper.TABLE_2.values()] == [8, 8, 8, 8, 7, 7]
    assert [len(gates) for gates in paper.TABLE_3.values()] == [6, 6, 6, 6]
    for (task, _), gates in LOSSES.items():
        assert list(gates) == [gate for gate in GATE_ORDER if gate in gates]
        assert gates["softmax"][1] == (paper.NUM_EXPERTS[task], 0.0)


def test_the_papers_asterisks_follow_its_figures():
    for setting, marked in paper.SIGNIFICANT.items():
        losses = {gate: figures[0][0] for gate, figures in LOSSES[setting].items()}
        best = min(losses, key=losses.get)
        existing = min(losses[gate] for gate in ("softmax", "topk", "dselect_k"))
        assert best in marked and all(losses[gate] < existing for gate in marked)


def test_the_papers_metrics_add_up_to_its_losses():
    # MSE times 1 - alpha is part of the loss, and most of it at alpha = 0.1; cross-entropy is above 0.
    for (task, alpha), gates in paper.TABLE_7_RATINGS.items():
        for gate, (_, (mse, _)) in gates.items():
            rest = LOSSES[task, alpha][gate][0][0] / 100 - (1 - alpha) * mse
            assert 0 < rest / alpha < 0.7, (task, alpha, gate)
