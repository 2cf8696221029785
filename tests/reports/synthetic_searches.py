"""Folders of made-up searches, for the tests of reports."""

import numpy as np

from comet_keras.tuning.trials import Trial, append_trial, write_search

ALPHA = {"watch": 0.9, "rating": 0.1}


def trial(number, validation_loss, test_loss, tasks=None, experts=None, **options):
    """A completed trial."""
    return Trial(str(number), "completed", {}, validation_loss, test_loss, tasks or {}, experts or {}, **options)


def failed(number):
    return Trial(str(number), "failed", {}, reason="the loss is NaN")


def trials_of(pairs):
    """Trials from pairs of validation and test loss; None is a failed trial."""
    return [failed(i) if pair is None else trial(i, *pair) for i, pair in enumerate(pairs)]


def random_trials(count, best=0.4, spread=0.1, seed=0, kind="ratings", experts=2.0):
    """Trials whose test loss follows the validation loss with noise."""
    rng = np.random.default_rng(seed)
    validation = best + spread * rng.gamma(2.0, size=count)
    test = validation + 0.05 * spread * rng.normal(size=count)
    made = []
    for i, (v, t) in enumerate(zip(validation.tolist(), test.tolist())):
        if kind == "ratings":
            tasks = {"watch": {"loss": t, "rows": 9, "auc": 1 - t / 2}, "rating": {"loss": t, "rows": 5, "mse": 2 * t}}
        else:
            tasks = {name: {"loss": t, "rows": 9, "accuracy": 1 - t / 3} for name in ("top_left", "bottom_right")}
        made.append(trial(i, v, t, tasks, {name: experts for name in tasks}))
    return made


def write(folder, gate, trials, task="movielens", task_weights=ALPHA, **description):
    """A search's folder; returns its path."""
    write_search(folder, {"task": task, "gate": gate, "task_weights": task_weights, **description})
    for item in trials:
        append_trial(folder, item)
    return folder
