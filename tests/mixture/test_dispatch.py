"""Sparse dispatch is exact: outputs and gradients equal those of running every expert on every row."""

import keras
import numpy as np
import pytest
from helpers import BACKEND, called, compiled, gradient, random_weights, value, with_value
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops
from mixture.common import GATES, dense_list, normal, one_expert_each

from comet_keras import COMETGate, DenseExperts, Gate, MixtureOfExperts, Permutation, TopKGate

# On JAX each shape is compiled anew.
FEW = settings(max_examples=4 if BACKEND == "jax" else 25, deadline=None)


class GivenWeights(Gate):
    """A gate that returns its inputs."""

    def route(self, inputs, training=False):
        return {"weights": inputs}


def conv_list(n):
    def expert():
        return keras.Sequential(
            [keras.layers.Conv2D(2, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(3)]
        )

    return [expert() for _ in range(n)]


EXPERTS = {
    "stacked": lambda n: DenseExperts(n, (4, 3), activation="relu"),
    "listed": dense_list,
    "convolutions": conv_list,
}


def pair(make, *shapes):
    """The same mixture, dense and sparse, with common weights."""
    mixtures = [make("dense"), make("sparse")]
    for mixture in mixtures:
        mixture.build(*shapes)
    mixtures[1].set_weights(mixtures[0].get_weights())
    return mixtures


def total(mixture, inputs):
    """A loss in training."""
    outputs = mixture(*inputs, training=True)
    return sum(ops.sum(ops.sin(x)) for x in keras.tree.flatten(outputs))


def outputs_and_gradients(mixture, *inputs):
    """Outputs in inference, and gradients of a loss in training by all weights and inputs."""
    inputs = [np.asarray(x, "float32") for x in inputs]

    found = {"outputs": [value(x) for x in keras.tree.flatten(called(mixture, *inputs))]}
    tensors = [ops.convert_to_tensor(x) for x in inputs]
    for i in range(len(inputs)):

        def of_input(x, i=i):
            with keras.StatelessScope():
                return total(mixture, [*tensors[:i], x, *tensors[i + 1 :]])

        found[f"input {i}"] = gradient(compiled(of_input), inputs[i], "float32")
    for i, weight in enumerate(mixture.trainable_weights):
        of_weight = compiled(with_value(weight, lambda: total(mixture, tensors)))
        found[f"{i} {weight.name}"] = gradient(of_weight, value(weight), "float32")
    return found


def assert_agree(dense, sparse):
    assert dense.keys() == sparse.keys()
    for key in dense:
        for a, b in zip(np.atleast_1d(dense[key]), np.atleast_1d(sparse[key])):
            tolerance = 1e-5 if key == "outputs" else 1e-4
            scale = max(1e-3, np.abs(a).max(initial=0.0))
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * scale, err_msg=key)


def assert_same(make, *inputs):
    """`inputs`: those of the experts, and weights for `GivenWeights`."""
    found = [outputs_and_gradients(x, *inputs) for x in pair(make, *(np.shape(x) for x in inputs))]
    if len(inputs) > 1:
        # Where nothing was selected nothing flows; every gate has a zero derivative of its own there.
        for gradients in found:
            gradients["input 1"] = np.where(inputs[1] != 0, gradients["input 1"], 0.0)
    assert_agree(*found)


@pytest.mark.parametrize("gate", ["topk", "dselect_k", "comet", "softmax"])
@pytest.mark.parametrize("experts", ["stacked", "listed"])
def test_for_every_gate_and_kind_of_experts(gate, experts):
    assert_same(
        lambda mode: MixtureOfExperts(EXPERTS[experts](5), GATES[gate](5), dispatch=mode), normal(6, 7)
    )


def test_for_experts_on_images():
    assert_same(
        lambda mode: MixtureOfExperts(conv_list(3), GivenWeights(3, 1), dispatch=mode),
        normal(5, 5, 5, 1),
        np.eye(3)[[0, 2, 2, 0, 2]],
    )


def test_for_hash_gates():
    x, ids = normal(6, 7), np.array([[0], [1], [1], [3], [0], [1]])
    dense, sparse = pair(
        lambda mode: MixtureOfExperts(DenseExperts(4, 3), one_expert_each(4), dispatch=mode),
        x.shape,
        ids.shape,
    )
    np.testing.assert_allclose(
        value(sparse(x, gate_inputs=ids)), value(dense(x, gate_inputs=ids)), rtol=1e-5, atol=1e-6
    )


def hard_comet(n):
    return COMETGate(
        n, k=2, gamma=1e-3, split_initializer=keras.initializers.RandomNormal(seed=3)
    )


def test_for_two_hard_gates_and_local_search():
    def make(mode):
        permutation = Permutation(6)
        permutation.build((None, 6))
        permutation.assignment.assign([3, 1, 5, 0, 2, 4])
        permutation.hardened.assign(True)
        return MixtureOfExperts(
            DenseExperts(6, (4, 3), activation="relu"),
            {"a": hard_comet(6), "b": TopKGate(6, k=1, softmax="before")},
            permutation,
            dispatch=mode,
        )

    assert_same(make, normal(9, 7))


def test_while_the_permutation_is_soft():
    def make(mode):
        permutation = Permutation(4)
        permutation.begin(10)
        return MixtureOfExperts(DenseExperts(4, 3), TopKGate(4), permutation, dispatch=mode)

    assert_same(make, normal(5, 7))


def routing(rng, rows, n, k, load):
    """Weights `(rows, n)` with at most k non-zeros a row."""
    weights = np.zeros((rows, n), "float32")
    for row in range(rows):
        if load == "one expert":
            chosen = [n - 1]
        else:
            skewed = np.ones(n)
            skewed[0] = 10.0 if load == "skewed" else 1.0
            count = int(rng.integers(1, k + 1))
            chosen = rng.choice(n, count, replace=False, p=skewed / skewed.sum())
        weights[row, chosen] = random_weights(rng, len(chosen))
    return weights


@FEW
@given(
    n=st.sampled_from([1, 2, 3, 7, 16]),
    k=st.integers(1, 3),
    rows=st.sampled_from([1, 2, 5, 33, 70]),
    load=st.sampled_from(["even", "skewed", "one expert"]),
    experts=st.sampled_from(["stacked", "listed"]),
    seed=st.integers(0, 1000),
)
def test_for_any_load(n, k, rows, load, experts, seed):
    k = min(k, n)
    weights = routing(np.random.default_rng(seed), rows, n, k, load)
    make = EXPERTS[experts]

    def mixture(mode):
        return MixtureOfExperts(make(n), GivenWeights(n, k), dispatch=mode)

    x = normal(rows, 4, seed=seed)
    dense, sparse = pair(mixture, x.shape, weights.shape)
    np.testing.assert_allclose(
        value(called(sparse, x, weights)), value(called(dense, x, weights)), rtol=1e-5, atol=1e-5
    )


def test_for_many_experts():
    weights = routing(np.random.default_rng(0), 40, 512, 2, "even")

    def make(mode):
        return MixtureOfExperts(DenseExperts(512, 3), GivenWeights(512, 2), dispatch=mode)

    assert_same(make, normal(40, 4), weights)


@pytest.mark.parametrize("experts", ["stacked", "listed"])
def test_where_rows_use_more_experts_than_k_says(experts):
    weights = np.full((6, 4), 0.25, "float32")
    weights[0] = [1, 0, 0, 0]

    def make(mode):
        return MixtureOfExperts(EXPERTS[experts](4), GivenWeights(4, 1), dispatch=mode)

    assert_same(make, normal(6, 5), weights)


@pytest.mark.parametrize("experts", ["stacked", "listed"])
def test_an_empty_batch_passes(experts):
    mixture = MixtureOfExperts(EXPERTS[experts](4), TopKGate(4), dispatch="sparse")
    assert tuple(mixture(np.zeros((0, 5), "float32")).shape) == (0, 3)


@pytest.mark.parametrize("experts", ["stacked", "listed"])
def test_on_sequences_with_a_mask(experts):
    x, mask = normal(3, 4, 5), np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]], bool)
    dense, sparse = pair(
        lambda mode: MixtureOfExperts(EXPERTS[experts](4), TopKGate(4), dispatch=mode), x.shape
    )
    np.testing.assert_allclose(
        value(sparse(x, mask=mask)), value(dense(x, mask=mask)), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("mode", ["auto", "sparse"])
def test_a_row_does_not_depend_on_the_others(mode):
    """Also not on the form that `auto` takes for their number."""
    mixture = MixtureOfExperts(DenseExperts(16, (64, 32), activation="relu"), TopKGate(16), dispatch=mode)
    x = normal(64, 48)
    together = value(mixture(x))
    for size in (1, 7):
        parts = [value(mixture(x[i : i + size])) for i in range(0, 64, size)]
        np.testing.assert_allclose(np.concatenate(parts), together, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_in_other_precisions(policy):
    def make(mode):
        return MixtureOfExperts(
            DenseExperts(4, 3, dtype=policy), TopKGate(4, dtype=policy), dtype=policy, dispatch=mode
        )

    x = normal(9, 5)
    dense, sparse = pair(make, x.shape)
    if BACKEND == "tensorflow":  # elsewhere Keras turns some float64 results into float32
        assert sparse(x).dtype == dense(x).dtype
    tolerance = {"mixed_float16": 1e-2, "mixed_bfloat16": 5e-2, "float64": 1e-6}[policy]
    np.testing.assert_allclose(
        value(ops.cast(sparse(x), "float32")),
        value(ops.cast(dense(x), "float32")),
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.parametrize("mode", ["auto", "sparse"])
def test_details_come_for_all_experts(mode):
    mixture = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4), dispatch=mode)
    x = normal(5, 6)
    details = mixture(x, return_details=True)
    assert tuple(details["expert_outputs"].shape) == (5, 4, 3)
    np.testing.assert_allclose(value(details["outputs"]), value(mixture(x)), rtol=1e-5, atol=1e-6)


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="`dispatch`"):
        MixtureOfExperts(DenseExperts(4, 3), TopKGate(4), dispatch="fast")


class OwnStack(keras.layers.Layer):
    """A user's layer of stacked experts that takes all rows only."""

    num_experts = 4

    def call(self, inputs):
        return ops.stack([inputs * i for i in range(4)], axis=1)

    def compute_output_shape(self, shape):
        return (shape[0], 4, shape[1])


def test_stacks_that_take_all_rows_only_are_computed_densely():
    with pytest.raises(ValueError, match="`sizes` and `owners`"):
        MixtureOfExperts(OwnStack(), TopKGate(4), dispatch="sparse")
    mixture = MixtureOfExperts(OwnStack(), TopKGate(4))
    assert tuple(mixture(normal(5, 6)).shape) == (5, 6)


SEQUENCE_EXPERTS = {
    "recurrent": lambda: keras.layers.LSTM(3, return_sequences=True),
    "convolution": lambda: keras.layers.Conv1D(3, 3, padding="same"),
    "normalization over time": lambda: keras.layers.LayerNormalization(axis=1),
    "of fixed length": lambda: keras.Sequential([keras.Input((7, 3)), keras.layers.Dense(3)]),
}


@pytest.mark.parametrize("kind", SEQUENCE_EXPERTS)
def test_experts_that_may_need_neighbours_are_computed_densely_on_sequences(kind):
    dense, sparse = pair(
        lambda mode: MixtureOfExperts(
            [SEQUENCE_EXPERTS[kind]() for _ in range(3)], TopKGate(3, k=2), dispatch=mode
        ),
        (2, 7, 3),
    )
    x = normal(2, 7, 3)
    with pytest.warns(UserWarning, match="computed densely"):
        found = sparse(x)
    np.testing.assert_allclose(value(found), value(dense(x)), rtol=1e-5, atol=1e-6)
