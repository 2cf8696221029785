"""What one training of a trial reached, and the mean of several."""

import math
from dataclasses import dataclass, field

from comet_keras.tuning.trials import COMPLETED, Trial


class TrialFailed(Exception):
    """A trial has no result; the message says why."""


@dataclass(eq=False, repr=False)
class Execution:
    """One training of a trial.

    Attributes:
        model: the trained `keras.Model`.
        score: float, the objective's value in the epoch whose weights the model has.
        validation_loss: float or None, in the same epoch.
        test_loss: float or None.
        tasks: dict from task to its test figures.
        experts_per_sample: dict from gate to its mean number of experts a test row.
        epochs: int, epochs run.
    """

    model: object
    score: float
    validation_loss: float | None
    test_loss: float | None = None
    tasks: dict = field(default_factory=dict)
    experts_per_sample: dict = field(default_factory=dict)
    epochs: int = 0


def completed_trial(trial_id, hyperparameters, executions, seconds):
    """The `Trial` of several executions: the mean of each figure, and the sum of epochs."""
    return Trial(
        trial_id,
        COMPLETED,
        hyperparameters,
        validation_loss=_mean([each.validation_loss for each in executions]),
        test_loss=_mean([each.test_loss for each in executions]),
        tasks=_mean([each.tasks for each in executions]),
        experts_per_sample=_mean([each.experts_per_sample for each in executions]),
        epochs=sum(each.epochs for each in executions),
        seconds=seconds,
        executions=len(executions),
        score=_mean([each.score for each in executions]),
    )


def final_epoch(history, objective, restores_best):
    """Number of the epoch whose weights a training ended with, from 0.

    Args:
        history: dict from name to a list with a float for each epoch.
        objective: `Objective` that early stopping watched.
        restores_best: bool, whether the best epoch's weights were restored.
    """
    values = history[objective.name]
    return objective.best_of(values) if restores_best else len(values) - 1


def _mean(values):
    """Mean of floats, or of dicts of floats name by name; None where one is missing or NaN."""
    if isinstance(values[0], dict):
        return {name: _mean([value[name] for value in values]) for name in values[0]}
    if any(value is None or not math.isfinite(value) for value in values):
        return None
    mean = sum(values) / len(values)
    return int(mean) if all(isinstance(value, int) for value in values) and mean == int(mean) else float(mean)
