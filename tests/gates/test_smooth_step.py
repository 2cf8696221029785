"""The smooth step: a sigmoid that reaches exact zeros and ones."""

import numpy as np
import pytest
from helpers import (
    assert_gradient,
    cases,
    double_precision,
    exact_smooth_step,
    gradient,
    value,
)
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from comet_keras.gates.smooth_step import smooth_step


@pytest.mark.parametrize("case", cases("fn.smooth_step"))
def test_value_and_derivative_of_the_published_cases(case):
    t, gamma = case["inputs"]["t"], case["inputs"]["gamma"]
    found = value(smooth_step(ops.convert_to_tensor(t, "float32"), gamma))
    np.testing.assert_allclose(found, case["expected"]["value"], atol=case["tolerance"])
    with double_precision():
        slope = gradient(lambda x: ops.sum(smooth_step(x, gamma)), t)
    np.testing.assert_allclose(slope, case["expected"]["derivative"], rtol=1e-6, atol=1e-6)


@given(
    t=st.lists(st.floats(-20, 20, width=32), min_size=8, max_size=8),
    gamma=st.sampled_from([0.01, 0.3, 1.0, 10.0]),
)
def test_equals_its_definition_and_stays_within_0_and_1(t, gamma):
    found = value(smooth_step(ops.convert_to_tensor(t, "float32"), gamma))
    np.testing.assert_allclose(found, exact_smooth_step(t, gamma), atol=1e-6)
    assert (found >= 0).all() and (found <= 1).all()


@pytest.mark.parametrize("gamma", [0.001, 0.01, 0.3, 0.7, 1.0, 5.0, 10.0])
def test_is_exactly_0_and_1_from_half_of_gamma_on(gamma):
    half = np.float32(gamma) / 2
    t = ops.convert_to_tensor(np.array([-half, -2 * half, -1e30, half, 2 * half, 1e30], "float32"))
    assert value(smooth_step(t, gamma)).tolist() == [0, 0, 0, 1, 1, 1]


@given(st.floats(0.001, 10), st.floats(-0.5, 0.5))
def test_left_and_right_add_to_one(gamma, share):
    t = ops.convert_to_tensor([share * gamma], "float32")
    total = value(smooth_step(t, gamma)) + value(smooth_step(-t, gamma))
    np.testing.assert_allclose(total, 1, atol=3e-7)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 10.0])
def test_gradient_equals_finite_differences_within_the_soft_range(gamma):
    assert_gradient(
        lambda t: ops.sum(ops.sin(smooth_step(t, gamma))),
        gamma * np.linspace(-0.45, 0.45, 7),
        step=1e-6 * gamma,
    )


def test_gradient_is_zero_and_never_nan_at_and_beyond_the_ends():
    for dtype in ("float32", "float64"):
        with double_precision():
            slope = gradient(
                lambda t: ops.sum(smooth_step(t, 1.0)), [-1e30, -1.0, -0.5, 0.5, 1.0, 1e30], dtype
            )
        assert slope.tolist() == [0] * 6
