"""A training step and a prediction step of the paper's MovieLens model, gate by gate.

    python benchmarks/movielens_step.py [--rounds 60] [--gates comet topk]

The baseline is the plain Keras way: 16 Dense layers, their stacked outputs, softmax gates and einsum. All
models take turns in one run; ratios are medians of paired rounds. `+` is the first stage of local search,
in the middle of its schedule; `+ hardened` the second.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf
from paired import paired_times, ratio

from comet_keras import models
from comet_keras.reports import text_table

BATCH, USERS, MOVIES, EXPERTS = 512, 6040, 3952, 16
GATES = ("softmax", "hash", "topk", "dselect_k", "comet")


def plain_keras():
    """The model without this package."""
    layers, ops = keras.layers, keras.ops
    user, movie = (keras.Input((), dtype="int32", name=name) for name in ("user", "movie"))
    x = layers.Concatenate()(
        [layers.Embedding(USERS, 128)(user), layers.Embedding(MOVIES, 128)(movie)]
    )
    experts = [
        layers.Dropout(0.5)(layers.Dense(256, activation="relu")(x)) for _ in range(EXPERTS)
    ]
    stacked = ops.stack(experts, axis=1)
    outputs = {}
    for task, activation in (("watch", "sigmoid"), ("rating", None)):
        weights = layers.Dense(EXPERTS, activation="softmax")(x)
        tower = ops.einsum("bn,bnd->bd", weights, stacked)
        hidden = layers.Dense(256, activation="relu")(tower)
        outputs[task] = layers.Dense(1, activation=activation, name=task)(hidden)
    return keras.Model({"user": user, "movie": movie}, outputs)


def without_experts():
    """What is left of the model without mixture: embeddings and heads, compiled."""
    layers = keras.layers
    user, movie = (keras.Input((), dtype="int32", name=name) for name in ("user", "movie"))
    x = layers.Concatenate()(
        [layers.Embedding(USERS, 128)(user), layers.Embedding(MOVIES, 128)(movie)]
    )
    outputs = {}
    for task, activation in (("watch", "sigmoid"), ("rating", None)):
        hidden = layers.Dense(256, activation="relu")(x)
        outputs[task] = layers.Dense(1, activation=activation, name=task)(hidden)
    model = keras.Model({"user": user, "movie": movie}, outputs)
    _compile(model)
    return model


def prepare(name):
    """Compiled model of a candidate; the same initial weights with and without local search."""
    keras.utils.set_random_seed(0)
    if name == "plain Keras":
        model = plain_keras()
    else:
        gate = name.split()[0]
        model = models.movielens(gate=gate, k=2, gamma=0.01, entropy_weight=1.0)
    for layer in model._flatten_layers():
        if hasattr(layer, "harden"):
            layer.begin(2000)
            layer.step.assign(1000)
            if name.endswith("hardened"):
                layer.harden()
                layer.step.assign(2000)
    _compile(model)
    return model


def _compile(model):
    model.compile(
        keras.optimizers.Adam(2.5e-5),
        loss={"watch": "binary_crossentropy", "rating": "mse"},
        loss_weights={"watch": 0.9, "rating": 0.1},
    )


def steps(model, batch):
    """Functions that run one training step and one prediction step, traced already."""
    model.make_train_function()
    model.make_predict_function()
    data = iter(tf.data.Dataset.from_tensors(batch).repeat())
    inputs = [({name: tf.constant(x) for name, x in batch[0].items()},)]

    def train():
        float(model.train_function(data)["loss"])

    def predict():
        model.predict_function(inputs)["watch"].numpy()

    for _ in range(3):
        train()
        predict()
    return train, predict


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--gates", nargs="+", default=GATES, choices=GATES)
    arguments = parser.parse_args()
    rounds, gates = arguments.rounds, [gate for gate in GATES if gate in {"softmax", *arguments.gates}]
    rng = np.random.default_rng(0)
    features = {
        "user": rng.integers(USERS, size=BATCH).astype("int32"),
        "movie": rng.integers(MOVIES, size=BATCH).astype("int32"),
    }
    targets = {
        "watch": rng.integers(2, size=BATCH).astype("float32"),
        "rating": rng.integers(1, 6, size=BATCH).astype("float32"),
    }
    local = [f"{gate}+{stage}" for gate in gates for stage in ("", " hardened")]
    names = ["plain Keras", *gates, *local]
    functions = {name: steps(prepare(name), (features, targets)) for name in names}
    times = [
        paired_times({n: f[i] for n, f in functions.items()}, rounds, label)
        for i, label in enumerate(("training", "prediction"))
    ]
    print(f"MovieLens model, batch {BATCH}, {EXPERTS} experts, TensorFlow {tf.__version__}")
    rows = []
    for name in names:
        without = name.split("+")[0]
        rows.append(
            {
                "model": name,
                "train ms": f"{1e3 * np.median(times[0][name]):.1f}",
                "/ plain": f"{ratio(times[0], name, 'plain Keras'):.2f}",
                "/ softmax": f"{ratio(times[0], name, 'softmax'):.2f}",
                "/ without +": f"{ratio(times[0], name, without):.3f}" if "+" in name else "",
                "predict ms": f"{1e3 * np.median(times[1][name]):.1f}",
                "/ plain ": f"{ratio(times[1], name, 'plain Keras'):.2f}",
            }
        )
    print(text_table([list(row.values()) for row in rows], list(rows[0])))


if __name__ == "__main__":
    main()
