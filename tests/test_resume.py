"""A training that was stopped in whatever way goes on to the result of one that was not."""

import json
import os
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest
from helpers import BACKEND

from comet_keras import cli
from comet_keras.callbacks import TrainingCheckpoint
from comet_keras.train import TrainingConfig, load_dataset, resumable_config, train

pytestmark = pytest.mark.skipif(BACKEND != "tensorflow", reason="training runs are tested once")

# Local search for two epochs; validation loss is best in epoch 4; two steps and a rest an epoch.
SETTINGS = {"gate": "comet+", "rows": 80, "batch_size": 32, "num_experts": 4, "permutation_epochs": 2, "gamma": 0.5}
LOSSES = [3.0, 2.5, 2.0, 0.5, 1.0, 1.5, 1.6]


class ScriptedValidation(keras.callbacks.Callback):
    """Decides early stopping, so that it stops at a known epoch."""

    def on_epoch_end(self, epoch, logs=None):
        logs["val_loss"] = LOSSES[epoch]


class Stop(keras.callbacks.Callback):
    """Ends the training after a step of an epoch (counted from 0) by calling `act`."""

    def __init__(self, epoch, act, batch=1):
        super().__init__()
        self.at, self.act, self.epoch = (epoch, batch), act, None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            self.act()

    def on_train_end(self, logs=None):
        if self.at == ("end", 1):
            self.act()


def interrupt():
    raise KeyboardInterrupt


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def settings(folder, epochs=7):
    return TrainingConfig("multi_digits", epochs=epochs, patience=2, output_dir=folder, **SETTINGS)


def run(folder, *stops, **options):
    return train(settings(folder), verbose=0, callbacks=[ScriptedValidation(), *stops], **options)


def outcome(folder):
    results = json.loads((folder / "results.json").read_text())
    weights = keras.saving.load_model(folder / "model.keras", compile=False).get_weights()
    return results["epochs"], results["test"]["loss"], results["history"], weights


def assert_same(folder, expected):
    epochs, loss, history, weights = outcome(folder)
    assert epochs == expected[0]
    assert loss == pytest.approx(expected[1], rel=1e-6)
    assert set(history) == set(expected[2])
    for name, values in history.items():
        np.testing.assert_allclose(values, expected[2][name], rtol=1e-5, atol=1e-6, err_msg=name)
    for ours, theirs in zip(weights, expected[3], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert sorted(path.name for path in folder.iterdir()) == ["model.keras", "results.json"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run(folder)
    result = outcome(folder)
    assert result[0] == 6  # early stopping: two epochs after the best
    return result


@pytest.mark.slow
def test_killed_in_the_first_stage_and_interrupted_after_it(tmp_path, uninterrupted, monkeypatch, capsys):
    code = (
        "import sys\n"
        "import test_resume\n"
        "test_resume.run(sys.argv[1], test_resume.Stop(1, test_resume.kill))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["checkpoint.npz"]
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    interrupted = run(moved, Stop(4, interrupt), resume=True)
    assert interrupted.interrupted and interrupted.epochs == 4
    # The command has no scripted validation of its own.
    monkeypatch.setattr("comet_keras.train.make_callbacks", with_scripted_validation())
    assert cli.main(["train", "--resume", str(moved)]) == 0
    assert "epoch 5/7" in capsys.readouterr().out
    assert_same(moved, uninterrupted)


def with_scripted_validation():
    from comet_keras.train import make_callbacks

    return lambda config, verbose: [ScriptedValidation(), *make_callbacks(config, verbose)]


@pytest.mark.slow
def test_killed_after_early_stopping_before_the_results(tmp_path, uninterrupted):
    class Crash(Exception):
        pass

    def crash():
        raise Crash

    with pytest.raises(Crash):
        run(tmp_path, Stop("end", crash))
    run(tmp_path, resume=True)
    assert_same(tmp_path, uninterrupted)


def test_nothing_to_resume(tmp_path):
    with pytest.raises(FileNotFoundError, match="Nothing to resume.*no checkpoint"):
        train(settings(tmp_path), resume=True)
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match="has ended"):
        resumable_config(tmp_path)
    with pytest.raises(ValueError, match="output_dir"):
        train(TrainingConfig("multi_digits"), resume=True)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A checkpoint file of a small model that nothing else is known of."""
    path = tmp_path_factory.mktemp("small") / "checkpoint.npz"
    fit_small(TrainingCheckpoint(path, [], settings(path.parent).to_dict()))
    return path


def fit_small(checkpoint, units=2, dtype="float32", epochs=1):
    layers = [keras.Input((3,)), keras.layers.Dense(units, dtype=dtype), keras.layers.Dropout(0.5, dtype=dtype)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    callbacks = [*checkpoint.callbacks, checkpoint]
    options = {"initial_epoch": checkpoint.epoch, "epochs": epochs, "verbose": 0}
    model.fit(np.ones((4, 3)), np.ones((4, units)), callbacks=callbacks, **options)
    return model


class MyStopping(keras.callbacks.EarlyStopping):
    pass


def test_each_early_stopping_gets_its_own_memory_back(tmp_path):
    def stops():
        return [
            keras.callbacks.EarlyStopping("loss", patience=9, restore_best_weights=True),
            MyStopping("loss", patience=9, min_delta=100.0),
        ]

    first = stops()
    fit_small(TrainingCheckpoint(tmp_path / "state", first), epochs=3)
    assert (first[0].wait, first[1].wait) != (0, 0) and first[1].best != first[0].best
    assert [path.name for path in tmp_path.iterdir()] == ["state"]  # no suffix of numpy's
    second = stops()
    fit_small(TrainingCheckpoint(tmp_path / "state", second, resume=True), epochs=3)
    for before, after in zip(first, second):
        assert (before.wait, before.best, before.best_epoch) == (after.wait, after.best, after.best_epoch)
    assert second[1].best_weights is None
    for ours, theirs in zip(second[0].best_weights, first[0].best_weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "mixed_bfloat16", "float64"])
def test_variables_of_every_precision_come_back(tmp_path, dtype):
    path = tmp_path / "state.npz"
    model = fit_small(TrainingCheckpoint(path, []), dtype=dtype)
    again = fit_small(TrainingCheckpoint(path, [], resume=True), dtype=dtype)
    for ours, theirs in zip(again.variables, model.variables, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(np.asarray(ours).astype("float64"), np.asarray(theirs).astype("float64"))


def test_a_changed_configuration_is_not_resumed(checkpoint):
    with pytest.raises(ValueError, match="epochs"):
        train(settings(checkpoint.parent, epochs=9), resume=True)


def test_another_model_is_not_resumed(checkpoint):
    with pytest.raises(ValueError, match="does not fit"):
        fit_small(TrainingCheckpoint(checkpoint, [], resume=True), units=5)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"text"])
def test_a_damaged_checkpoint_is_named(tmp_path, checkpoint, damage):
    (tmp_path / "checkpoint.npz").write_bytes(damage(checkpoint.read_bytes()))
    with pytest.raises(ValueError, match="checkpoint.npz is not a complete checkpoint"):
        resumable_config(tmp_path)


def test_a_failed_write_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.npz"
    fit_small(TrainingCheckpoint(path, []))
    before = path.read_bytes()

    def full(file, **arrays):
        file.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        fit_small(TrainingCheckpoint(path, []))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.npz"]


@pytest.mark.parametrize(
    "arguments, word",
    [(["--seed", "1"], "--seed"), (["--task", "multi_digits"], "--task"), ([], "Nothing")],
)
def test_mistakes_at_the_command_line(tmp_path, capsys, arguments, word):
    assert cli.main(["train", "--resume", str(tmp_path), *arguments]) == 2
    assert word in capsys.readouterr().err


def test_order_of_rows_continues():
    rows = load_dataset(TrainingConfig("multi_digits", rows=40)).train

    def epochs(count, seed, first):
        batches = iter(rows.endless_batches(16, seed, first))
        return [np.concatenate([next(batches)[0]["image"] for _ in range(rows.steps(16))]) for _ in range(count)]

    whole = epochs(4, 3, 0)
    np.testing.assert_array_equal(whole[2:], epochs(2, 3, 2))
    for epoch in whole:  # every row once
        sums = [np.sort(images.sum((1, 2, 3))) for images in (epoch, rows.features["image"])]
        np.testing.assert_allclose(*sums, rtol=1e-5)
    assert not np.array_equal(whole[0], whole[1])
    assert not np.array_equal(whole[0], epochs(1, 4, 0)[0])
