"""What the input pipeline adds to a training step.

    python benchmarks/input_pipeline.py [--tasks movielens multi_mnist] [--data-dir TASK=DIR ...]
                                        [--rounds 30] [--steps 10]

Steps of the paper's model fed by the data set's own shuffled batches, against the same steps on batches that lie
in memory as tensors, paired in one run. Without a folder the data are random, in the shapes and sizes of the
paper's. `comet_keras.datasets` gathers a batch at a time, and overlays and scales images per batch.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from paired import paired_times, ratio

from comet_keras import datasets
from comet_keras.reports import text_table
from comet_keras.train import TrainingConfig, build_model

GATES = {"movielens": "topk", "multi_mnist": "topk"}


def random_ids(rows=200_000):
    rng = np.random.default_rng(0)
    watched = rng.integers(2, size=rows).astype("float32")
    split = datasets.Split(
        {"user": rng.integers(6040, size=rows).astype("int32"), "movie": rng.integers(3952, size=rows).astype("int32")},
        {"watch": watched, "rating": watched * rng.integers(1, 6, size=rows).astype("float32")},
        {"rating": watched},
    )
    tasks = {"watch": "binary", "rating": "regression"}
    return datasets.Dataset(
        "movielens", split, split, split, tasks, vocabulary_sizes={"user": 6040, "movie": 3952}
    )


def random_images(folder):
    """MNIST's four files with random pixels, read like the real ones."""
    rng = np.random.default_rng(0)
    images = {"train": 60_000, "test": 10_000}
    np.savez(
        folder / "mnist.npz",
        **{f"x_{name}": rng.integers(256, size=(count, 28, 28), dtype="uint8") for name, count in images.items()},
        **{f"y_{name}": (np.arange(count) % 10).astype("uint8") for name, count in images.items()},
    )
    return datasets.multi_mnist(folder)


def load(task, data_dir):
    if data_dir is not None:
        return datasets.load(task, data_dir)
    if task == "movielens":
        return random_ids()
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        return random_images(Path(folder))


def functions(task, dataset, steps):
    """Functions that run `steps` training steps from the pipeline and from memory, traced already."""
    keras.utils.set_random_seed(0)
    config = TrainingConfig(task, gate=GATES[task], batch_size=512)
    model = build_model(config, dataset)
    model.make_train_function()
    # As `fit` reads it.
    pipeline = iter(dataset.train.endless_batches(config.batch_size, seed=0))
    full = [batch for batch, _ in zip(dataset.train.endless_batches(config.batch_size, seed=1), range(steps))]
    memory = iter(tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(lambda *x: tf.stack(x), *full)).repeat())

    def run(batches):
        for _ in range(steps):
            logs = model.train_function(batches)
        float(logs["loss"])

    for batches in (pipeline, memory):
        run(batches)
    return {"pipeline": lambda: run(pipeline), "memory": lambda: run(memory)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=list(GATES), choices=GATES)
    parser.add_argument("--data-dir", nargs="+", default=[], metavar="TASK=DIR")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    folders = dict(pair.split("=", 1) for pair in arguments.data_dir)
    rows = []
    for task in arguments.tasks:
        candidates = functions(task, load(task, folders.get(task)), arguments.steps)
        times = paired_times(candidates, arguments.rounds, task)
        step = 1e3 * np.median(times["memory"]) / arguments.steps
        ratios = times["pipeline"] / times["memory"]
        error = ratios.std(ddof=1) / np.sqrt(len(ratios))
        rows.append([task, f"{step:.1f}", f"{ratio(times, 'pipeline', 'memory'):.3f}", f"{error:.3f}"])
    print(text_table(rows, ["model", "step on memory, ms", "with pipeline / on memory", "standard error"]))


if __name__ == "__main__":
    main()
