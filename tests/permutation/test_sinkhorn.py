"""Sinkhorn rounds and their schedule: values and gradients against numpy in float64."""

import numpy as np
import pytest
from helpers import (
    assert_gradient,
    cases,
    double,
    double_precision,
    exact_entropy,
    gradient,
    slow_sinkhorn,
    value,
)
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from comet_keras.permutation.sinkhorn import schedule, sinkhorn


@pytest.mark.parametrize("case", cases("perm.sinkhorn"))
def test_soft_matrix_of_the_published_cases(case):
    inputs, expected = case["inputs"], case["expected"]
    logits = ops.convert_to_tensor(inputs["U"], "float32")
    soft = value(sinkhorn(logits, inputs["tau"], inputs["R"], 20)[0])
    np.testing.assert_allclose(soft, expected["S"], atol=1e-5)
    np.testing.assert_allclose(soft.sum(1), expected["row_sums"], atol=1e-5)
    with double_precision():
        logits = ops.convert_to_tensor(inputs["U"], "float64")
        soft = value(sinkhorn(logits, inputs["tau"], inputs["R"], 20)[0])
    np.testing.assert_allclose(soft, expected["S"], atol=case["tolerance"])
    rows = soft / soft.sum(1, keepdims=True)
    np.testing.assert_allclose(
        inputs["zeta"] * (exact_entropy(soft).sum() + exact_entropy(rows).sum()),
        expected["reg_exact"],
        atol=1e-10,
    )


@pytest.mark.parametrize("case", cases("perm.schedule"))
def test_schedule_of_the_published_cases(case):
    tau, rounds = schedule(case["inputs"]["step"], case["inputs"]["total"], (1e-3, 1e-7), (20, 150))
    np.testing.assert_allclose(value(tau), case["expected"]["tau"], rtol=1e-5)
    assert int(value(rounds)) == case["expected"]["R"]


def test_schedule_stays_at_its_start_while_the_length_of_the_stage_is_unknown():
    tau, rounds = schedule(1000, 0, (1e-3, 1e-7), (20, 150))
    np.testing.assert_allclose(value(tau), 1e-3, rtol=1e-5)
    assert int(value(rounds)) == 20


def test_rounds_never_fall_and_never_leave_their_bounds():
    found = [int(value(schedule(step, 130, (1e-3, 1e-7), (20, 150))[1])) for step in range(0, 140, 3)]
    assert found == [min(20 + step, 150) for step in range(0, 140, 3)]


@given(
    n=st.sampled_from([1, 2, 3, 7]),
    rounds=st.integers(1, 12),
    tau=st.sampled_from([1.0, 0.1, 1e-3]),
    warm=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_equals_a_loop_and_its_columns_sum_to_1(n, rounds, tau, warm, seed):
    rng = np.random.default_rng(seed)
    logits = rng.uniform(-0.05, 0.05, size=(n, n))
    start = rng.uniform(-0.05, 0.05, size=n) if warm else None
    expected, expected_potentials = slow_sinkhorn(logits, tau, rounds, start)
    with double_precision():
        soft, potentials = sinkhorn(
            double(logits),
            tau,
            rounds,
            12,
            None if start is None else double(start),
        )
        soft, potentials = value(soft), value(potentials)
    np.testing.assert_allclose(soft, expected, atol=1e-9)
    np.testing.assert_allclose(potentials, expected_potentials, atol=1e-9)
    np.testing.assert_allclose(soft.sum(0), 1, atol=1e-12)


@pytest.mark.parametrize("tau", [1e-1, 1e-3, 1e-5, 1e-7])
def test_columns_sum_to_1_in_float32_at_any_temperature(tau):
    rng = np.random.default_rng(0)
    logits = ops.convert_to_tensor(rng.uniform(-0.05, 0.05, size=(9, 9)), "float32")
    soft = value(sinkhorn(logits, tau, 20, 20)[0])
    assert np.isfinite(soft).all() and (soft >= 0).all()
    # The exponent is of size 0.05 / tau, of which float32 keeps 7 digits.
    np.testing.assert_allclose(soft.sum(0), 1, atol=max(1e-5, 2e-8 / tau))


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("tau, rounds", [(1.0, 1), (0.1, 3), (0.02, 7), (0.02, 30)])
def test_gradient_in_the_logits_equals_finite_differences(tau, rounds, warm):
    rng = np.random.default_rng(rounds)
    logits, coefficients = rng.uniform(-0.05, 0.05, size=(4, 4)), rng.normal(size=(4, 4))
    start = rng.uniform(-0.02, 0.02, size=4)
    with double_precision():

        def loss(u):
            given_start = double(start) if warm else None
            soft, _ = sinkhorn(u, tau, rounds, 30, given_start)
            return ops.sum(double(coefficients) * soft + ops.square(soft))

        assert np.abs(gradient(loss, logits)).max() > 1e-2
        assert_gradient(loss, logits, step=1e-6, tolerance=1e-5)


@pytest.mark.parametrize("tau", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("warm", [False, True])
def test_gradient_is_finite_as_the_matrix_hardens(tau, warm):
    rng = np.random.default_rng(0)
    for logits in (rng.uniform(-0.05, 0.05, size=(5, 5)), np.eye(5), np.zeros((5, 5))):
        start = ops.zeros((5,)) if warm else None
        found = gradient(
            lambda u: ops.sum(ops.square(sinkhorn(u, tau, 20, 150, start)[0])), logits, "float32"
        )
        assert np.isfinite(found).all()


def test_potentials_carry_the_rounds_over_to_the_next_step():
    logits = np.random.default_rng(4).uniform(-0.05, 0.05, size=(6, 6))
    with double_precision():
        u = double(logits)
        _, half_way = sinkhorn(u, 0.01, 5, 10)
        warm, _ = sinkhorn(u, 0.01, 5, 10, half_way)
        whole, _ = sinkhorn(u, 0.01, 10, 10)
        np.testing.assert_allclose(value(warm), value(whole), atol=1e-12)
