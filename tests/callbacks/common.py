"""What the callback tests share: one small model, its data, and its parts in numpy."""

import keras
import numpy as np
from helpers import value
from scipy.optimize import linear_sum_assignment

from comet_keras import DenseExperts, MixtureOfExperts, Permutation, TopKGate

ROWS, WIDTH, UNITS = 32, 6, 3
BATCH = 8
STEPS = ROWS // BATCH


def data(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, WIDTH)).astype("float32")
    return x, (2 * x[:, :UNITS] + rng.normal(size=(rows, UNITS))).astype("float32")


def compiled_model(gate=None, permutation=True, optimizer="adam", seed=0, **options):
    """Input, one mixture of 4 experts named `moe`, compiled with the squared error."""
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((WIDTH,))
    gate = gate or TopKGate(4, k=2, name="router")
    if permutation is True:
        permutation = Permutation(gate.num_experts, name="search")
    experts = DenseExperts(gate.num_experts, UNITS, name="experts")
    outputs = MixtureOfExperts(experts, gate, permutation, name="moe")(inputs)
    model = keras.Model(inputs, outputs)
    model.compile(optimizer, "mse", **options)
    return model


def permutation_of(model):
    return model.get_layer("moe").permutation_layers[0]


def fit(model, epochs=1, callbacks=(), **options):
    x, y = data()
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0, **options}
    return model.fit(x, y, epochs=epochs, callbacks=list(callbacks), **options)


def best_assignment(logits):
    return linear_sum_assignment(np.asarray(logits, "float64"), maximize=True)[1]


def all_values(model):
    """Copies of all weights, the optimizer's too."""
    variables = list(model.variables) + list(model.optimizer.variables)
    return [np.array(value(variable)) for variable in variables]


def assert_same_weights(first, second, **tolerance):
    assert len(first.weights) == len(second.weights)
    for a, b in zip(first.weights, second.weights):
        found, expected = value(a), value(b)
        if tolerance and found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, err_msg=a.path, **tolerance)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=a.path)
