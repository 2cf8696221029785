"""A router of one's own in a few lines: it trains in a mixture, and is saved and loaded."""

import keras
import numpy as np
import pytest
from helpers import value
from keras import ops

from comet_keras import DenseExperts, Gate, MixtureOfExperts, Permutation
from comet_keras.regularizers import Importance, RouterZ


@keras.saving.register_keras_serializable("my_package")
class CosineGate(Gate):
    def build(self, input_shape):
        self.kernel = self.add_router_weight("kernel", (input_shape[-1], self.num_experts))
        super().build(input_shape)

    def route(self, inputs, training=False):
        directions = ops.normalize(self.kernel, axis=0)
        logits = ops.matmul(ops.normalize(inputs, axis=-1), directions)
        return {"logits": logits, "weights": ops.softmax(10 * logits)}


def make_model():
    inputs = keras.Input((3,))
    layer = MixtureOfExperts(
        DenseExperts(4, 1),
        CosineGate(4, regularizers=[Importance(0.01), RouterZ(0.01)]),
        Permutation(4),
        name="mixture",
    )
    model = keras.Model(inputs, layer(inputs))
    model.compile(keras.optimizers.Adam(0.05), "mse")
    return model


@pytest.mark.filterwarnings("ignore:Permutation .* is trained without a first stage")
def test_trains_and_keeps_statistics_and_terms(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3))
    y = np.abs(x[:, :1])
    model = make_model()
    gate = model.get_layer("mixture").gates
    before = value(gate.kernel)
    losses = model.fit(x, y, epochs=15, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert np.abs(value(gate.kernel) - before).max() > 0.01
    figures = gate.statistics.read()
    assert figures["importance_loss"] >= 0 and figures["router_z_loss"] > 0
    assert 1 <= figures["experts_per_sample"] <= 4
    path = tmp_path / "model.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    np.testing.assert_allclose(
        loaded.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-5, atol=1e-6
    )
    copy = loaded.get_layer("mixture").gates
    assert [term.get_config() for term in copy.regularizers] == [{"weight": 0.01}] * 2
    assert int(value(copy.step)) == 30
