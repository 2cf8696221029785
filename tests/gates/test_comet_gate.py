"""COMET: trees with smooth-step splits, one softmax over trees and leaves."""

import keras
import numpy as np
import pytest
from helpers import (
    BACKEND,
    cases,
    comet_of,
    compiled,
    exact_entropy,
    exact_smooth_step,
    value,
)
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from comet_keras import COMETGate, Permutation
from comet_keras.gates.tree import leaf_layout
from comet_keras.regularizers import Entropy


def slow_leaves(splits, gamma):
    """Leaf probabilities of one tree by recursion; leaves left first, heap node q a leaf from n - 1 on."""
    n = len(splits) + 1
    leaves = []

    def visit(node, probability):
        if node >= n - 1:
            leaves.append(probability)
            return
        left = exact_smooth_step(splits[node], gamma)
        visit(2 * node + 1, probability * left)
        visit(2 * node + 2, probability * exact_smooth_step(-splits[node], gamma))

    visit(0, 1.0)
    return np.array(leaves)


def slow_comet(splits, alpha, gamma):
    """Leaf probabilities `(B, k, n)` and weights `(B, n)` by equation 3, in float64."""
    v = np.array([[slow_leaves(tree, gamma) for tree in sample] for sample in splits])
    shifted = np.where(v > 0, alpha, -np.inf)
    exps = np.exp(alpha - shifted.max((1, 2), keepdims=True)) * v
    exps = np.where(v > 0, exps, 0)
    return v, exps.sum(1) / exps.sum((1, 2))[:, None]


@pytest.mark.parametrize("case", cases("gate.comet"))
def test_weights_and_entropy_of_the_published_cases(case):
    inputs, expected, atol = case["inputs"], case["expected"], case["tolerance"]
    splits, alpha = inputs["split_logits_heap_order"], inputs["alpha"]
    gate = COMETGate(
        inputs["n"], len(splits[0]), gamma=inputs["gamma"], entropy_weight=inputs["entropy_weight"]
    )
    x = comet_of(gate, splits, alpha)
    routing = gate.route(x)
    np.testing.assert_allclose(value(routing["selectors"]), expected["v"], atol=atol)
    np.testing.assert_allclose(value(routing["logits"]), alpha, atol=atol)
    weights = gate(x, training=True)
    np.testing.assert_allclose(value(weights), expected["gates"], atol=atol)
    assert (value(weights) > 0).sum(-1).tolist() == expected["nonzero"]
    np.testing.assert_allclose(value(gate.losses[0]), expected["entropy_exact"], atol=atol)
    if "P" in inputs:
        permutation = Permutation(inputs["n"])
        permutation.build(weights.shape)
        permutation.assignment.assign(np.argmax(inputs["P"], axis=1))
        found = value(permutation(weights))
        np.testing.assert_allclose(found, expected["gates_Pg_paper"], atol=atol)
        assert np.abs(found - expected["gates_PTg_code"]).max() > 0.1


@pytest.mark.parametrize("case", cases("fn.comet_tree_layout"))
def test_leaves_count_from_left_to_right(case):
    heap, depth = leaf_layout(case["inputs"]["n"])
    assert heap == case["expected"]["leaf_heap_index"]
    assert depth == case["expected"]["depth"]


@pytest.mark.parametrize("case", cases("fn.comet_tree_layout"))
def test_an_input_sent_left_and_right_along_a_path_reaches_the_leaf_of_that_heap_index(case):
    n = case["inputs"]["n"]
    gate = COMETGate(n, k=1)
    for expert, node in enumerate(case["expected"]["leaf_heap_index"]):
        splits = np.zeros(n - 1)
        while node:
            parent = (node - 1) // 2
            splits[parent] = 1.0 if node == 2 * parent + 1 else -1.0
            node = parent
        tensors = (ops.convert_to_tensor(a[None, None], "float32") for a in (splits, np.zeros(n)))
        weights = value(compiled(gate.combine)(*tensors)["weights"])
        assert weights.tolist() == [np.eye(n)[expert].tolist()]


@given(st.data())
def test_equals_a_recursive_tree(data):
    n, k = data.draw(st.integers(2, 70)), data.draw(st.integers(1, 5))
    gamma = data.draw(st.sampled_from([0.01, 1.0, 10.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    splits = gamma * rng.uniform(-0.7, 0.7, size=(2, k, n - 1))
    alpha = rng.normal(size=(2, k, n)) * data.draw(st.sampled_from([0.05, 3.0]))
    v, weights = slow_comet(splits, alpha, gamma)
    tensors = (ops.convert_to_tensor(a, "float32") for a in (splits, alpha))
    routing = compiled(COMETGate(n, k=k, gamma=gamma).combine)(*tensors)
    np.testing.assert_allclose(value(routing["selectors"]), v, atol=2e-6)
    np.testing.assert_allclose(value(routing["weights"]), weights, atol=5e-6)


@given(st.integers(2, 70), st.integers(1, 5), st.integers(0, 10**6))
def test_at_most_k_experts_once_the_splits_are_hard(n, k, seed):
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1, 1], size=(7, k, n - 1))
    splits = signs * (0.5 + rng.exponential(size=signs.shape) * rng.integers(0, 2, size=signs.shape))
    tensors = (ops.convert_to_tensor(a, "float32") for a in (splits, rng.normal(size=(7, k, n))))
    routing = compiled(COMETGate(n, k=k).combine)(*tensors)
    selectors, weights = value(routing["selectors"]), value(routing["weights"])
    assert set(np.unique(selectors)) == {0, 1}
    assert (selectors.sum(-1) == 1).all()
    assert ((weights > 0).sum(-1) <= k).all()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_hard_trees_share_the_weight_by_their_leaf_logits():
    # Tree 1 reaches expert 0, tree 2 expert 2.
    splits = [[[1.0, 1.0], [-1.0, 0.3]]]
    alpha = [[[2.0, 9.0, 9.0], [9.0, 9.0, 1.0]]]
    tensors = (ops.convert_to_tensor(a, "float32") for a in (splits, alpha))
    weights = value(compiled(COMETGate(3, k=2).combine)(*tensors)["weights"])
    share = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(weights, [[share, 0, 1 - share]], atol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e4])
def test_huge_leaf_logits_give_finite_weights(scale):
    rng = np.random.default_rng(0)
    splits, alpha = rng.uniform(-1, 1, size=(20, 2, 4)), scale * rng.normal(size=(20, 2, 5))
    tensors = (ops.convert_to_tensor(a, "float32") for a in (splits, alpha))
    weights = value(compiled(COMETGate(5, k=2).combine)(*tensors)["weights"])
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_more_trees_than_experts_are_allowed():
    weights = value(COMETGate(2, k=5)(ops.ones((3, 4))))
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_first_splits_are_soft_whatever_gamma():
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(50, 8)), "float32")
    for gamma in (0.001, 10.0):
        weights = value(COMETGate(4, k=1, gamma=gamma)(x))
        assert weights.min() > 0.1 and weights.max() < 0.5


def test_each_tree_starts_different_also_from_one_shared_initializer():
    for seed in (None, 5):
        initializer = keras.initializers.RandomNormal(seed=seed)
        gate = COMETGate(
            4, k=3, split_initializer=initializer, leaf_initializer=initializer
        )
        gate.build((None, 6))
        parts = [
            tree
            for variable, width in (
                (gate.split_kernel, 3),
                (gate.split_bias, 3),
                (gate.leaf_kernel, 4),
                (gate.leaf_bias, 4),
            )
            for tree in np.split(value(variable), 3, axis=-1)
        ]
        numbers = np.concatenate([part.ravel() for part in parts])
        assert len(np.unique(numbers)) == len(numbers)


def test_a_seeded_initializer_makes_equal_gates_and_an_unseeded_one_different_gates():
    def kernel(seed):
        gate = COMETGate(4, leaf_initializer=keras.initializers.RandomUniform(seed=seed))
        gate.build((None, 6))
        return value(gate.leaf_kernel)

    np.testing.assert_array_equal(kernel(7), kernel(7))
    assert not np.array_equal(kernel(7), kernel(8))
    assert not np.array_equal(kernel(None), kernel(None))


def test_entropy_is_zero_for_hard_trees_and_largest_for_soft_ones():
    def entropy(splits):
        tensors = (ops.convert_to_tensor(a, "float32") for a in (splits, np.zeros((1, 2, 4))))
        return float(value(Entropy(1.0)(compiled(COMETGate(4, k=2).combine)(*tensors)["selectors"])))

    assert entropy(np.ones((1, 2, 3))) == 0
    np.testing.assert_allclose(entropy(np.zeros((1, 2, 3))), 2 * exact_entropy([0.25] * 4), rtol=1e-6)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch runs step by step, so it compiles nothing.")
@pytest.mark.parametrize("gamma", [0.01, 0.3, 0.7, 10.0])
def test_compiled_models_keep_exact_zeros_at_the_ends_of_the_soft_range(gamma):
    gate = COMETGate(2, k=1, gamma=gamma)
    inputs = keras.Input((1,))
    model = keras.Model(inputs, gate(inputs))
    gate.split_kernel.assign([[1.0]])
    gate.split_bias.assign([0.0])
    model.compile(jit_compile=True)
    half = np.float32(gamma) / 2
    weights = model.predict(np.array([[half], [-half], [3 * half]], "float32"), verbose=0)
    assert weights.tolist() == [[1, 0], [0, 1], [1, 0]]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"gamma": -1}, "`gamma`.*gamma=-1"),
        ({"k": 1.5}, "`k`.*k=1.5"),
        ({"entropy_weight": -0.1}, "`weight`.*-0.1"),
        ({"regularizers": [Entropy(1.0)]}, "regularizers.*entropy"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        COMETGate(4, **{"entropy_weight": 0.1, **arguments})
