import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reports.synthetic_searches import random_trials, trials_of

from comet_keras.reports import bootstrap_curve, draw_bootstrap, tuning_reduction
from comet_keras.reports.bootstrap import default_budgets

THREE = ([0.3, 0.1, 0.2], [3.0, 2.0, 1.0])
FIVE = ([0.5, 0.4, 0.3, 0.2, 0.1], [5.0, 1.0, 4.0, 2.0, 3.0])


def brute_force(pairs, s, with_replacement):
    """The mean over every draw of s trials, of those with a completed trial."""
    draw = itertools.product if with_replacement else itertools.combinations
    args = {"repeat": s} if with_replacement else {"r": s}
    found = []
    for drawn in draw(range(len(pairs)), **args):
        ranked = [(pairs[i][0], i) for i in drawn if pairs[i] is not None]
        if ranked:
            found.append(pairs[min(ranked)[1]][1])
    return np.mean(found)


@pytest.mark.parametrize(
    "losses, s, without, with_",
    [(THREE, 1, 2.0, 2.0), (THREE, 2, 1.6666666666666667, 1.7777777777777777), (FIVE, 2, 2.7, 2.76)],
)
def test_worked_values(losses, s, without, with_):
    trials = trials_of(zip(*losses))
    assert bootstrap_curve(trials, [s]).means[0] == pytest.approx(without, abs=1e-12)
    assert bootstrap_curve(trials, [s], with_replacement=True).means[0] == pytest.approx(with_, abs=1e-12)


# Few distinct values, so that ties are met.
PAIRS = st.lists(st.none() | st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=6)


@given(PAIRS.filter(any), st.booleans())
def test_closed_form_is_the_mean_over_every_draw(pairs, with_replacement):
    budgets = range(1, len(pairs) + 1) if not with_replacement else range(1, 4)
    curve = bootstrap_curve(trials_of(pairs), budgets, with_replacement)
    expected = [brute_force(pairs, s, with_replacement) for s in budgets]
    np.testing.assert_allclose(curve.means, expected, atol=1e-12)


@pytest.mark.parametrize("with_replacement", [False, True])
def test_drawing_agrees_with_the_closed_form(with_replacement):
    trials = random_trials(60)
    trials[5] = trials[17] = trials_of([None])[0]
    budgets = [1, 2, 5, 20, 50]
    exact = bootstrap_curve(trials, budgets, with_replacement)
    drawn = draw_bootstrap(trials, budgets, with_replacement, repetitions=4000)
    assert (np.abs(drawn.means - exact.means) < 4 * drawn.errors).all()
    again = draw_bootstrap(trials, budgets, with_replacement, repetitions=4000)
    np.testing.assert_array_equal(drawn.means, again.means)
    other = draw_bootstrap(trials, budgets, with_replacement, repetitions=4000, seed=1)
    assert (drawn.means[:-1] != other.means[:-1]).all()


def test_a_single_draw_of_all_trials_is_the_best_one():
    trials = random_trials(30)
    best = min(trials, key=lambda trial: trial.validation_loss)
    assert bootstrap_curve(trials, [30]).means[0] == pytest.approx(best.test_loss)
    assert draw_bootstrap(trials, [30], repetitions=3).means[0] == pytest.approx(best.test_loss)


def test_large_numbers_of_trials_against_whole_numbers():
    trials = random_trials(3000)
    ranked = [t.test_loss for t in sorted(trials, key=lambda t: t.validation_loss)]
    curve = bootstrap_curve(trials, [1, 1500, 2999])
    for s, mean in zip(curve.budgets.tolist(), curve.means):
        draws = [math.comb(2999 - r, s - 1) for r in range(3000)]
        expected = sum(Fraction(count, math.comb(3000, s)) * Fraction(t) for count, t in zip(draws, ranked) if count)
        assert mean == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("failures", [0, 3])
def test_jackknife_is_the_spread_of_curves_with_one_trial_left_out(with_replacement, failures):
    trials = random_trials(9) + trials_of([None] * failures)
    budgets = [1, 3, 6]
    curve = bootstrap_curve(trials, budgets, with_replacement)
    left_out = [
        bootstrap_curve(trials[:i] + trials[i + 1 :], budgets, with_replacement).means for i in range(len(trials))
    ]
    n = len(trials)
    expected = np.sqrt((n - 1) ** 2 / n * np.var(left_out, axis=0, ddof=1))
    np.testing.assert_allclose(curve.errors, expected, rtol=1e-9)


def test_jackknife_predicts_how_far_another_search_would_be():
    curves = [bootstrap_curve(random_trials(80, seed=seed), [1, 5, 20]) for seed in range(300)]
    spread = np.std([curve.means for curve in curves], axis=0)
    np.testing.assert_allclose(np.mean([curve.errors for curve in curves], axis=0), spread, rtol=0.15)


def test_error_of_one_draw_is_that_of_the_mean():
    trials = random_trials(12)
    losses = np.array([trial.test_loss for trial in trials])
    assert bootstrap_curve(trials, [1]).errors[0] == pytest.approx(losses.std(ddof=1) / np.sqrt(12))
    assert np.isnan(bootstrap_curve(trials, [12]).errors[0])
    assert np.isnan(bootstrap_curve(trials[:1], [1], with_replacement=True).errors[0])


def test_default_budgets_are_the_papers():
    assert default_budgets(500) == [1, 2, *range(5, 251, 5)]
    assert default_budgets(5000) == default_budgets(500)
    assert [default_budgets(n) for n in (1, 2, 4, 16, 23)] == [[1], [1], [1, 2], [1, 2, 5, 8], [1, 2, 5, 10, 11]]


def test_tuning_reduction():
    baseline = random_trials(40, best=0.4)
    shifted = random_trials(40, best=0.35)  # each trial better by 0.05
    budget = 20
    curve = bootstrap_curve(shifted, range(1, 41)).means
    target = bootstrap_curve(baseline, [budget]).means[0]
    expected = 1 + int(np.argmax(curve <= target))
    found = tuning_reduction(shifted, baseline)
    assert (found.target, found.baseline_budget, found.budget) == (pytest.approx(target), 20, expected)
    assert 1 <= expected < 20 and found.factor == 20 / expected
    assert tuning_reduction(baseline, baseline).factor == 1
    assert tuning_reduction(baseline, baseline, baseline_budget=7).budget == 7


def test_tuning_reduction_that_is_never_reached():
    found = tuning_reduction(random_trials(10, best=0.9), random_trials(10, best=0.1))
    assert found.budget is None and found.factor is None


def test_wrong_arguments():
    trials = random_trials(5)
    for make in (bootstrap_curve, draw_bootstrap):
        for budgets in ([], [0], [6], [1.5]):
            with pytest.raises(ValueError, match="`budgets`"):
                make(trials, budgets)
        with pytest.raises(ValueError, match="`trials`"):
            make(trials_of([None]))
    with pytest.raises(ValueError, match="`repetitions`"):
        draw_bootstrap(trials, repetitions=0)
    with pytest.raises(ValueError, match="failed trials alone"):
        draw_bootstrap(trials_of([(0.1, 0.1)] + [None] * 400), [1], repetitions=2)
