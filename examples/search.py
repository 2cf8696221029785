"""A hyperparameter search for a model of your own: units, gate width and entropy of a COMET mixture.

    python examples/search.py [--trials 8] [--epochs 6] [--rows 2000] [--workers 1]

Run it again to continue a search that was stopped, or to add trials. For the paper's own models and spaces
no code is needed: `comet-keras search --task movielens --gate comet+ --data-dir DIR`.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras

from comet_keras import COMETGate, DenseExperts, MixtureOfExperts, Permutation
from comet_keras.callbacks import HardenPermutation
from comet_keras.datasets import multi_digits
from comet_keras.reports import text_table
from comet_keras.tuning import search_model

FOLDER = "runs/example-search"
TASKS = ("top_left", "bottom_right")


def build(hp):
    """The compiled model of a trial, from KerasTuner's hyperparameters."""
    gamma = hp.Choice("gamma", [0.01, 0.1, 1.0, 5.0])
    entropy_weight = hp.Choice("entropy_weight", [0.001, 0.01, 0.1])
    image = keras.Input((12, 12, 1), name="image")
    towers = MixtureOfExperts(
        DenseExperts(8, hp.Int("units", 16, 64, step=16), activation="relu"),
        {task: COMETGate(8, k=2, gamma=gamma, entropy_weight=entropy_weight) for task in TASKS},
        Permutation(8),
    )(keras.layers.Flatten()(image))
    outputs = {task: keras.layers.Dense(10, activation="softmax", name=task)(towers[task]) for task in TASKS}
    model = keras.Model({"image": image}, outputs)
    model.compile(
        keras.optimizers.Adam(hp.Float("learning_rate", 1e-4, 1e-2, sampling="log")),
        loss={task: "sparse_categorical_crossentropy" for task in TASKS},
        loss_weights={task: 0.5 for task in TASKS},
        weighted_metrics={task: ["accuracy"] for task in TASKS},
    )
    return model


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args(argv)
    data = multi_digits(arguments.rows, arguments.rows // 2, arguments.rows // 2)
    results = search_model(
        build,
        data,
        objective="val_loss",
        trials=arguments.trials,
        epochs=arguments.epochs,
        batch_size=128,
        callbacks=[HardenPermutation(epochs=max(1, arguments.epochs // 3), verbose=0)],
        folder=FOLDER,
        workers=arguments.workers,
    )
    names = ("learning_rate", "units", "gamma", "entropy_weight")
    rows = [
        [t.trial_id, t.validation_loss, t.test_loss, *(f"{t.hyperparameters[n]:.3g}" for n in names)]
        for t in results.best_trials(5)
    ]
    print(text_table(rows, ["trial", "validation loss", "test loss", *names]))
    return results


if __name__ == "__main__":
    main()
