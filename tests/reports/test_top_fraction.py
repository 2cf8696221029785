import math

import numpy as np
import pytest
from reports.synthetic_searches import random_trials, trial, trials_of

from comet_keras.reports import compare_with_best_existing, p_value_below, top_fraction


@pytest.mark.parametrize(
    "validation, test, fraction, selected, mean, error",
    [
        (
            [0.5, 0.1, 0.4, 0.2, 0.3, 0.9, 0.8, 0.7, 0.6, 1.0],
            [5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0, 10.0],
            0.2,
            ["1", "3"],
            1.5,
            0.5,
        ),
        ([0.3, 0.1, 0.2], [3.0, 1.0, 2.0], 0.05, ["1"], 1.0, None),
    ],
)
def test_worked_values(validation, test, fraction, selected, mean, error):
    top = top_fraction(trials_of(zip(validation, test)), fraction)
    assert [t.trial_id for t in top.selected] == selected
    assert top.loss[0] == pytest.approx(mean, abs=1e-12)
    assert math.isnan(top.loss[1]) if error is None else top.loss[1] == pytest.approx(error, abs=1e-12)


@pytest.mark.parametrize("count, selected", [(500, 25), (100, 5), (16, 1), (1, 1), (40, 2)])
def test_five_percent_of_the_trials(count, selected):
    trials = random_trials(count)
    top = top_fraction(trials)
    losses = sorted(t.validation_loss for t in trials)
    assert [t.validation_loss for t in top.selected] == losses[:selected]


def test_failed_trials_count_but_are_never_selected():
    trials = trials_of([None, (0.2, 2.0), None, (0.1, 1.0), None, None, None, None, None, None])
    top = top_fraction(trials, 0.5)  # five of ten, of which two were completed
    assert (top.ended, top.failed, [t.trial_id for t in top.selected]) == (10, 8, ["3", "1"])
    # Two of twenty, where the completed alone would give one.
    half = trials_of([(0.1 * i, 1.0 * i) for i in range(10)] + [None] * 10)
    assert len(top_fraction(half, 0.1).selected) == 2


def test_equal_validation_losses_go_by_their_end():
    trials = trials_of([(0.5, 1.0), (0.5, 2.0), (0.5, 3.0)])
    assert [t.trial_id for t in top_fraction(trials, 2 / 3).selected] == ["0", "1"]


def test_metrics_and_experts():
    def one(number, auc, mse, experts):
        tasks = {"watch": {"auc": auc, "loss": 1.0}, "rating": {"mse": mse, "loss": 1.0}}
        return trial(number, 0.1 * number, 1.0, tasks, dict(zip(("watch", "rating"), experts)))

    top = top_fraction([one(1, 0.8, 2.0, (1.0, 2.0)), one(2, 0.9, 4.0, (2.0, 2.0)), one(3, 0, 0, (9, 9))], 0.67)
    assert top.metric("auc", "watch") == pytest.approx((0.85, 0.05))
    assert top.metric("mse") == pytest.approx((3.0, 1.0))
    assert top.metric("loss") == pytest.approx((1.0, 0.0))
    assert top.experts_per_sample == pytest.approx((1.75, 0.25))  # of (1.5, 2.0)
    assert top.metric("accuracy") is None
    undefined = top_fraction([one(1, None, 2.0, (1.0, 1.0))])
    assert undefined.metric("auc", "watch") is None
    assert top_fraction([trial(0, 1.0, 1.0)]).experts_per_sample is None


def test_the_best_existing_gate_is_the_one_with_the_lowest_mean():
    tops = {
        gate: top_fraction(trials_of([(1.0, loss + shift) for shift in (-0.01, 0.0, 0.02)]), 1.0)
        for gate, loss in {"softmax": 0.5, "topk": 0.4, "topk+": 0.1, "comet": 0.45, "comet+": 0.35}.items()
    }
    best, p_values = compare_with_best_existing(tops)
    assert best == "topk" and list(p_values) == ["topk+", "comet", "comet+"]
    for gate, p in p_values.items():
        assert p == p_value_below(tops[gate].test_losses, tops["topk"].test_losses)
    assert p_values["topk+"] < 0.05 < p_values["comet"]
    assert compare_with_best_existing({"comet": tops["comet"]}) == (None, {})


def test_wrong_arguments():
    trials = trials_of([(0.1, 0.1)])
    for fraction in (0, -0.1, 1.5, np.nan, True):
        with pytest.raises(ValueError, match="`fraction`"):
            top_fraction(trials, fraction)
    for none in ([], trials_of([None])):
        with pytest.raises(ValueError, match="`trials`"):
            top_fraction(none)
