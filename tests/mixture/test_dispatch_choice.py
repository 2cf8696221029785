"""`dispatch="auto"` chooses by the zeros of the present batch, in the graph that is already compiled."""

import keras
import numpy as np
import pytest
from helpers import BACKEND, value
from mixture.common import normal
from mixture.test_dispatch import GivenWeights
from mixture.test_skipped_work import Spy

from comet_keras import COMETGate, MixtureOfExperts, SoftmaxGate, TopKGate

ROWS, WIDTH, UNITS = 64, 64, 1024

OWNER = np.repeat([0, 1, 2, 3], [10, 15, 20, 19])
SPARSE = np.eye(4, dtype="float32")[OWNER]
DENSE = np.full((ROWS, 4), 0.25, "float32")

# Rows an expert is given when all run, and when each runs on its own.
ALL = [ROWS] * 4
OWN = np.bincount(OWNER).tolist() if BACKEND != "jax" else [32] * 4  # places: twice the even share


class TracedSpy(Spy):
    """Counts how often Python calls it, which a compiled step does not."""

    calls = 0

    def call(self, inputs):
        self.calls += 1
        return super().call(inputs)


class Watched:
    """A model of one mixture of spies, trained with a learning rate of 0."""

    def __init__(self, gate, units=UNITS, mode="auto"):
        self.spies = [TracedSpy(units) for _ in range(4)]
        self.mixture = MixtureOfExperts(self.spies, gate, dispatch=mode)
        self.has_weights = isinstance(gate, GivenWeights)
        x, weights = keras.Input((WIDTH,)), keras.Input((4,))
        if self.has_weights:
            self.model = keras.Model([x, weights], self.mixture(x, gate_inputs=weights))
        else:
            self.model = keras.Model(x, self.mixture(x))
        self.model.compile(keras.optimizers.SGD(0.0), "mse")
        self.labels = np.zeros((ROWS, units), "float32")

    def rows(self):
        return [int(value(spy.rows)) for spy in self.spies]

    def calls(self):
        return sum(spy.calls for spy in self.spies)

    def of_step(self, x, weights=None):
        """Rows that each expert is given in one training step."""
        before = self.rows()
        inputs = [x, weights] if self.has_weights else x
        self.model.fit(inputs, self.labels, batch_size=ROWS, shuffle=False, verbose=0)
        return np.subtract(self.rows(), before).tolist()

    def of_prediction(self, x, weights):
        before = self.rows()
        self.model.predict([x, weights], batch_size=ROWS, verbose=0)
        return np.subtract(self.rows(), before).tolist()


def test_one_training_function_serves_dense_and_sparse_weights():
    watched, x = Watched(GivenWeights(4, 1)), normal(ROWS, WIDTH)
    assert watched.of_step(x, DENSE) == ALL
    calls = watched.calls()
    assert watched.of_step(x, SPARSE) == OWN
    assert watched.of_step(x, DENSE) == ALL
    if BACKEND != "torch":  # which compiles nothing
        assert watched.calls() == calls


keeps_state = pytest.mark.skipif(
    BACKEND == "jax", reason="Keras keeps no state of a prediction on JAX"
)


@keeps_state
def test_one_prediction_function_likewise():
    watched, x = Watched(GivenWeights(4, 1)), normal(ROWS, WIDTH)
    assert watched.of_prediction(x, SPARSE) == OWN
    calls = watched.calls()
    assert watched.of_prediction(x, DENSE) == ALL
    assert watched.of_prediction(x, SPARSE) == OWN
    if BACKEND != "torch":
        assert watched.calls() == calls


@keeps_state
def test_frozen_experts_are_as_much_work():
    watched = Watched(GivenWeights(4, 1))
    watched.model.trainable = False
    assert watched.of_prediction(normal(ROWS, WIDTH), SPARSE) == OWN


def test_a_softmax_gate_is_dense_without_a_second_branch():
    """Also where some of its weights underflow to zero."""
    watched = Watched(SoftmaxGate(4))
    assert watched.of_step(1e4 * normal(ROWS, WIDTH)) == ALL
    always_dense = Watched(SoftmaxGate(4), mode="dense")
    always_dense.of_step(normal(ROWS, WIDTH))
    assert watched.calls() == always_dense.calls()


def test_little_work_is_done_densely():
    watched = Watched(GivenWeights(4, 1), units=3)
    assert watched.of_step(normal(ROWS, WIDTH), SPARSE) == ALL


def test_a_comet_gate_that_hardens_between_two_fits_switches_by_itself():
    """A tree of depth two that splits by the signs of the first two inputs, evenly."""
    gate = COMETGate(4, k=1, gamma=1.0)
    watched = Watched(gate)
    split = np.zeros((WIDTH, 1, 3), "float32")
    split[0, 0, 0] = split[1, 0, 1] = split[1, 0, 2] = 1
    split = split.reshape(gate.split_kernel.shape)
    x = normal(ROWS, WIDTH)
    x[:, :2] = np.tile([[0.1, 0.1], [0.1, -0.1], [-0.1, 0.1], [-0.1, -0.1]], (ROWS // 4, 1))
    gate.split_kernel.assign(split)
    assert watched.of_step(x) == ALL
    calls = watched.calls()
    gate.split_kernel.assign(100 * split)
    quarter = [ROWS // 4] * 4 if BACKEND != "jax" else OWN
    assert watched.of_step(x) == quarter
    if BACKEND == "tensorflow":  # JAX places the weights anew for each fit
        assert watched.calls() == calls


def test_dense_dispatch_may_be_set_before_the_first_step():
    watched, x = Watched(GivenWeights(4, 1)), normal(ROWS, WIDTH)
    watched.mixture.dispatch = "dense"
    assert watched.of_step(x, SPARSE) == ALL


@pytest.mark.parametrize("mode", ["auto", "dense", "sparse"])
def test_the_mode_is_saved_and_cloned(tmp_path, mode):
    inputs = keras.Input((6,))
    experts = [keras.layers.Dense(3) for _ in range(4)]
    mixture = MixtureOfExperts(experts, TopKGate(4), dispatch=mode, name="moe")
    model = keras.Model(inputs, mixture(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for other in (loaded, keras.models.clone_model(model)):
        assert other.get_layer("moe").dispatch == mode
    x = normal(5, 6)
    np.testing.assert_allclose(value(loaded(x)), value(model(x)), rtol=1e-6, atol=1e-6)


def test_auto_is_the_default():
    assert MixtureOfExperts([keras.layers.Dense(3)], SoftmaxGate(1)).dispatch == "auto"
