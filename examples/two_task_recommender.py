"""A recommender for two tasks on your own arrays: will a user click, and how many stars follow?

    python examples/two_task_recommender.py [--epochs 8]

The data are made up: 400 users and 300 items with tastes in two dimensions. Stars are missing (NaN) where
there was no click, as in real logs; such a row counts for the clicks alone.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from comet_keras import HardenPermutation
from comet_keras.callbacks import TrainingLog
from comet_keras.datasets import Split, mask_missing_labels
from comet_keras.models import MultiTaskModel, evaluate_exactly
from comet_keras.reports import text_table

USERS, ITEMS = 400, 300
TASKS = {"click": "binary", "stars": "regression"}


def make_log(rows=60_000, seed=0):
    """Features and labels of `rows` impressions."""
    generator = np.random.default_rng(seed)
    users, items = generator.normal(size=(USERS, 2)), generator.normal(size=(ITEMS, 2))
    user, item = generator.integers(USERS, size=rows), generator.integers(ITEMS, size=rows)
    hour = generator.uniform(0, 24, size=rows)
    taste = (users[user] * items[item]).sum(axis=1) + np.cos(hour / 12 * np.pi)
    click = taste + generator.normal(size=rows) > 0.5
    stars = np.clip(np.round(3 + taste / 2 + generator.normal(scale=0.3, size=rows)), 1, 5)
    features = {"user": user, "item": item, "hour": hour}
    return features, {"click": click.astype("float32"), "stars": np.where(click, stars, np.nan)}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    features, labels = make_log()
    log = Split(features, *mask_missing_labels(labels))
    order = np.random.default_rng(1).permutation(len(log))
    train, validation, test = (log.take(part) for part in np.split(order, [50_000, 55_000]))

    model = MultiTaskModel(
        inputs={"user": ("ids", USERS), "item": ("ids", ITEMS), "hour": "numeric"},
        tasks=TASKS,
        gate="comet+",
        scale_by=train.features,
        task_weights={"click": 0.7, "stars": 0.3},
        learning_rate=2e-3,
    )
    model.fit(
        train.batches(256, shuffle=True, seed=0),
        validation_data=validation.batches(1000),
        epochs=arguments.epochs,
        callbacks=[HardenPermutation(epochs=2, verbose=0), TrainingLog(arguments.epochs)],
        shuffle=False,
        verbose=0,
    )
    result = evaluate_exactly(model, test, TASKS)["tasks"]
    rows = [["click auc", result["click"]["auc"]], ["stars mse", result["stars"]["mse"]]]
    print(text_table(rows, ["on the test rows", "value"], precision=3))
    return result


if __name__ == "__main__":
    main()
