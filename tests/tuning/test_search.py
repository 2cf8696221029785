import json
import math
from unittest import mock

import keras
import numpy as np
import pytest
from scipy import stats
from tuning.search_models import DATA, X, Y, instant, search_in, small, trained

from comet_keras.tuning import SearchResults, read_search, read_trials, search_model
from comet_keras.tuning.journal import duration


def quiet(build, folder, trials=2, data=DATA, **options):
    return search_model(build, data, trials=trials, folder=folder, verbose=0, **{"epochs": 1, **options})


@pytest.fixture(autouse=True, scope="module")
def no_collection():
    """The garbage of small models can wait; collecting it takes longer than training them."""
    with mock.patch("comet_keras.tuning.tuner.gc"):
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A search of 2 trials with 2 executions, test data and early stopping."""
    folder = tmp_path_factory.mktemp("search")
    return quiet(trained, folder, seed=3, executions=2, epochs=3, patience=1)


def test_a_search_records_every_trial(finished):
    assert [trial.trial_id for trial in finished.trials] == ["0", "1"]
    description = read_search(finished.folder)
    assert description["gate"] == "trained" and description["objective"] == {"name": "val_loss", "direction": "min"}
    for trial in finished.trials:
        assert trial.completed and trial.executions == 2 and 2 <= trial.epochs <= 6 and trial.seconds > 0
        assert set(trial.hyperparameters) == {"learning_rate", "units"}
        assert trial.score == trial.validation_loss


def test_figures_are_those_of_a_training_by_hand(finished):
    """Each execution's training again, by Keras alone."""
    trial = finished.trials[0]
    best, test = [], []
    for seed in (3, 4):
        keras.utils.set_random_seed(seed)
        model = small(trial.hyperparameters["learning_rate"], trial.hyperparameters["units"])
        stop = keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)
        history = model.fit(*DATA[0], validation_data=DATA[1], epochs=3, callbacks=[stop], verbose=0, batch_size=32)
        best.append(min(history.history["val_loss"]))
        test.append(model.evaluate(*DATA[2], verbose=0, return_dict=True)["loss"])
    assert trial.validation_loss == pytest.approx(np.mean(best), rel=1e-5)
    assert trial.test_loss == pytest.approx(np.mean(test), rel=1e-5)


def test_without_patience_the_last_epoch_counts(tmp_path):
    """With a rate this large the loss rises from the first epoch on."""
    trial = quiet(lambda hp: small(hp.Choice("rate", [0.9])), tmp_path, 1, epochs=4).best()
    keras.utils.set_random_seed(0)
    history = small(0.9).fit(*DATA[0], validation_data=DATA[1], epochs=4, verbose=0).history["val_loss"]
    assert history[-1] > min(history)
    assert trial.validation_loss == pytest.approx(history[-1], rel=1e-5)


def test_the_best_trials_model_is_kept_and_loads(finished):
    best = finished.best()
    assert best.validation_loss == min(trial.validation_loss for trial in finished.trials)
    assert [path.parent.name for path in finished.folder.glob("trials/*/model.*")] == [f"trial_{best.trial_id}"]
    # The model of the better execution: its validation loss is at most the mean.
    model = finished.best_model()
    assert model.evaluate(*DATA[1], verbose=0, return_dict=True)["loss"] <= best.validation_loss * (1 + 1e-5)


class Unbuilt(keras.Model):
    """A subclass that Keras has never heard of, without an input shape (O41)."""

    def __init__(self, units):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(units), keras.layers.Dense(1)

    def call(self, x):
        return self.out(self.hidden(x))


def build_unbuilt(hp):
    model = Unbuilt(hp.Int("units", 2, 4))
    model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
    return model


def test_the_best_model_of_an_unbuilt_subclass_loads(tmp_path):
    results = quiet(build_unbuilt, tmp_path)
    found = results.best_model().evaluate(*DATA[1], verbose=0, return_dict=True)["loss"]
    assert found == pytest.approx(results.best().validation_loss, rel=1e-5)
    # Called again, the search runs nothing and still builds the model; the folder alone cannot.
    lines = (tmp_path / "trials.jsonl").read_text()
    again = quiet(build_unbuilt, tmp_path)
    assert (tmp_path / "trials.jsonl").read_text() == lines
    assert again.best_model().evaluate(*DATA[1], verbose=0, return_dict=True)["loss"] == found
    with pytest.raises(ValueError, match="search_model"):
        SearchResults(tmp_path).best_model()


def draws(folder):
    return [(trial.hyperparameters, trial.validation_loss) for trial in read_trials(folder)]


def test_same_seed_same_trials_and_scores(tmp_path, finished):
    """O43, with a model that trains."""
    again = quiet(trained, tmp_path / "a", seed=3, executions=2, epochs=3, patience=1)
    assert draws(again.folder) == draws(finished.folder)
    # KerasTuner's own draws of seed 4 are those of seed 3, moved on by one.
    other = quiet(instant, tmp_path / "b", 4, seed=4)
    rates = [{each.hyperparameters["learning_rate"] for each in search.trials} for search in (again, other)]
    assert not rates[0] & rates[1]


@pytest.mark.parametrize("tuner, trials", [("random", 5), ("bayesian", 8), ("hyperband", 12)])
def test_every_tuner_continues_to_what_it_would_have_found(tmp_path, tuner, trials):
    whole = quiet(instant, tmp_path / "whole", trials, tuner=tuner, epochs=3, seed=1)
    assert len(whole.trials) == trials == len({trial.trial_id for trial in whole.trials})
    first = trials - 1  # past the 6 random trials that Bayesian optimization begins with
    quiet(instant, tmp_path / "parts", first, tuner=tuner, epochs=3, seed=1)
    quiet(instant, tmp_path / "parts", trials, tuner=tuner, epochs=3, seed=1)
    found = [loss for _, loss in draws(tmp_path / "parts")]
    assert found == [loss for _, loss in draws(tmp_path / "whole")]
    if tuner == "hyperband":
        epochs = [trial.hyperparameters["epochs"] for trial in whole.trials]
        assert set(epochs) == {1, 3} and epochs == [trial.epochs for trial in whole.trials]


def test_random_search_is_uniform_on_the_log_scale(tmp_path):
    """The draws of KerasTuner's oracle, without trainings."""
    import keras_tuner

    from comet_keras.tuning.objectives import Objective
    from comet_keras.tuning.oracles import make_oracle
    from comet_keras.tuning.spaces import Choice, LogUniform

    oracle = make_oracle("random", Objective("val_loss", "min"), 10**6, 0, 1, journal=None)
    hp = keras_tuner.HyperParameters()
    LogUniform(5e-5, 5e-4).declare(hp, "rate")
    Choice([0.01, 0.1, 1, 5, 10]).declare(hp, "gamma")
    oracle.update_space(hp)
    drawn = [oracle._random_values() for _ in range(1000)]
    rates = np.array([values["rate"] for values in drawn])
    assert rates.min() >= 5e-5 and rates.max() <= 5e-4
    assert stats.kstest(np.log(rates), "uniform", (math.log(5e-5), math.log(10))).pvalue > 0.01
    counts = np.unique([values["gamma"] for values in drawn], return_counts=True)
    assert counts[0].tolist() == [0.01, 0.1, 1, 5, 10] and stats.chisquare(counts[1]).pvalue > 0.01
    gammas = [values["gamma"] for values in drawn]
    assert abs(stats.spearmanr(rates, gammas).statistic) < 0.1


def sometimes(hp):
    """Fails in three ways, by the value drawn."""
    way = hp.Choice("way", ["good", "memory", "nan", "type"])
    if way == "memory":
        raise MemoryError("no room for 10 TB")
    if way == "type":
        return "no model"
    return small(1e30 if way == "nan" else 0.1)


def test_failed_trials_are_recorded_and_the_search_goes_on(tmp_path):
    results = quiet(sometimes, tmp_path, 10, epochs=3)
    reasons = {trial.hyperparameters["way"]: trial for trial in results.trials}
    assert set(reasons) == {"good", "memory", "nan", "type"}  # all of the space, and then it ends
    assert reasons["good"].completed and results.best() == reasons["good"]
    assert reasons["memory"].reason == "MemoryError: no room for 10 TB"
    assert "loss was" in reasons["nan"].reason and "epoch" in reasons["nan"].reason
    assert "compiled keras.Model" in reasons["type"].reason
    folder = tmp_path / "trials" / f"trial_{reasons['memory'].trial_id}"
    assert "in sometimes" in (folder / "error.txt").read_text()


def test_a_build_function_that_always_fails_ends_the_search(tmp_path):
    def broken(hp):
        rate = hp.Float("rate", 0.01, 0.1)
        if rate != 0.01:  # the default, with which the search looks at the model first
            raise ZeroDivisionError("of mine")
        return small(rate)

    with pytest.raises(RuntimeError, match="ZeroDivisionError: of mine"):
        quiet(broken, tmp_path, 50)
    assert [trial.completed for trial in read_trials(tmp_path)] == [False] * 3


def two_tasks(hp):
    inputs = keras.Input((2,))
    outputs = {task: keras.layers.Dense(1, activation="sigmoid", name=task)(inputs) for task in ("a", "b")}
    model = keras.Model(inputs, outputs)
    metrics = {task: [keras.metrics.AUC(name="auc")] for task in outputs}
    optimizer = keras.optimizers.SGD(hp.Float("rate", 0.1, 1.0, sampling="log"))
    losses = dict.fromkeys(outputs, "binary_crossentropy")
    model.compile(optimizer, losses, metrics=metrics, run_eagerly=True)
    return model


LABELS = {"a": (Y > 0).astype("float32"), "b": (Y > 0.5).astype("float32")}
TWO_TASKS = [(X, LABELS), (X, LABELS)]


def test_a_wrong_objective_is_refused_before_the_first_trial(tmp_path):
    """O39: with the names there are."""
    with pytest.raises(ValueError, match="val_a_auc.*val_b_auc.*val_loss.*'val_auc'"):
        quiet(two_tasks, tmp_path / "new", data=TWO_TASKS, objective="val_auc")
    assert not (tmp_path / "new").exists()


def test_the_largest_auc_is_the_best(tmp_path):
    """O40."""
    results = quiet(two_tasks, tmp_path, 4, data=TWO_TASKS, objective="val_b_auc", epochs=3)
    scores = [trial.score for trial in results.trials]
    assert read_search(tmp_path)["objective"] == {"name": "val_b_auc", "direction": "max"}
    assert len(set(scores)) > 1 and results.best().score == max(scores)
    assert [trial.score for trial in results.best_trials()] == sorted(scores, reverse=True)
    assert all(trial.validation_loss > 0 for trial in results.trials)


def test_another_search_in_the_folder_is_refused(tmp_path):
    quiet(instant, tmp_path, 1)
    with pytest.raises(ValueError, match="seed was 0, now 5"):
        quiet(instant, tmp_path, 1, seed=5)
    with pytest.raises(ValueError, match="epochs was 1, now 2; patience was None, now 3"):
        quiet(instant, tmp_path, 1, epochs=2, patience=3)
    results = quiet(instant, tmp_path, 2, seed=5, overwrite=True)
    assert len(results.trials) == 2 and results.description["seed"] == 5


def test_a_search_is_run_by_one_process_at_a_time(tmp_path):
    import fcntl

    with open(tmp_path / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="Another process"):
            quiet(instant, tmp_path, 1)


@pytest.mark.parametrize(
    "options, word",
    [
        ({"tuner": "grid"}, "hyperband"),
        ({"trials": 0}, "trials=0"),
        ({"executions": 1.5}, "executions=1.5"),
        ({"seed": -1}, "seed=-1"),
        ({"workers": 0}, "workers"),
        ({"listen": "a:1", "connect": "b:1"}, "exclude"),
        ({"listen": "nowhere"}, "HOST:PORT"),
        ({"data": [DATA[0]]}, "data"),
        ({"data": [iter([DATA[0]]), DATA[1]]}, "generator"),
        ({"build": 3}, "build=3"),
        ({"objective": "val_mse"}, "val_mae"),
    ],
)
def test_mistakes_are_named(tmp_path, options, word):
    arguments = {"build": instant, "folder": tmp_path, **options}
    with pytest.raises(ValueError, match=word):
        quiet(arguments.pop("build"), **arguments)
    assert not (tmp_path / "trials.jsonl").exists()


def test_a_line_is_shown_for_each_trial(tmp_path, capsys):
    search_in(tmp_path, 3)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["trial 1/3", "trial 2/3", "trial 3/3"]
    best = min(trial.score for trial in read_trials(tmp_path))
    assert f"best {best:.4f}" in lines[-1] and lines[0].endswith("left") and lines[-1].endswith("done")


def test_ctrl_c_leaves_a_search_that_continues(tmp_path, capsys):
    class Stop(keras.callbacks.Callback):
        trainings = 0

        def on_train_begin(self, logs=None):
            Stop.trainings += 1
            if Stop.trainings == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_model(instant, DATA, trials=3, folder=tmp_path, epochs=1, callbacks=[Stop()])
    assert "the same command continues it" in capsys.readouterr().out
    assert len(read_trials(tmp_path)) == 1
    quiet(instant, tmp_path, 3, callbacks=[Stop()])
    assert [trial.trial_id for trial in read_trials(tmp_path)] == ["0", "1", "2"] and Stop.trainings == 4


@pytest.mark.parametrize("lost", ["journal", "oracle", "moment of creation"])
def test_a_kill_at_any_moment_loses_and_repeats_nothing(tmp_path, lost):
    """States between two writes, put together by hand from a search that was cut after 3 of 4 trials."""
    whole = tmp_path / "whole"
    search_in(whole_folder(whole), 4, verbose=0)
    folder = whole_folder(tmp_path / "cut")
    search_in(folder, 2, verbose=0)
    early = (folder / "trials" / "oracle.json").read_text()
    search_in(folder, 3, verbose=0)
    state = json.loads((folder / "trials" / "oracle.json").read_text())
    if lost == "journal":  # the trial has its record, and nobody has heard of it
        lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
        (folder / "trials.jsonl").write_text("".join(lines[:2]))
        running(folder, "2")
        state["ongoing_trials"] = {"tuner0": "2"}
        state["end_order"].remove("2")
        (folder / "trials" / "oracle.json").write_text(json.dumps(state))
    elif lost == "oracle":  # the last trial is in the journal, and the oracle thinks it runs
        running(folder, "2")
        state["ongoing_trials"] = {"tuner0": "2"}
        (folder / "trials" / "oracle.json").write_text(json.dumps(state))
    else:  # the trial's file is there, and the oracle has not written that it created it
        lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
        (folder / "trials.jsonl").write_text("".join(lines[:2]))
        running(folder, "2")
        (folder / "trials" / "trial_2" / "record.json").unlink()
        (folder / "trials" / "oracle.json").write_text(early)
    search_in(folder, 4, verbose=0)
    assert draws(folder) == draws(whole)
    begun = (folder / "begun").read_text().splitlines()
    assert len(begun) == (5 if lost == "moment of creation" else 4)


def whole_folder(folder):
    folder.mkdir()
    return folder


def running(folder, trial_id):
    path = folder / "trials" / f"trial_{trial_id}" / "trial.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": "RUNNING", "score": None}))


def test_a_trial_that_kills_its_process_fails_in_the_end(tmp_path):
    """What is out of memory is killed: not for ever."""
    search_in(tmp_path, 1, verbose=0)
    folder = tmp_path / "trials" / "trial_1"
    folder.mkdir()
    (folder / "attempts").write_text("3")
    search_in(tmp_path, 3, verbose=0)
    trials = {trial.trial_id: trial for trial in read_trials(tmp_path)}
    assert "killed in this trial 3 times" in trials["1"].reason and trials["2"].completed


def test_durations_are_readable():
    texts = [duration(seconds) for seconds in (0.04, 99, 100, 3600, 86_400)]
    assert texts == ["0.0 s", "99.0 s", "2 min", "60 min", "24 h 0 min"]
