"""Losses against values worked out by hand or in numpy."""

import keras
import numpy as np
import pytest

from comet_keras.datasets import Dataset, Split
from comet_keras.models import compile_for, evaluate_exactly, evaluate_task

# Worked out in float64 from the definitions: binary cross-entropy over all rows, squared error over rated
# rows only (0 when there are none), weighted sum. The public code of COMET gives NaN for the second case.
CASES = [
    {
        "watched": [1, 0, 1, 0],
        "p_watch": [0.5, 0.5, 0.8, 0.2],
        "rating": [4, 0, 2, 0],
        "predicted": [3, 1, 2, 5],
        "weights": (0.1, 0.9),
        "bce": 0.4581453659370775,
        "mse": 0.5,
        "total": 0.4958145365937078,
    },
    {
        "watched": [0, 0],
        "p_watch": [0.25, 0.5],
        "rating": [0, 0],
        "predicted": [3, 4],
        "weights": (0.9, 0.1),
        "bce": 0.4904146265058631,
        "mse": 0.0,
        "total": 0.4413731638552768,
    },
]


class Fixed(keras.layers.Layer):
    """Returns the inputs as predictions, plus a trainable 0 to have a gradient."""

    def build(self, shape):
        self.shift = self.add_weight(shape=(), initializer="zeros")
        self.built = True

    def call(self, x):
        return x + self.shift


def fixed_model(names):
    inputs = {f"{name}_in": keras.Input((1,), name=f"{name}_in") for name in names}
    return keras.Model(inputs, {name: Fixed(name=name)(inputs[f"{name}_in"]) for name in names})


def watch_and_rating(watched, p_watch, rating, predicted):
    watched = np.array(watched, "float32")
    split = Split(
        {"watch_in": np.array(p_watch, "float32")[:, None], "rating_in": np.array(predicted, "float32")[:, None]},
        {"watch": watched, "rating": np.array(rating, "float32")},
        {"rating": watched.copy()},
    )
    return Dataset("case", split, split, split, {"watch": "binary", "rating": "regression"})


@pytest.mark.parametrize("case", CASES)
def test_watch_and_rating(case):
    data = watch_and_rating(*(case[name] for name in ("watched", "p_watch", "rating", "predicted")))
    task_weights = dict(zip(("watch", "rating"), case["weights"]))
    model = compile_for(fixed_model(data.tasks), data, 1e-3, task_weights)
    logs = model.evaluate(data.test.batches(len(data.test)), return_dict=True, verbose=0)
    assert logs["loss"] == pytest.approx(case["total"], abs=1e-6)
    assert logs["watch_loss"] == pytest.approx(case["bce"], abs=1e-6)
    assert logs["rating_loss"] == logs["rating_mse"] == pytest.approx(case["mse"], abs=1e-6)
    exact = evaluate_exactly(model, data.test, data.tasks, task_weights)
    assert exact["loss"] == pytest.approx(case["total"], abs=1e-6)
    assert exact["tasks"]["watch"]["loss"] == pytest.approx(case["bce"], abs=1e-6)
    assert exact["tasks"]["rating"]["rows"] == sum(case["watched"])


def test_a_batch_without_ratings_trains_on():
    data = watch_and_rating([0, 0], [0.25, 0.5], [0, 0], [3, 4])
    model = compile_for(fixed_model(data.tasks), data)
    logs = model.train_on_batch(
        data.train.features, data.train.targets, data.train.sample_weights, return_dict=True
    )
    assert logs["rating_loss"] == 0 and np.isfinite(logs["loss"])
    assert all(np.isfinite(np.asarray(weight)).all() for weight in model.get_weights())


def test_exact_loss_does_not_depend_on_batches():
    generator = np.random.default_rng(0)
    watched = generator.integers(2, size=103)
    data = watch_and_rating(watched, generator.random(103), 5 * generator.random(103), 5 * generator.random(103))
    model = compile_for(fixed_model(data.tasks), data)
    features, targets = data.test.features, data.test.targets
    p = features["watch_in"][:, 0].astype("float64")
    bce = -np.mean(np.where(watched == 1, np.log(p), np.log(1 - p)))
    errors = features["rating_in"][:, 0].astype("float64") - targets["rating"]
    mse = np.mean(errors[watched == 1] ** 2)
    for batch_size in (7, 103):
        exact = evaluate_exactly(model, data.test, data.tasks, {"watch": 0.9, "rating": 0.1}, batch_size)
        assert exact["loss"] == pytest.approx(0.9 * bce + 0.1 * mse, rel=1e-6)
    # AUC: the share of pairs of a watched and an unwatched row that are in the right order.
    pairs = p[watched == 1][:, None] > p[watched == 0]
    assert exact["tasks"]["watch"]["auc"] == pytest.approx(pairs.mean())


def test_multiclass_loss_and_accuracy():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.5, 0.3]])
    figures = evaluate_task("multiclass", np.array([0, 1, 1]), probabilities, np.array([1.0, 2.0, 0.0]))
    assert figures["loss"] == pytest.approx(-(np.log(0.7) + 2 * np.log(0.3)) / 3)
    assert figures["accuracy"] == pytest.approx(1 / 3)
    assert figures["rows"] == 2


def test_figures_that_do_not_exist_are_nan():
    assert np.isnan(evaluate_task("regression", np.zeros(3), np.ones(3), np.zeros(3))["mse"])
    assert np.isnan(evaluate_task("binary", np.ones(3), np.full(3, 0.5), np.ones(3))["auc"])


@pytest.mark.parametrize("weights", [{"watch": 1.0}, {"watch": 1, "rating": -1}, {"watch": 0, "rating": 0}, [1, 2]])
def test_wrong_task_weights(weights):
    data = watch_and_rating([1, 0], [0.5, 0.5], [1, 0], [1, 1])
    with pytest.raises(ValueError, match="task_weights"):
        compile_for(fixed_model(data.tasks), data, task_weights=weights)


def test_outputs_that_are_not_the_tasks():
    data = watch_and_rating([1, 0], [0.5, 0.5], [1, 0], [1, 1])
    with pytest.raises(ValueError, match="outputs"):
        compile_for(fixed_model(["watch", "stars"]), data)


@pytest.mark.parametrize("kind", ["binary", "regression", "multiclass"])
def test_predictions_of_a_diverged_model_have_nan_figures(kind):
    predictions = np.full((4, 2 if kind == "multiclass" else 1), np.nan)
    figures = evaluate_task(kind, np.array([0, 1, 0, 1]), predictions, np.ones(4))
    assert np.isnan(figures["loss"]) and figures["rows"] == 4


def test_accuracy_of_a_binary_task():
    figures = evaluate_task("binary", np.array([0, 1, 0, 1]), np.array([0.2, 0.9, 0.7, 0.4]), np.array([1, 1, 1, 2]))
    assert figures["accuracy"] == pytest.approx(2 / 5)
