import inspect

import numpy as np
import pytest

from comet_keras import models
from comet_keras.datasets import Dataset, Split
from comet_keras.models.settings import SETTINGS, TASKS


def pairs_of_ids(item, task):
    split = Split({"user": np.arange(6), item: np.arange(6) % 4}, {task: np.ones(6), "rating": np.ones(6)})
    tasks = {task: "binary", "rating": "regression"}
    return Dataset("ids", split, split, split, tasks, vocabulary_sizes={"user": 6, item: 4})


class Enlarge:
    """A transform, so that inputs and features differ in shape."""

    def __call__(self, features):
        import tensorflow as tf

        return {"image": tf.repeat(tf.repeat(tf.cast(features["image"], tf.float32), 2, axis=1), 2, axis=2)}


def images(tasks, kind="multiclass", side=8, channels=1):
    split = Split(
        {"image": np.zeros((2, side, side, channels), "uint8")}, {task: np.ones(2, int) for task in tasks}, {}, Enlarge()
    )
    classes = dict.fromkeys(tasks, 7) if kind == "multiclass" else {}
    return Dataset("images", split, split, split, dict.fromkeys(tasks, kind), classes)


PAIR = ("top_left", "bottom_right")
DATA = {
    "movielens": lambda: pairs_of_ids("movie", "watch"),
    "jester": lambda: pairs_of_ids("joke", "rate"),
    "books": lambda: pairs_of_ids("book", "read"),
    "digits": lambda: images(["digit"], channels=3),
    "multi_mnist": lambda: images(PAIR),
    "multi_fashion_mnist": lambda: images(PAIR),
    "multi_digits": lambda: images(PAIR),
    "celeb_a": lambda: images(["Bald", "Young"], "binary", side=24, channels=3),
}


@pytest.mark.parametrize("task", TASKS)
def test_the_model_fits_the_data(task):
    data = DATA[task]()
    model = models.build(task, data, gate="topk", num_experts=3, k=2, gamma=1.0, entropy_weight=0.1, seed=1)
    assert model.name == task
    assert {name: tuple(x.shape[1:]) for name, x in model.input.items()} == data.train.input_shapes
    widths = {name: data.num_classes.get(name, 1) for name in data.tasks}
    assert {name: x.shape[1] for name, x in model.output.items()} == widths
    mixture = model.get_layer("mixture")
    assert mixture.num_experts == 3
    for feature, size in data.vocabulary_sizes.items():
        assert model.get_layer(f"{feature}_embedding").input_dim == size
    models.compile_for(model, data)


def test_the_seed_decides_the_hash_table():
    tables = [
        np.asarray(models.build("books", pairs_of_ids("book", "read"), gate="hash", seed=s).get_layer("mixture")
                   .gate_layers[0].table)
        for s in (0, 0, 1)
    ]  # fmt: skip
    np.testing.assert_array_equal(tables[0], tables[1])
    assert (tables[0] != tables[2]).any()


def test_wrong_task():
    with pytest.raises(ValueError, match="`task` must be one of 'movielens'.*'mnist'"):
        models.build("mnist", None)


def test_settings_and_models_agree():
    assert len(TASKS) == 8
    for task, settings in SETTINGS.items():
        defaults = {
            name: parameter.default for name, parameter in inspect.signature(getattr(models, task)).parameters.items()
        }
        for name in ("num_experts", "k", "gamma", "entropy_weight"):
            assert getattr(settings, name) == defaults[name], (task, name)
        assert sum(settings.task_weights.values()) == pytest.approx(1)
        assert settings.has_ids == (task in ("movielens", "jester", "books"))


# Section S1.3 of the paper: learning rates, gamma (fixed for COMET+), lambda, n, k, batch size, epochs.
RANGES = {
    "movielens": ((5e-5, 5e-4), 10, (0.05, 10), 16, 2, 512, 100),
    "books": ((5e-5, 5e-4), 0.5, (1, 100), 9, 4, 2048, 100),
    "jester": ((5e-5, 5e-4), 0.01, (0.05, 10), 16, 2, 2048, 100),
    "digits": ((1e-5, 5e-4), 0.001, (0.001, 0.5), 8, 2, 512, 200),
    "multi_mnist": ((1e-4, 1e-3), 0.01, (1e-4, 10), 16, 4, 512, 200),
    "multi_fashion_mnist": ((1e-4, 1e-3), 0.01, (0.001, 5), 5, 2, 512, 200),
    "celeb_a": ((1e-4, 1e-3), 5, (0.001, 5), 6, 2, 512, 100),
}


@pytest.mark.parametrize("task", RANGES)
def test_settings_are_the_paper_s(task):
    rates, gamma, entropies, *fixed = RANGES[task]
    settings = SETTINGS[task]
    assert settings.learning_rate == pytest.approx(np.sqrt(rates[0] * rates[1]), rel=0.02)
    assert settings.gamma == gamma
    assert entropies[0] <= settings.entropy_weight <= entropies[1]
    assert [settings.num_experts, settings.k, settings.batch_size, settings.epochs] == fixed
    assert 1 <= settings.permutation_epochs <= 10
