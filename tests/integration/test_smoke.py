"""The shortest way through everything: what a backend has to do at all."""

import keras
import numpy as np
import pytest
from helpers import value
from integration.common import GATES, data, fitted, flat, model_of

from comet_keras import HardenPermutation, HashGate, Permutation, RoutingMonitor


def test_two_tasks_train_in_two_stages_and_come_back_from_disk(tmp_path):
    gates = {"a": GATES["comet"](), "b": GATES["topk"]()}
    model = model_of(gates, permutation=Permutation(4))
    model.compile("adam", {"a": "mse", "b": "mse"})
    x, y = data()
    history = model.fit(
        x,
        {"a": y, "b": y},
        batch_size=8,
        epochs=3,
        verbose=0,
        validation_data=(x, {"a": y, "b": y}),
        callbacks=[HardenPermutation(epochs=1, verbose=0), RoutingMonitor(warn=False)],
    ).history
    assert np.isfinite(history["loss"]).all() and history["loss"][-1] < history["loss"][0]
    assert history["permutation_distance"][-1] == 0
    assert history["b_experts_per_sample"][-1] == pytest.approx(2)
    assert history["val_b_experts_per_sample"] == pytest.approx([2, 2, 2])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for found, expected in zip(flat(loaded(x)), flat(model(x))):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("gate", GATES)
def test_every_gate_trains_a_step(gate):
    model = model_of(GATES[gate]())
    history = fitted(model)
    assert np.isfinite(history["loss"]).all()
    layer = model.get_layer("moe").gates
    assert int(value(layer.step)) == 4
    if not isinstance(layer, HashGate):
        assert layer.trainable_weights
