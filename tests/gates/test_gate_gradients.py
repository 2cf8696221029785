"""Gradients of every gate against finite differences in float64, and at exact zeros and ones."""

import numpy as np
import pytest
from helpers import (
    assert_gradient,
    double,
    double_precision,
    gradient,
    value,
    with_value,
)
from keras import ops

from comet_keras import COMETGate, DSelectKGate, SoftmaxGate, TopKGate

GATES = {
    "softmax": lambda **kw: SoftmaxGate(5, **kw),
    "topk": lambda **kw: TopKGate(5, k=2, **kw),
    "topk_before": lambda **kw: TopKGate(5, k=2, softmax="before", **kw),
    "dselect_k": lambda **kw: DSelectKGate(5, k=2, **kw),
    "static_dselect_k": lambda **kw: DSelectKGate(5, k=2, per_sample=False, **kw),
    "comet": lambda **kw: COMETGate(5, k=3, **kw),
    "comet_single": lambda **kw: COMETGate(6, k=1, gamma=3.0, **kw),
}


def made(kind):
    """A float64 gate with weights that use the whole soft range, inputs, and an odd loss."""
    rng = np.random.default_rng(3)
    gate = GATES[kind](dtype="float64")
    gate.build((None, 3))
    for variable in gate.trainable_variables:
        variable.assign(0.15 * rng.normal(size=variable.shape))
    coefficients = double(rng.normal(size=(4, gate.num_experts)))
    x = rng.normal(size=(4, 3))
    return gate, x, lambda weights: ops.sum(coefficients * weights + ops.square(weights))


@pytest.mark.parametrize("kind", GATES)
def test_input_gradients_equal_finite_differences(kind):
    with double_precision():
        gate, x, loss = made(kind)
        assert_gradient(lambda x: loss(gate(x)), x)


@pytest.mark.parametrize("kind", GATES)
def test_gradients_of_all_weights_equal_finite_differences(kind):
    with double_precision():
        gate, x, loss = made(kind)
        x = double(x)
        for variable in gate.trainable_variables:
            function = with_value(variable, lambda: loss(gate(x)))
            assert_gradient(function, value(variable))
            assert np.abs(gradient(function, value(variable))).max() > 1e-4, variable.path


@pytest.mark.parametrize("kind", ["comet", "dselect_k"])
def test_selector_gradients_equal_finite_differences(kind):
    with double_precision():
        gate, x, _ = made(kind)
        assert_gradient(lambda x: ops.sum(ops.sin(gate.route(x)["selectors"])), x)


# Some splits exactly at the ends of the soft range, some beyond, some soft.
EDGES = np.array([-0.5, 0.5, -3.0, 3.0, 0.2, -0.4])


@pytest.mark.parametrize("seed", range(8))
def test_comet_gradients_are_finite_and_right_at_and_beyond_the_ends(seed):
    rng = np.random.default_rng(seed)
    splits, alpha = rng.choice(EDGES, size=(5, 2, 4)), rng.normal(size=(5, 2, 5))

    def loss(splits, alpha):
        return ops.sum(ops.square(gate.combine(splits, alpha)["weights"]))

    with double_precision():
        gate = COMETGate(5, k=2, dtype="float64")
        fixed_alpha, fixed_splits = double(alpha), double(splits)
        # The second derivative jumps at the ends, hence the small step.
        assert_gradient(lambda s: loss(s, fixed_alpha), splits, step=1e-7, tolerance=1e-5)
        assert_gradient(lambda a: loss(fixed_splits, a), alpha)
    for dtype in ("float32", "float64"):
        with double_precision():
            found = gradient(
                lambda s: loss(s, ops.convert_to_tensor(alpha, dtype)), splits, dtype
            )
        assert np.isfinite(found).all()
        assert (found[np.abs(splits) >= 0.5] == 0).all()


@pytest.mark.parametrize("small", [1e-4, 1e-8, 1e-12, 1e-30])
def test_comet_gradients_stay_finite_as_a_leaf_vanishes(small):
    # The right leaf has probability about 3 small^2, down to what float32 can't hold.
    splits = np.array([[[0.5 - small]], [[-0.5 + small]], [[0.5]], [[-0.5]]])
    gate = COMETGate(2, k=1)

    def loss(splits):
        alpha = ops.convert_to_tensor(np.tile([[[0.3, -0.2]]], (4, 1, 1)), "float32")
        return ops.sum(ops.square(gate.combine(splits, alpha)["weights"]))

    found = gradient(loss, splits, "float32")
    assert np.isfinite(found).all() and np.abs(found).max() < 10


def test_one_hot_trees_pass_gradient_to_the_leaf_logits_of_what_they_reach_only():
    splits = ops.convert_to_tensor([[[1.0, 1.0], [-1.0, 1.0]]], "float32")  # experts 0 and 2
    gate = COMETGate(3, k=2)

    def loss(alpha):
        return gate.combine(splits, alpha)["weights"][0, 0]

    found = gradient(loss, np.zeros((1, 2, 3)), "float32")
    np.testing.assert_allclose(found, [[[0.25, 0, 0], [0, 0, -0.25]]], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_dselect_k_gradients_are_finite_and_right_at_and_beyond_the_ends(seed):
    rng = np.random.default_rng(seed)
    codes, logits = rng.choice(EDGES, size=(5, 6)), rng.normal(size=(5, 2))
    with double_precision():
        gate = DSelectKGate(5, k=2, dtype="float64")
        fixed = double(logits)

        def loss(codes):
            return ops.sum(ops.square(gate.combine(codes, fixed)["weights"]))

        assert_gradient(loss, codes, step=1e-7, tolerance=1e-5)
        found = gradient(loss, codes)
        assert (found[np.abs(codes) >= 0.5] == 0).all()
        fixed_codes = double(codes)
        assert_gradient(
            lambda w: ops.sum(ops.square(gate.combine(fixed_codes, w)["weights"])), logits
        )


def test_saturated_selectors_pass_gradient_to_the_selector_weights_only():
    codes = np.array([[3.0, -3.0]])  # k = 2, n = 2: experts 1 and 0
    with double_precision():
        gate = DSelectKGate(2, k=2, dtype="float64")
        fixed = double(codes)
        found = gradient(lambda w: gate.combine(fixed, w)["weights"][0, 0], [[0.0, 0.0]])
        np.testing.assert_allclose(found, [[-0.25, 0.25]])
        zeros = double(np.zeros((1, 2)))
        assert not gradient(lambda c: gate.combine(c, zeros)["weights"][0, 0], codes).any()


@pytest.mark.parametrize("softmax", ["after", "before"])
def test_top_k_gradients_do_not_go_through_what_was_not_selected(softmax):
    gate = TopKGate(4, k=2, softmax=softmax)

    def loss(logits):
        return ops.sum(ops.square(gate.select(logits)["weights"]))

    logits = np.array([[3.0, -1.0, 2.0, -2.0], [1e4, -1e4, 0.0, 5.0], [0.0, 0.0, 0.0, 0.0]])
    found = gradient(loss, logits, "float32")
    assert np.isfinite(found).all()
    if softmax == "after":
        assert (found[0, [1, 3]] == 0).all() and (np.abs(found[0, [0, 2]]) > 0.1).all()
