"""An expert is given only the rows that need it, in training and in prediction."""

import keras
import numpy as np
import pytest
from helpers import BACKEND, gradient, value, with_value
from keras import ops
from mixture.common import normal
from mixture.test_dispatch import GivenWeights

from comet_keras import DenseExperts, MixtureOfExperts

# In tensors of fixed size an expert is given a bounded number of places instead.
exact_sizes = pytest.mark.skipif(BACKEND == "jax", reason="JAX compiles for sizes fixed beforehand")


class Spy(keras.layers.Layer):
    """An expert that counts the rows it is given and the times it is run."""

    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = keras.layers.Dense(units)

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.rows = self.add_weight(name="rows", shape=(), dtype="int32", trainable=False, initializer="zeros")
        self.runs = self.add_weight(name="runs", shape=(), dtype="int32", trainable=False, initializer="zeros")
        self.built = True

    def call(self, inputs):
        self.rows.assign(self.rows + ops.shape(inputs)[0])
        self.runs.assign(self.runs + 1)
        return self.dense(inputs)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)


WEIGHTS = np.array(
    [
        [[0.5, 0.5, 0, 0], [1, 0, 0, 0]],
        [[1, 0, 0, 0], [1, 0, 0, 0]],
        [[0, 0.1, 0, 0.9], [0, 1, 0, 0]],
    ],
    "float32",
)  # rows, gates, experts: by any gate 2, 2, 0 and 1 rows


def spied(mode="sparse"):
    spies = [Spy() for _ in range(4)]
    gates = [GivenWeights(4, 2), GivenWeights(4, 2)]
    mixture = MixtureOfExperts(spies, gates, dispatch=mode)
    weights = [keras.Input((4,)), keras.Input((4,))]
    inputs = keras.Input((6,))
    return spies, keras.Model([inputs, weights], mixture(inputs, gate_inputs=weights))


@exact_sizes
def test_in_prediction_an_expert_runs_once_on_the_union_of_the_gates_rows():
    spies, model = spied()
    model.predict_on_batch([normal(3, 6), [WEIGHTS[:, 0], WEIGHTS[:, 1]]])
    # Keras keeps no state of a prediction on any backend but PyTorch and TensorFlow.
    assert [int(spy.rows.numpy()) for spy in spies] == [2, 2, 0, 1]
    assert [int(spy.runs.numpy()) for spy in spies] == [1, 1, 0, 1]


@exact_sizes
@pytest.mark.parametrize("jit_compile", [False, "auto"])
def test_in_training(jit_compile):
    spies, model = spied()
    model.compile("sgd", loss=["mse", "mse"], jit_compile=jit_compile)
    y = np.zeros((3, 3), "float32")
    data = [normal(3, 6), [WEIGHTS[:, 0], WEIGHTS[:, 1]]], [y, y]
    before = [value(spy.dense.kernel) for spy in spies]
    model.fit(*data, epochs=2, batch_size=3, verbose=0)
    assert [int(value(spy.rows)) for spy in spies] == [4, 4, 0, 2]
    moved = [bool((value(spy.dense.kernel) != b).any()) for spy, b in zip(spies, before)]
    assert moved == [True, True, False, True]


def test_in_tensors_of_fixed_size_the_places_are_bounded():
    """64 rows to 16 experts, one each: no more than twice the even share a listed expert."""
    if BACKEND != "jax":
        pytest.skip("sizes follow the data on this backend")
    spies = [Spy() for _ in range(16)]
    mixture = MixtureOfExperts(spies, GivenWeights(16, 1), dispatch="sparse")
    inputs, weights = keras.Input((6,)), keras.Input((16,))
    model = keras.Model([inputs, weights], mixture(inputs, gate_inputs=weights))
    model.compile("sgd", loss="mse")
    model.fit([normal(64, 6), np.tile(np.eye(16), (4, 1))], np.zeros((64, 3)), batch_size=64, verbose=0)
    assert [int(value(spy.rows)) for spy in spies] == [8] * 16


def test_experts_without_rows_get_exact_zero_gradients():
    for experts in (DenseExperts(4, 3), [keras.layers.Dense(3) for _ in range(4)]):
        mixture = MixtureOfExperts(experts, GivenWeights(4, 2), dispatch="sparse")
        x, weights = ops.convert_to_tensor(normal(3, 6)), ops.convert_to_tensor(WEIGHTS[:, 0])
        mixture(x, gate_inputs=weights)

        def loss():
            return ops.sum(mixture(x, gate_inputs=weights, training=True) ** 2)

        for weight in mixture.trainable_weights:
            found = gradient(with_value(weight, loss), value(weight), "float32")
            if isinstance(experts, list):
                index = [any(weight is w for w in e.trainable_weights) for e in experts].index(True)
                assert (np.abs(found).max() == 0) == (index == 2)
            else:
                used = np.abs(found).reshape(4, -1).max(axis=1) > 0
                assert used.tolist() == [True, True, False, True]


def test_an_expert_that_would_fail_on_no_rows_is_left_alone():
    """Rows that nobody routes to an expert do not reach its moving averages."""
    experts = [
        keras.Sequential([keras.layers.Dense(3), keras.layers.BatchNormalization()]) for _ in range(4)
    ]
    mixture = MixtureOfExperts(experts, GivenWeights(4, 2), dispatch="sparse")
    mixture(normal(3, 6), gate_inputs=WEIGHTS[:, 0], training=True)
    for expert in experts:
        for weight in expert.weights:
            assert np.isfinite(value(weight)).all()
    if BACKEND != "jax":  # there such experts are computed densely in training
        np.testing.assert_array_equal(value(experts[2].layers[-1].moving_mean), 0.0)
        assert (value(experts[0].layers[-1].moving_mean) != 0).any()
