"""Conditional computation: each expert on its own rows against every expert on every row.

    python benchmarks/dispatch.py [--rounds 30] [--parts shapes growth memory movielens]

One mixture of two-layer experts (in -> hidden -> in, relu), fixed weights, float32; prediction, and a
training step (forward and all gradients, no optimizer). `sparse` and `dense` are our layer; `Keras` is n
pairs of keras.layers.Dense, their stacked outputs and an einsum. Candidates take turns in one run; ratios
are medians of paired rounds. TensorFlow's oneDNN kernels are off by default on CPUs without AVX512-VNNI; run
with TF_ENABLE_ONEDNN_OPTS=1 to see what they change.
"""

import argparse
import multiprocessing
import re
import sys
import time
from pathlib import Path

import keras
import movielens_step
import numpy as np
import tensorflow as tf
from paired import paired_times, ratio

from comet_keras import DenseExperts, Gate, MixtureOfExperts
from comet_keras.reports import text_table

SHAPES = [  # experts, k, rows, in, hidden, load of one expert over the mean, required speed-ups
    (8, 1, 1024, 256, 512, 1, 4.5, 4),
    (16, 2, 1024, 256, 512, 1, 6, 6),
    (32, 2, 2048, 256, 512, 1, 12, 12),
    (64, 2, 2048, 128, 256, 1, 18, 25),
    (16, 2, 1024, 256, 512, 7, 5, 6),
    (16, 4, 256, 32, 64, 1, 0.95, 0.95),
]


HEADER = "experts, k, rows, in, hidden"


class GivenWeights(Gate):
    """A gate that returns its inputs."""

    def route(self, inputs, training=False):
        return {"weights": inputs}


def random_routing(experts, k, rows, skew, seed=0):
    """Weights `(rows, experts)` with k non-zeros a row, expert 0 with `skew` times the mean load."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((rows, experts), "float32")
    first = rng.random(rows) < min(1.0, skew * k / experts) if skew > 1 else np.zeros(rows, bool)
    for row, takes_first in enumerate(first):
        if takes_first:
            chosen = np.append(0, 1 + rng.choice(experts - 1, k - 1, replace=False))
        else:
            low = int(skew > 1)
            chosen = low + rng.choice(experts - low, k, replace=False)
        weights[row, chosen] = rng.dirichlet(np.ones(k))
    return weights


def mixture(mode, experts, k, width, hidden):
    layer = MixtureOfExperts(
        DenseExperts(experts, (hidden, width), activation="relu"),
        GivenWeights(experts, k),
        dispatch=mode,
    )
    layer.build((None, width), (None, experts))
    return layer, lambda x, w: layer(x, gate_inputs=w, training=True)


def keras_experts(_, experts, k, width, hidden):
    """The plain way: n separate experts, all computed."""
    layers = [
        keras.Sequential(
            [keras.layers.Dense(hidden, activation="relu"), keras.layers.Dense(width, activation="relu")]
        )
        for _ in range(experts)
    ]
    for layer in layers:
        layer.build((None, width))

    def call(x, w):
        return keras.ops.einsum("bn,bnd->bd", w, keras.ops.stack([e(x) for e in layers], axis=1))

    holder = keras.layers.Layer()
    holder.parts = layers
    return holder, call


def steps(make, mode, experts, k, width, hidden, data):
    """Functions that run one prediction and one training step, traced already."""
    layer, call = make(mode, experts, k, width, hidden)
    inputs, weights = (tf.constant(x) for x in data)

    @tf.function(autograph=False)
    def predict():
        return call(inputs, weights)

    @tf.function(autograph=False)
    def train():
        with tf.GradientTape() as tape:
            tape.watch([inputs, weights])
            loss = tf.reduce_mean(call(inputs, weights) ** 2)
        variables = [v.value for v in layer.trainable_variables]
        # Only made, not fetched: all gradients are outputs of the step.
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, [inputs, weights, *variables])]

    for function in (predict, train):
        for _ in range(2):
            function()
    return {"prediction": lambda: predict().numpy(), "training": lambda: train()[0].numpy()}


def compare(experts, k, rows, width, hidden, skew, rounds, candidates):
    weights = random_routing(experts, k, rows, skew)
    data = np.random.default_rng(1).normal(size=(rows, width)).astype("float32"), weights
    functions = {
        name: steps(make, mode, experts, k, width, hidden, data)
        for name, (make, mode) in candidates.items()
    }
    label = f"{experts} experts, k={k}, {rows} rows"
    return {
        part: paired_times({n: f[part] for n, f in functions.items()}, rounds, f"{label}, {part}")
        for part in ("prediction", "training")
    }


def shapes(rounds):
    candidates = {
        "auto": (mixture, "auto"),
        "dense": (mixture, "dense"),
        "Keras": (keras_experts, None),
    }
    rows = []
    for *shape, predicted, trained in SHAPES:
        times = compare(*shape, rounds, candidates)
        for part, required in (("prediction", predicted), ("training", trained)):
            rows.append(
                [
                    ", ".join(map(str, shape[:5])) + (f", {shape[5]}x" if shape[5] > 1 else ""),
                    part,
                    *(f"{1e3 * np.median(times[part][name]):.1f}" for name in candidates),
                    f"{1 / ratio(times[part], 'auto', 'dense'):.1f}x",
                    f"{1 / ratio(times[part], 'auto', 'Keras'):.1f}x",
                    f"{required}x",
                    f"{shape[0] / shape[1]:.0f}x",
                ]
            )
    headers = [HEADER, "step", "auto ms", "dense ms", "Keras ms"]
    print(text_table(rows, [*headers, "of dense", "of Keras", "asked", "limit n/k"]))


def growth(rounds):
    """k = 2, the rows fixed, ever more experts."""
    data = np.random.default_rng(1).normal(size=(2048, 128)).astype("float32")
    functions = {}
    for n in (8, 64, 512):
        weights = random_routing(n, 2, 2048, 1)
        functions[n] = steps(mixture, "auto", n, 2, 128, 256, (data, weights))
    rows = []
    for part in ("prediction", "training"):
        times = paired_times({n: f[part] for n, f in functions.items()}, rounds, f"growth, {part}")
        rows.append(
            [part, *(f"{1e3 * np.median(times[n]):.1f}" for n in functions)]
            + [f"{ratio(times, 64, 8):.2f}", f"{ratio(times, 512, 64):.2f}"]
        )
    print(text_table(rows, ["step", "8 ms", "64 ms", "512 ms", "64 / 8", "512 / 64"]))


def peak_memory(mode, experts, k, rows, width, hidden):
    """MiB that a training step adds to the peak of a process that has run the same on few rows."""

    def peak():
        # Of this process alone, where `getrusage` keeps the peak of the one that started it. Linux.
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024

    make = keras_experts if mode == "Keras" else mixture
    peaks = []
    for count in (64, rows):
        data = np.ones((count, width), "float32"), random_routing(experts, k, count, 1)
        steps(make, mode, experts, k, width, hidden, data)["training"]()
        peaks.append(peak())
    return peaks[1] - peaks[0]


def memory(rounds):
    """Peak of a training step with many rows, each measured in a process of its own."""
    rows = []
    for shape in ((16, 2, 8192, 256, 512), (64, 2, 8192, 128, 256)):
        found = []
        for mode in ("auto", "dense", "Keras"):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found.append(pool.apply(peak_memory, (mode, *shape)))
        rows.append([", ".join(map(str, shape)), *(f"{x:.0f}" for x in found), f"{found[0] / found[1]:.2f}"])
    print(text_table(rows, [HEADER, "auto MiB", "dense MiB", "Keras MiB", "auto / dense"]))


def movielens(rounds):
    """The paper's MovieLens model with two COMET gates whose trees are hard, and what is left without experts."""
    rng = np.random.default_rng(0)
    sizes = {"user": movielens_step.USERS, "movie": movielens_step.MOVIES}

    def batch(rows):
        features = {name: rng.integers(size, size=rows).astype("int32") for name, size in sizes.items()}
        targets = rng.integers(2, size=rows).astype("float32")
        return features, {"watch": targets, "rating": 1 + 4 * targets}

    def hard(dispatch):
        model = movielens_step.prepare("comet")
        mixture = model.get_layer("mixture")
        mixture.dispatch = dispatch
        for gate in mixture.gate_layers:
            gate.split_kernel.assign(np.random.default_rng(1).normal(size=gate.split_kernel.shape) * 100)
        return model

    models = {"dense": hard("dense"), "auto": hard("auto"), "no experts": movielens_step.without_experts()}
    one = batch(movielens_step.BATCH)
    functions = {name: movielens_step.steps(model, one)[0] for name, model in models.items()}
    many = batch(200_000)[0]

    def predictions(size):
        return {
            name: lambda model=model: model.predict(many, batch_size=size, verbose=0)
            for name, model in models.items()
        }

    parts = [(f"training step, batch {movielens_step.BATCH}", functions, rounds)]
    for size in (512, 2048):
        parts.append((f"200,000 predictions, batch {size}", predictions(size), max(3, rounds // 10)))
    rows = []
    for label, candidates, count in parts:
        times = paired_times(candidates, count, label)
        rows.append(
            [label, *(f"{1e3 * np.median(times[name]):.1f}" for name in models)]
            + [f"{ratio(times, name, 'dense'):.2f}" for name in ("auto", "no experts")]
        )
    headers = [f"{name} ms" for name in models]
    print(text_table(rows, ["MovieLens model", *headers, "auto / dense", "no experts / dense"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parts = {"shapes": shapes, "growth": growth, "memory": memory, "movielens": movielens}
    parser.add_argument("--parts", nargs="+", default=list(parts), choices=list(parts))
    arguments = parser.parse_args()
    print(f"TensorFlow {tf.__version__}, {time.strftime('%Y-%m-%d')}", file=sys.stderr)
    for part in arguments.parts:
        parts[part](arguments.rounds)


if __name__ == "__main__":
    main()
