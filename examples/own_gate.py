"""A router of one's own: a gate that compares directions, in a sparse mixture.

    python examples/own_gate.py [--epochs 15]

The gate scores an expert by the cosine between the input and a learned direction, keeps the two best experts
and lets their softmax weights sum to 1. Everything else (loss terms, masks, statistics, saving, and skipping
experts without rows) comes with the base class.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
from keras import ops

from comet_keras import DenseExperts, Gate, MixtureOfExperts
from comet_keras.callbacks import TrainingLog
from comet_keras.datasets import multi_digits
from comet_keras.metrics import routing_statistics
from comet_keras.models import compile_for, evaluate_exactly
from comet_keras.regularizers import Importance
from comet_keras.reports import text_table


@keras.saving.register_keras_serializable("my_package")
class CosineTop2Gate(Gate):
    """Weights `(batch, n)` from inputs `(batch, d)`: the two experts whose directions are nearest."""

    def build(self, input_shape):
        self.kernel = self.add_router_weight("kernel", (input_shape[-1], self.num_experts))
        super().build(input_shape)

    def route(self, inputs, training=False):
        directions = ops.normalize(self.kernel, axis=0)
        logits = 10 * ops.matmul(ops.normalize(inputs, axis=-1), directions)
        best, experts = ops.top_k(logits, 2)
        chosen = ops.one_hot(experts, self.num_experts, dtype=logits.dtype)  # (batch, 2, n)
        weights = ops.sum(ops.softmax(best)[..., None] * chosen, axis=-2)
        return {"logits": logits, "weights": weights}


def make_model(dataset):
    image = keras.Input(dataset.train.input_shapes["image"], name="image")
    pixels = keras.layers.Flatten()(image)
    towers = MixtureOfExperts(
        DenseExperts(8, (64, 32), activation="relu"),
        gates={task: CosineTop2Gate(8, k=2, regularizers=[Importance(0.01)]) for task in dataset.tasks},
    )(pixels)
    outputs = {task: keras.layers.Dense(10, activation="softmax", name=task)(towers[task]) for task in towers}
    return keras.Model({"image": image}, outputs)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    arguments = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    dataset = multi_digits()
    model = compile_for(make_model(dataset), dataset, learning_rate=2e-3)
    model.fit(
        dataset.train.batches(128, shuffle=True, seed=0),
        validation_data=dataset.validation.batches(1000),
        epochs=arguments.epochs,
        callbacks=[TrainingLog(arguments.epochs)],
        shuffle=False,
        verbose=0,
    )
    test = evaluate_exactly(model, dataset.test, dataset.tasks)
    routing = routing_statistics(model, dataset.test.batches(1000))
    rows = [[t, f["accuracy"], routing[t]["experts_per_sample"]] for t, f in test["tasks"].items()]
    print(text_table(rows, ["task", "test accuracy", "experts per sample"]))
    return test


if __name__ == "__main__":
    main()
