"""Training with dense and with conditional dispatch gives the same losses, however Keras runs the steps."""

import functools

import keras
import numpy as np
import pytest
from helpers import BACKEND
from integration.common import python

from comet_keras import COMETGate, DenseExperts, HashGate, MixtureOfExperts, Permutation, TopKGate

ROWS, WIDTH, BATCH = 72, 64, 32  # two batches and a rest of 8 rows
N = 8

on_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="a TensorFlow feature")


def hard_comet():
    return COMETGate(N, k=2, gamma=1e-3, split_initializer=keras.initializers.RandomNormal(seed=3))


GATES = {
    "topk": lambda: TopKGate(N, k=2),
    "hash": lambda: HashGate(N, num_ids=50),
    "comet": hard_comet,
}


def data(rows=ROWS):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, WIDTH)).astype("float32")
    ids = rng.integers(50, size=(rows, 1)).astype("int32")
    return {"x": x, "id": ids}, x[:, :2] + 1


def hardened_permutation():
    permutation = Permutation(N)
    permutation.begin(1)
    permutation.build((None, N))
    permutation.assignment.assign([3, 1, 5, 0, 7, 2, 4, 6])
    permutation.hardened.assign(True)
    return permutation


def make(gate, mode, permuted=False, units=512):
    """A model with work enough in full batches that `auto` is sparse there, and dense in the rest."""
    keras.utils.set_random_seed(0)
    inputs = {"x": keras.Input((WIDTH,), name="x"), "id": keras.Input((1,), dtype="int32", name="id")}
    mixture = MixtureOfExperts(
        DenseExperts(N, units, activation="relu"),
        GATES[gate](),
        hardened_permutation() if permuted else None,
        dispatch=mode,
        name="moe",
    )
    # Adds nothing: older releases of Keras want every input connected.
    features = inputs["x"] + 0.0 * keras.ops.cast(inputs["id"], "float32")
    gate_inputs = inputs["id"] if gate == "hash" else features
    return keras.Model(inputs, keras.layers.Dense(2)(mixture(features, gate_inputs=gate_inputs)))


def losses(model, epochs=2, rows=ROWS, batch=BATCH, rate=0.002, **options):
    # Not SGD, whose steps are right even where a gradient comes in pieces.
    model.compile(keras.optimizers.Adam(rate, epsilon=1e-4), "mse", **options)
    x, y = data(rows)
    history = model.fit(x, y, batch_size=batch, epochs=epochs, shuffle=False, verbose=0).history
    return history["loss"]


@functools.cache
def dense_losses(gate, permuted=False, **options):
    """Once for each gate; falling, so that there is something to agree on."""
    found = losses(make(gate, "dense", permuted), **options)
    assert found[-1] < found[0]
    return found


CASES = [("topk", False), ("hash", False), ("comet", False), ("comet", True)]


@pytest.mark.parametrize("mode", ["auto", "sparse"])
@pytest.mark.parametrize(("gate", "permuted"), CASES)
def test_losses_are_those_of_dense_dispatch(gate, permuted, mode):
    found = losses(make(gate, mode, permuted))
    np.testing.assert_allclose(found, dense_losses(gate, permuted), rtol=1e-4)


@pytest.mark.parametrize("listed", [False, True], ids=["stacked", "listed"])
@pytest.mark.parametrize("optimizer", [keras.optimizers.Adam, keras.optimizers.RMSprop, keras.optimizers.Adagrad])
def test_weights_are_those_of_dense_dispatch(optimizer, listed):
    """Every expert's kernels and biases, and the gate's, after steps that are not linear in the gradient."""

    def trained(mode):
        keras.utils.set_random_seed(0)
        experts = [keras.layers.Dense(4) for _ in range(N)] if listed else DenseExperts(N, (6, 4), "relu")
        inputs = keras.Input((WIDTH,))
        outputs = MixtureOfExperts(experts, TopKGate(N, k=2), dispatch=mode)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(2)(outputs))
        model.compile(optimizer(0.01, epsilon=1e-4), "mse")
        x, y = data()
        model.fit(x["x"], y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
        return model.get_weights()

    for found, expected in zip(trained("sparse"), trained("dense"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@on_tensorflow
@pytest.mark.slow
def test_also_under_xla():
    found = losses(make("comet", "auto"), jit_compile=True)
    np.testing.assert_allclose(found, dense_losses("comet"), rtol=1e-4)


@pytest.mark.skipif(BACKEND == "torch", reason="Keras has it on TensorFlow and JAX")
def test_with_several_steps_in_one_execution():
    found = losses(make("topk", "sparse"), steps_per_execution=2)
    np.testing.assert_allclose(found, dense_losses("topk"), rtol=1e-4)


def test_run_eagerly():
    if BACKEND == "jax":
        pytest.skip("JAX compiles every operation of its own: minutes")
    found = losses(make("topk", "sparse"), run_eagerly=True)
    np.testing.assert_allclose(found, dense_losses("topk"), rtol=1e-4)


@pytest.mark.parametrize("mode", ["auto", "sparse"])
def test_batches_of_a_single_row(mode):
    options = dict(rows=5, batch=1, rate=1e-5)
    found = losses(make("topk", mode), **options)
    np.testing.assert_allclose(found, dense_losses("topk", **options), rtol=1e-4)


def test_evaluation_and_prediction_take_other_batch_sizes():
    model, (x, y) = make("comet", "sparse", True), data()
    losses(model, epochs=1)
    expected = model.predict(x, batch_size=ROWS, verbose=0)
    found = model.predict(x, batch_size=50, verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    loss = model.evaluate(x, y, batch_size=40, verbose=0)
    assert loss == pytest.approx(np.mean((expected - y) ** 2), rel=1e-5)


MIRRORED = """
import json, sys
import tensorflow as tf
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from integration.test_dispatch_training import losses, make

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = make("topk", "sparse")
    found = losses(model, rows=64)
expected = losses(make("topk", "dense"), rows=64)
print(json.dumps([found, expected, int(model.get_layer("moe").gates.step.numpy())]))
"""


@on_tensorflow
@pytest.mark.slow
def test_on_mirrored_replicas():
    """Half of each batch each: in all as dense dispatch on one."""
    found, expected, steps = python(MIRRORED)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert steps == 4
