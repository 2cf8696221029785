"""Searches over the paper's models, on little data."""

import dataclasses
import json

import keras_tuner
import pytest

from comet_keras.datasets import multi_digits
from comet_keras.train import TrainingConfig, train
from comet_keras.tuning import Choice, Fixed, LogUniform, TaskHyperModel, read_search, search, space

SPACE = {"learning_rate": LogUniform(1e-3, 1e-2), "num_experts": Fixed(2), "permutation_epochs": Choice([1, 2])}


@pytest.fixture(scope="module")
def digits():
    return multi_digits(train_pairs=64, validation_pairs=32, test_pairs=32)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, digits):
    folder = tmp_path_factory.mktemp("search")
    options = {"space": SPACE, "dataset": digits, "epochs": 2, "seed": 7, "verbose": 0, "patience": 1}
    return search("multi_digits", "topk+", 2, folder=folder, objective="val_top_left_accuracy", **options)


@pytest.mark.slow
def test_a_trial_is_a_training(finished, digits):
    trial = finished.trials[0]
    config = TrainingConfig("multi_digits", "topk+", epochs=2, patience=1, seed=7, **trial.hyperparameters)
    result = train(config, digits, verbose=0)
    losses = result.history["val_loss"]
    assert trial.validation_loss == pytest.approx(min(losses), rel=1e-5)
    assert trial.score == result.history["val_top_left_accuracy"][losses.index(min(losses))]
    assert trial.test_loss == pytest.approx(result.test["loss"], rel=1e-5)
    assert trial.tasks["top_left"]["rows"] == 32 and trial.epochs == len(losses)
    assert trial.experts_per_sample == pytest.approx({"top_left": 2.0, "bottom_right": 2.0})


@pytest.mark.slow
def test_the_best_model_loads(finished, digits):
    from comet_keras.models import evaluate_exactly

    figures = evaluate_exactly(finished.best_model(), digits.test, digits.tasks)
    assert figures["loss"] == pytest.approx(finished.best().test_loss, rel=1e-5)
    assert finished.best().score == max(trial.score for trial in finished.trials)


@pytest.mark.slow
def test_a_search_says_what_it_was_asked_for(finished):
    description = read_search(finished.folder)
    assert description["task"] == "multi_digits" and description["gate"] == "topk+"
    assert description["task_weights"] == {"top_left": 0.5, "bottom_right": 0.5}
    assert description["objective"] == {"name": "val_top_left_accuracy", "direction": "max"}
    assert description["space"]["learning_rate"] == {"log_uniform": [1e-3, 1e-2]}
    json.dumps(description)


@pytest.mark.slow
def test_an_objective_that_no_task_has_is_refused_with_the_names(tmp_path, digits):
    """O39."""
    names = "val_bottom_right_accuracy.*val_loss.*val_top_left_accuracy.*'val_auc'"
    with pytest.raises(ValueError, match=names):
        search("multi_digits", "topk", folder=tmp_path / "new", dataset=digits, objective="val_auc")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "options, word",
    [
        ({"gate": "hash"}, "no ids"),
        ({"gate": "best"}, "dselect_k"),
        ({"task": "mnist"}, "multi_mnist"),
        ({"task": "movielens", "data_dir": "nowhere"}, "nowhere"),
        ({"space": {"gama": Fixed(1.0)}}, "gama"),
        ({"task_weights": {"left": 1.0}}, "top_left"),
        ({"rows": 0}, "rows"),
        ({"objective": ("val_loss", "max", 3)}, "objective"),
    ],
)
def test_mistakes_are_named_before_anything_runs(tmp_path, options, word):
    arguments = {"task": "multi_digits", "gate": "topk", "trials": 1, "folder": tmp_path / "new", **options}
    with pytest.raises((ValueError, FileNotFoundError), match=word):
        search(**arguments)
    assert not (tmp_path / "new").exists()


def test_the_hypermodel_declares_the_papers_space():
    hypermodel = TaskHyperModel(TrainingConfig("movielens", "comet+", data_dir="nowhere"))
    hp = keras_tuner.HyperParameters()
    hypermodel.declare_hyperparameters(hp)
    assert set(hp.values) == set(space("movielens", "comet+")) and hp.values["gamma"] == 10.0
    hp.values.update({"learning_rate": 2e-4, "permutation_epochs": 9, "tuner/epochs": 4})
    config = hypermodel.configure(hp, seed=5)
    assert (config.learning_rate, config.permutation_epochs, config.epochs, config.seed) == (2e-4, 9, 4, 5)
    assert config == dataclasses.replace(
        hypermodel.config, learning_rate=2e-4, permutation_epochs=9, entropy_weight=0.05, gamma=10.0, epochs=4, seed=5
    )
    assert hypermodel.hyperparameters(hp)["epochs"] == 4


@pytest.mark.slow
def test_kerastuners_own_tuners_search_with_the_hypermodel(tmp_path, digits):
    config = TrainingConfig("multi_digits", "topk", epochs=1)
    hypermodel = TaskHyperModel(config, {"learning_rate": LogUniform(1e-3, 1e-2)}, digits)
    tuner = keras_tuner.RandomSearch(hypermodel, objective="val_loss", max_trials=1, directory=tmp_path)
    tuner.search(verbose=0)
    assert tuner.oracle.get_best_trials()[0].score > 0
