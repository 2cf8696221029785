import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr

from comet_keras.reports import mean_and_error, p_value_below

SAMPLES = st.lists(st.floats(-100, 100), min_size=2, max_size=12)


def welch(a, b):
    """The p-value by Welch's formula, written out."""
    a, b = np.asarray(a), np.asarray(b)
    u, v = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    t = (a.mean() - b.mean()) / math.sqrt(u + v)
    freedom = (u + v) ** 2 / (u**2 / (len(a) - 1) + v**2 / (len(b) - 1))
    return stdtr(freedom, t)


@given(SAMPLES)
def test_mean_and_error_are_those_of_the_sample(values):
    mean, error = mean_and_error(values)
    m = len(values)
    expected = sum(values) / m
    assert mean == pytest.approx(expected, abs=1e-9)
    spread = math.sqrt(sum((v - expected) ** 2 for v in values) / (m - 1))
    assert error == pytest.approx(spread / math.sqrt(m), abs=1e-9)


def test_one_value_has_no_error():
    mean, error = mean_and_error([2.5])
    assert mean == 2.5 and math.isnan(error)


def test_p_value_is_welchs():
    rng = np.random.default_rng(0)
    for m, n, shift in ((3, 25, 0.0), (25, 25, 0.5), (2, 9, -1.0), (12, 4, 2.0)):
        a, b = rng.normal(size=m), shift + 3 * rng.normal(size=n)
        assert p_value_below(a, b) == pytest.approx(welch(a, b), rel=1e-9)


def test_p_value_of_the_papers_figures():
    # Table 2, MovieLens at alpha = 0.9: COMET+ 40.69 +- 0.02 against DSelect-k 40.82 +- 0.02, 25 trials each.
    shape = np.resize([-1.0, 1.0], 24).tolist() + [0.0]
    unit = np.asarray(shape) / mean_and_error(shape)[1]
    comet, dselect = 40.69 + 0.02 * unit, 40.82 + 0.02 * unit
    assert mean_and_error(comet) == pytest.approx((40.69, 0.02))
    assert p_value_below(comet, dselect) == pytest.approx(stdtr(48, -0.13 / math.hypot(0.02, 0.02)))
    assert p_value_below(comet, dselect) < 0.05


@given(SAMPLES, SAMPLES)
def test_the_two_directions_add_up_to_one(a, b):
    assert p_value_below(a, b) + p_value_below(b, a) == pytest.approx(1, abs=1e-6)


def test_without_spread_the_means_decide():
    assert p_value_below([1.0, 1.0], [2.0, 2.0]) == 0
    assert p_value_below([2.0, 2.0], [1.0, 1.0]) == 1
    assert p_value_below([1.0, 1.0], [1.0, 1.0, 1.0]) == 0.5


def test_one_value_cannot_be_tested():
    assert math.isnan(p_value_below([1.0], [2.0, 3.0]))
    assert math.isnan(p_value_below([1.0, 2.0], [3.0]))


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, math.nan], [math.inf]])
def test_samples_that_are_refused(values):
    with pytest.raises(ValueError, match="`values`"):
        mean_and_error(values)
    with pytest.raises(ValueError, match="`baseline`"):
        p_value_below([1.0, 2.0], values)
