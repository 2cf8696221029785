"""Steps are counted once each, whatever the data and however often a layer is called."""

import keras
import numpy as np
import pytest

from comet_keras import COMETGate, WeightedSum


def two_tower_model(gate):
    inputs = keras.Input((3,))
    experts = [keras.layers.Dense(2) for _ in range(4)]
    towers = [WeightedSum()([e(x) for e in experts], gate(x)) for x in (inputs, -inputs)]
    model = keras.Model(inputs, keras.layers.Dense(1)(towers[0] + towers[1]))
    model.compile("sgd", "mse")
    return model


def batches(count=4):
    for i in range(count):
        rng = np.random.default_rng(i)
        yield rng.normal(size=(8, 3)).astype("float32"), rng.normal(size=(8, 1)).astype("float32")


def test_a_gate_called_twice_in_a_step_counts_one():
    gate = COMETGate(4, entropy_weight=0.1)
    model = two_tower_model(gate)
    x, y = next(batches())
    model.fit(x, y, batch_size=2, epochs=3, verbose=0)
    assert int(gate.step.numpy()) == 12


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="feeds a tf.data generator")
def test_data_of_unknown_length_counts_its_batches_only():
    import tensorflow as tf

    specs = (tf.TensorSpec((8, 3)), tf.TensorSpec((8, 1)))
    data = tf.data.Dataset.from_generator(batches, output_signature=specs)
    gate = COMETGate(4, entropy_weight=0.1)
    two_tower_model(gate).fit(data, epochs=3, verbose=0)
    assert int(gate.step.numpy()) == 12
