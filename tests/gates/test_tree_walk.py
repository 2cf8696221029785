"""Prediction over many experts walks hard trees, and gives the weights of all leaves."""

import keras
import numpy as np
import pytest
from helpers import BACKEND, value
from keras import ops

from comet_keras import COMETGate, DenseExperts, MixtureOfExperts
from comet_keras.gates import tree_walk


def gate_of(n, gamma, k=2):
    gate = COMETGate(
        n,
        k=k,
        gamma=gamma,
        split_initializer=keras.initializers.RandomNormal(seed=1),
        leaf_initializer=keras.initializers.RandomNormal(seed=2),
    )
    gate.build((None, 6))
    return gate


def rows(count=50):
    return np.random.default_rng(0).normal(size=(count, 6)).astype("float32")


def all_leaves(gate, x):
    """The weights by the training path, which knows nothing of walking."""
    return value(gate(x, training=True))


SIZES = [128, 200] if BACKEND == "jax" else [128, 129, 200, 255, 256, 300]


@pytest.mark.parametrize("gamma", [1e-5, 0.01, 0.1, 10.0], ids="hard mostly partly soft".split())
@pytest.mark.parametrize("n", SIZES)
def test_weights_equal_those_of_all_leaves(n, gamma):
    gate = gate_of(n, gamma)
    x = rows()
    np.testing.assert_allclose(value(gate(x)), all_leaves(gate, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [16, 17, 31, 33, 64])
@pytest.mark.parametrize("k", [1, 3])
def test_a_walk_ends_at_the_leaf_with_all_the_probability(n, k):
    gate = gate_of(n, 1e-5, k)
    x = ops.convert_to_tensor(rows())
    weights, saturated = tree_walk.walk(gate, x, *tree_walk.walk_top(gate, x))
    assert value(saturated).mean() > 0.9
    expected = all_leaves(gate, x)
    np.testing.assert_allclose(
        value(weights)[value(saturated)], expected[value(saturated)], rtol=1e-5, atol=1e-6
    )


def test_rows_on_a_split_are_known():
    """One row of zeros lies on every split, where both ways have one half."""
    gate = gate_of(128, 1e-5)
    gate.split_bias.assign(np.zeros(gate.split_bias.shape))
    x = rows()
    x[7] = 0.0
    rows_of_x = ops.convert_to_tensor(x)
    _, saturated = tree_walk.walk(gate, rows_of_x, *tree_walk.walk_top(gate, rows_of_x))
    assert not value(saturated)[7]
    np.testing.assert_allclose(value(gate(x)), all_leaves(gate, x), rtol=1e-5, atol=1e-6)
    assert (value(gate(x))[7] > 0).sum() == 128


def test_positions_of_a_sequence():
    gate = gate_of(130, 1e-5)
    x = rows(12).reshape(3, 4, 6)
    np.testing.assert_allclose(
        value(gate(x)), all_leaves(gate, x.reshape(12, 6)).reshape(3, 4, 130), rtol=1e-5, atol=1e-6
    )


def test_an_empty_batch():
    assert tuple(gate_of(128, 1e-5)(np.zeros((0, 6), "float32")).shape) == (0, 128)


def test_in_a_compiled_model():
    gate = gate_of(128, 1e-5)
    inputs = keras.Input((6,))
    model = keras.Model(inputs, MixtureOfExperts(DenseExperts(128, 3), gate)(inputs))
    x = rows(13)
    together = model.predict(x, verbose=0)
    alone = np.concatenate([value(model(x[i : i + 1])) for i in range(13)])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="XLA by TensorFlow")
def test_under_xla():
    import tensorflow as tf

    gate = gate_of(128, 0.01)
    x = rows(20)
    found = tf.function(gate, jit_compile=True)(tf.constant(x))
    np.testing.assert_allclose(value(found), all_leaves(gate, x), rtol=1e-5, atol=1e-6)
