"""What a search reached, by the paper's rule: the mean of its best trials."""

from dataclasses import dataclass

import numpy as np

from comet_keras.reports.searches import EXISTING_GATES, has_losses
from comet_keras.reports.significance import mean_and_error, p_value_below

FRACTION = 0.05
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class TopFraction:
    """The best trials of a search by validation loss, and what they reach on the test rows.

    Attributes:
        ended: int, N, trials that have ended, failed ones included.
        failed: int, how many of them failed.
        selected: list of `comet_keras.tuning.Trial`, best first.
    """

    ended: int
    failed: int
    selected: list

    @property
    def test_losses(self):
        """Test loss of each selected trial, `(m,)`."""
        return np.array([trial.test_loss for trial in self.selected])

    @property
    def loss(self):
        """`(mean, standard error)` of the test loss; the error is NaN for one trial."""
        return mean_and_error(self.test_losses)

    @property
    def experts_per_sample(self):
        """`(mean, standard error)` of the experts a sample uses, a trial's figure the mean of its gates;
        None if a trial has none."""
        return _figure([list(trial.experts_per_sample.values()) for trial in self.selected])

    def metric(self, name, task=None):
        """`(mean, standard error)` of a metric of the tasks.

        Args:
            name: str, such as `"auc"`.
            task: str or None. None: the mean over the tasks that have it, trial by trial.

        Returns:
            The pair, or None if a trial lacks the metric.
        """
        of_trials = []
        for trial in self.selected:
            tasks = trial.tasks.values() if task is None else [trial.tasks.get(task, {})]
            of_trials.append([figures[name] for figures in tasks if name in figures])
        return _figure(of_trials)


def top_fraction(trials, fraction=FRACTION):
    """The best trials of a search: `max(1, round(fraction * N))` by validation loss.

    Source: COMET (KDD 2023), S1.3: the top 5% of 500 trials a gate, so 25. N counts every trial that has
    ended. A failed one has the validation loss +inf, as in the paper's code, but is never selected: where
    fewer were completed than the rule wants, those are taken. Equal losses: the trial that ended first.
    The selected trials are the best of many, not repetitions of one, so their standard error is optimistic.

    Args:
        trials: list of `comet_keras.tuning.Trial`.
        fraction: float in (0, 1]. Default 0.05.

    Returns:
        `TopFraction`.

    Raises:
        ValueError: if no trial was completed, or `fraction` is not in (0, 1].

    Example:

    >>> from comet_keras.reports import top_fraction
    >>> from comet_keras.tuning import Trial
    >>> trials = [
    ...     Trial(str(i), "completed", {}, validation_loss=loss, test_loss=2 * loss)
    ...     for i, loss in enumerate([0.3, 0.1, 0.2, 0.4])
    ... ]
    >>> [trial.trial_id for trial in top_fraction(trials, fraction=0.5).selected]
    ['1', '2']
    """
    if isinstance(fraction, bool) or not 0 < fraction <= 1:
        raise ValueError(f"`fraction` must be above 0 and at most 1. Received: fraction={fraction!r}")
    ranked = sorted(filter(has_losses, trials), key=lambda trial: trial.validation_loss)
    if not ranked:
        raise ValueError("`trials` must hold at least one completed trial.")
    wanted = max(1, round(fraction * len(trials)))
    return TopFraction(len(trials), len(trials) - len(ranked), ranked[:wanted])


def compare_with_best_existing(selections):
    """p-values of the one-sided t-test of each new gate against the best existing one.

    As in the paper's Tables 2 and 3, existing gates are Softmax, Hash, Top-k and DSelect-k without local
    search, and the best is the one with the lowest mean test loss. A gate below it with p < 0.05 earns the
    asterisk (the paper prints it for its best gate only).

    Args:
        selections: dict from gate string to `TopFraction`.

    Returns:
        `(best, p_values)`: the best existing gate or None, and a dict from each gate that is none of them
        to its p-value (see `p_value_below`); empty if there is no existing gate.
    """
    existing = {gate: selections[gate].loss[0] for gate in EXISTING_GATES if gate in selections}
    if not existing:
        return None, {}
    best = min(existing, key=existing.get)
    baseline = selections[best].test_losses
    return best, {
        gate: p_value_below(selection.test_losses, baseline)
        for gate, selection in selections.items()
        if gate not in EXISTING_GATES
    }


def _figure(of_trials):
    """Mean and error over trials of the mean of each trial's values."""
    if any(not values or None in values for values in of_trials):
        return None
    return mean_and_error([np.mean(values) for values in of_trials])
