"""A balancing term keeps a gate that starts skewed from staying collapsed."""

import keras
import numpy as np
import pytest

from comet_keras import DenseExperts, MixtureOfExperts, RoutingMonitor, TopKGate
from comet_keras.regularizers import Importance


def train(terms):
    """200 steps on clustered data with a bias that favours expert 0; the last epoch's logs."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    cluster = rng.integers(8, size=320)
    x = (3 * np.eye(8)[cluster] + 0.1 * rng.normal(size=(320, 8))).astype("float32")
    y = rng.normal(size=8)[cluster].astype("float32")
    gate = TopKGate(8, k=2, regularizers=terms)
    inputs = keras.Input((8,))
    outputs = MixtureOfExperts(DenseExperts(8, 4, activation="relu"), gate)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(outputs))
    gate.bias.assign(np.array([8] + [0] * 7, "float32"))
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    monitor = RoutingMonitor(warn=not terms)
    history = model.fit(x, y, batch_size=32, epochs=20, verbose=0, callbacks=[monitor]).history
    assert np.isfinite(history["loss"]).all()
    return {name: values[-1] for name, values in history.items()}


def test_importance_bounds_the_largest_share():
    with pytest.warns(UserWarning, match="collapsed onto few experts"):
        skewed = train([])
    balanced = train([Importance(1.0)])
    assert skewed["largest_expert_share"] > 0.5
    assert balanced["largest_expert_share"] < 0.3
    assert balanced["importance_loss"] < 1.0
