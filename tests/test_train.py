import dataclasses
import json

import keras
import numpy as np
import pytest

from comet_keras.datasets import Dataset, Split, multi_digits
from comet_keras.train import TrainingConfig, build_model, load_dataset, train


@pytest.fixture(scope="module")
def digits():
    return multi_digits(train_pairs=96, validation_pairs=32, test_pairs=50)


def tiny_movielens(rows=60):
    def split(seed):
        generator = np.random.default_rng(seed)
        watched = generator.integers(2, size=rows).astype("float32")
        return Split(
            {"user": generator.integers(12, size=rows).astype("int32"), "movie": generator.integers(9, size=rows).astype("int32")},
            {"watch": watched, "rating": watched * generator.integers(1, 6, size=rows).astype("float32")},
            {"rating": watched.copy()},
        )

    return Dataset(
        "movielens",
        *(split(seed) for seed in range(3)),
        tasks={"watch": "binary", "rating": "regression"},
        vocabulary_sizes={"user": 12, "movie": 9},
    )


def test_run_writes_model_and_results(tmp_path, digits):
    config = TrainingConfig(
        "multi_digits", "comet+", epochs=3, permutation_epochs=2, num_experts=4, output_dir=tmp_path / "run"
    )
    result = train(config, digits, verbose=0)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["model.keras", "results.json"]
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert TrainingConfig(**results["config"]) == config
    assert (results["epochs"], results["interrupted"]) == (3, False)
    assert len(results["history"]["val_loss"]) == len(results["history"]["loss"]) == 3
    assert {"python", "keras", "backend", "numpy", "comet_keras"} <= set(results["versions"])
    assert results["seconds"] > 0
    assert set(results["test"]["experts_per_sample"]) == {"top_left", "bottom_right"}
    assert bool(result.model.get_layer("mixture").permutation.hardened.numpy())

    # The test loss again, from predictions of the saved model.
    loaded = keras.saving.load_model(tmp_path / "run" / "model.keras")
    prediction = loaded.predict(digits.test.features, verbose=0)
    losses = [
        -np.mean(np.log(prediction[task].astype("float64")[np.arange(50), digits.test.targets[task]]))
        for task in digits.tasks
    ]
    assert results["test"]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_movielens_loss_is_exact_and_free_of_regularization():
    data = tiny_movielens()
    config = TrainingConfig("movielens", "comet", epochs=1, batch_size=16, entropy_weight=10.0)
    result = train(config, data, verbose=0)
    prediction = result.model.predict(data.test.features, verbose=0)
    p = prediction["watch"][:, 0].astype("float64")
    watched = data.test.targets["watch"] == 1
    bce = -np.mean(np.where(watched, np.log(p), np.log(1 - p)))
    errors = prediction["rating"][:, 0].astype("float64") - data.test.targets["rating"]
    assert result.test["loss"] == pytest.approx(0.9 * bce + 0.1 * np.mean(errors[watched] ** 2), rel=1e-5)
    # Its training loss holds the entropy term, about 10 * 2 * 2 * log(16).
    assert result.history["loss"][0] > 20 > result.history["val_loss"][0]


class Interrupt(keras.callbacks.Callback):
    def __init__(self, epoch, batch):
        super().__init__()
        self.at, self.epoch = (epoch, batch), 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            raise KeyboardInterrupt


def test_interrupted_run_is_evaluated_and_saved(tmp_path, digits, capsys):
    config = TrainingConfig(
        "multi_digits", "comet+", epochs=9, batch_size=32, permutation_epochs=5, output_dir=tmp_path
    )
    result = train(config, digits, callbacks=[Interrupt(2, 1)])
    assert result.interrupted and result.epochs == 2
    assert "Interrupted in epoch 3" in capsys.readouterr().out
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["interrupted"] and len(results["history"]["loss"]) == 2
    assert np.isfinite(results["test"]["loss"])
    # The first stage was not over: soft still, and used by its rounded assignment.
    permutation = keras.saving.load_model(tmp_path / "model.keras").get_layer("mixture").permutation
    assert not bool(permutation.hardened.numpy())
    assigned = permutation.assignment.numpy()
    permutation.round()
    np.testing.assert_array_equal(permutation.assignment.numpy(), assigned)


def test_interrupt_in_the_first_epoch(digits):
    config = TrainingConfig("multi_digits", "topk", epochs=9, batch_size=32, patience=None)
    result = train(config, digits, verbose=0, callbacks=[Interrupt(0, 0)])
    assert (result.epochs, result.history) == (0, {})
    assert np.isfinite(result.test["loss"])


class ValidationLosses(keras.callbacks.Callback):
    """Puts given validation losses into the logs, and keeps a weight of each epoch."""

    def __init__(self, losses):
        super().__init__()
        self.losses, self.kept = losses, []

    def on_epoch_end(self, epoch, logs=None):
        logs["val_loss"] = self.losses[epoch]
        self.kept.append(self.model.get_layer("top_left").get_weights()[0])


@pytest.mark.parametrize("patience, epochs, kept", [(2, 4, 1), (None, 6, 5)])
def test_early_stopping_restores_the_best_epoch(digits, patience, epochs, kept):
    losses = ValidationLosses([3.0, 1.0, 2.0, 2.0, 0.5, 4.0])
    config = TrainingConfig("multi_digits", "softmax", epochs=6, patience=patience)
    result = train(config, digits, verbose=0, callbacks=[losses])
    assert result.epochs == epochs
    np.testing.assert_array_equal(result.model.get_layer("top_left").get_weights()[0], losses.kept[kept])


def test_seed_decides_the_run(digits):
    config = TrainingConfig("multi_digits", "softmax", epochs=1, batch_size=32)
    # That one seed gives one result is in test_resume.py.
    first, other = (train(dataclasses.replace(config, seed=s), digits, verbose=0).test["loss"] for s in (0, 1))
    assert first != pytest.approx(other, rel=1e-3)


def test_settings_reach_the_model():
    data = tiny_movielens()
    config = TrainingConfig(
        "movielens", "comet+", num_experts=4, k=3, gamma=0.5, entropy_weight=2.0, zeta=0.1, permutation_start="cold", learning_rate=0.25
    )
    model = build_model(config, data)
    mixture = model.get_layer("mixture")
    gate = mixture.gates["rating"]
    assert (gate.num_experts, gate.k, gate.gamma, gate.entropy.weight) == (4, 3, 0.5, 2.0)
    permutation = mixture.permutation
    assert (permutation.entropy_weight, permutation.temperature, permutation.warm_start) == (0.1, (1e-3, 1e-7), False)
    assert float(model.optimizer.learning_rate) == 0.25
    assert model.get_layer("user_embedding").input_dim == 12


def test_defaults_are_the_paper_s():
    config = TrainingConfig("movielens")
    assert (config.num_experts, config.k, config.batch_size, config.epochs, config.patience) == (16, 2, 512, 100, 25)
    assert (config.gamma, config.zeta, config.task_weights) == (10.0, 1e-4, {"watch": 0.9, "rating": 0.1})
    assert 5e-5 <= config.learning_rate <= 5e-4


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"task": "mnist"}, "task"),
        ({"gate": "top2"}, "gate.*softmax"),
        ({"gate": "hash"}, "no ids"),
        ({"gate": "topk", "k": 9}, "num_experts"),
        ({"num_experts": 0}, "num_experts"),
        ({"k": 1.5}, "k"),
        ({"gamma": 0}, "gamma"),
        ({"gamma": "wide"}, "gamma"),
        ({"entropy_weight": -1}, "entropy_weight"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"batch_size": True}, "batch_size"),
        ({"epochs": 0}, "epochs"),
        ({"patience": 0}, "patience"),
        ({"permutation_epochs": 0}, "permutation_epochs"),
        ({"rows": -5}, "rows"),
        ({"seed": -1}, "seed"),
        ({"task_weights": {"watch": 1.0}}, "top_left"),
    ],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(ValueError, match=message):
        TrainingConfig(**arguments)


def test_missing_data(tmp_path):
    with pytest.raises(FileNotFoundError, match="data_dir.*Download it from"):
        load_dataset(TrainingConfig("jester"))
    with pytest.raises(FileNotFoundError):
        load_dataset(TrainingConfig("movielens", data_dir=tmp_path))


def test_rows_are_training_rows():
    data = load_dataset(TrainingConfig(rows=50))
    assert [len(split) for split in data.splits.values()] == [50, 10, 10]
