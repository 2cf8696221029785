"""What the integration tests share: models of every kind, and fresh processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
from helpers import BACKEND, value

from comet_keras import (
    COMETGate,
    DenseExperts,
    DSelectKGate,
    HashGate,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
    regularizers,
)

TESTS = Path(__file__).parents[1]
WIDTH, UNITS, IDS = 6, 3, 20

GATES = {
    "softmax": lambda: SoftmaxGate(4, regularizers=[regularizers.Importance(0.1)]),
    "topk": lambda: TopKGate(4, k=2, regularizers=[regularizers.LoadBalance(0.1, k=2)]),
    "noisy_topk": lambda: TopKGate(
        4, k=2, noisy=True, seed=3, regularizers=[regularizers.Load(0.1)]
    ),
    "dselect_k": lambda: DSelectKGate(4, k=2, entropy_weight=0.1),
    "static_dselect_k": lambda: DSelectKGate(4, k=2, per_sample=False),
    "comet": lambda: COMETGate(4, k=2, gamma=10.0, entropy_weight=0.1),
    "hash": lambda: HashGate(4, num_ids=IDS),
}


def mlp():
    return keras.Sequential([keras.layers.Dense(5, activation="relu"), keras.layers.Dense(UNITS)])


def functional():
    inputs = keras.Input((WIDTH,))
    hidden = keras.layers.Dense(WIDTH, activation="relu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(UNITS)(keras.layers.Add()([inputs, hidden])))


EXPERTS = {
    "stacked": lambda: DenseExperts(4, (5, UNITS), activation="relu", dropout=0.2, seed=1),
    "dense": lambda: [keras.layers.Dense(UNITS) for _ in range(4)],
    "MLP": lambda: [mlp() for _ in range(4)],
    "functional": lambda: [functional() for _ in range(4)],
    "mixed": lambda: [keras.layers.Dense(UNITS), mlp(), functional(), mlp()],
}


def data(rows=32, seed=0):
    """Inputs `{"x", "id"}` and labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, WIDTH)).astype("float32")
    ids = rng.integers(IDS, size=(rows, 1)).astype("int32")
    return {"x": x, "id": ids}, (x[:, :UNITS] + 1).astype("float32")


def model_of(gates, experts=None, permutation=None, name="moe", dtype=None):
    """A functional model of one mixture; a hash gate reads the ids."""
    inputs = {"x": keras.Input((WIDTH,), name="x"), "id": keras.Input((1,), dtype="int32", name="id")}
    experts = experts or DenseExperts(4, UNITS)
    mixture = MixtureOfExperts(experts, gates, permutation, name=name)
    # Adds nothing: older releases of Keras want every input connected.
    features = inputs["x"] + 0.0 * keras.ops.cast(inputs["id"], inputs["x"].dtype)
    if any(isinstance(gate, HashGate) for gate in mixture.gate_layers):
        outputs = mixture(features, gate_inputs=inputs["id"])
    else:
        outputs = mixture(features)
    return keras.Model(inputs, outputs)


def fitted(model, epochs=1, callbacks=(), optimizer="adam", **options):
    """Compiles with the squared error on every output, and fits; the history."""
    model.compile(optimizer, "mse", **options)
    x, y = data()
    return model.fit(
        x, y, batch_size=8, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks)
    ).history


def shaken(model, seed=0):
    """Gives every trainable weight a random value and every permutation a hard one."""
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    for layer in model._flatten_layers():
        if isinstance(layer, Permutation):
            layer.assignment.assign(rng.permutation(layer.num_experts).astype("int32"))
            layer.hardened.assign(True)
    return model


def flat(outputs):
    return [value(leaf) for leaf in keras.tree.flatten(outputs)]


def python(script, *arguments, **environment):
    """Runs a script in a fresh process with this backend; what it prints last, from JSON."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
        "KERAS_BACKEND": BACKEND,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else None
