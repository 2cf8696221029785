"""How good the best of s random trials is: the paper's bootstrap, in closed form and by drawing."""

from dataclasses import dataclass

import numpy as np

from comet_keras.reports.searches import has_losses
from comet_keras.validation import positive_int

REPETITIONS = 1000
LARGEST_BUDGET = 250


@dataclass(frozen=True, eq=False)
class BootstrapCurve:
    """Expected test loss of the best-validation trial, by the number of trials run.

    Attributes:
        budgets: int array `(b,)`, numbers of trials.
        means: `(b,)`, expected test losses.
        errors: `(b,)`, standard errors: how far the curve would move with another set of as many trials.
            NaN where there are too few trials to tell.
    """

    budgets: np.ndarray
    means: np.ndarray
    errors: np.ndarray


def default_budgets(num_trials):
    """The paper's numbers of trials, 1, 2, 5, 10, 15, ..., 250, as far as half the trials go, and the half.

    Beyond half of the bag, draws share most of their trials.

    Example:

    >>> from comet_keras.reports.bootstrap import default_budgets
    >>> default_budgets(16)
    [1, 2, 5, 8]
    """
    half = min(max(1, positive_int("num_trials", num_trials) // 2), LARGEST_BUDGET)
    return sorted({*(s for s in (1, 2, *range(5, half + 1, 5)) if s <= half), half})


def bootstrap_curve(trials, budgets=None, with_replacement=False):
    """Expected test loss of the trial with the best validation loss among s random ones, exactly.

    The paper (COMET, KDD 2023, Appendix F) draws s of its 500 trials a thousand times. What that average
    tends to is the sum over trials, ranked r = 0..N-1 by validation loss, of the test loss times
    `C(N-1-r, s-1) / C(N, s)`, or with replacement `((N-r)^s - (N-r-1)^s) / N^s`; the paper does not say
    which, and a sample from a bag is read as without. Equal validation losses: the trial that ended first.

    Failed trials are drawn like others and never the best; draws of failed trials alone do not count.

    Standard errors are by the jackknife: the spread of the curves with one trial left out.

    Args:
        trials: list of `comet_keras.tuning.Trial`, N of them.
        budgets: ints s from 1, without replacement to N. Default: `default_budgets`.
        with_replacement: bool. Default False.

    Returns:
        `BootstrapCurve`.

    Raises:
        ValueError: if no trial was completed, or a budget is not allowed.

    Example:

    >>> from comet_keras.reports import bootstrap_curve
    >>> from comet_keras.tuning import Trial
    >>> losses = [(0.3, 3.0), (0.1, 2.0), (0.2, 1.0)]
    >>> trials = [Trial(str(i), "completed", {}, *pair) for i, pair in enumerate(losses)]
    >>> bootstrap_curve(trials, [1, 3]).means.tolist()
    [2.0, 2.0]
    """
    tests, failed = _ranked(trials)
    budgets = _check_budgets(budgets, len(trials), with_replacement)
    means = [_expected(tests, failed, s, with_replacement) for s in budgets]
    errors = [_jackknife_error(tests, failed, s, with_replacement) for s in budgets]
    return BootstrapCurve(np.array(budgets), np.array(means), np.array(errors))


def draw_bootstrap(trials, budgets=None, with_replacement=False, repetitions=REPETITIONS, seed=0):
    """The paper's routine itself: the test loss of the best of s drawn trials, averaged over repetitions.

    Args:
        trials, budgets, with_replacement: as in `bootstrap_curve`.
        repetitions: int. Default 1000, the paper's.
        seed: int. Default 0. One order of the trials is drawn a repetition and serves all budgets.

    Returns:
        `BootstrapCurve` whose errors are those of the drawing alone, the standard deviation over the
        square root of the repetitions.

    Raises:
        ValueError: as `bootstrap_curve`.

    Example:

    >>> from comet_keras.reports import draw_bootstrap
    >>> from comet_keras.tuning import Trial
    >>> losses = [(0.3, 3.0), (0.1, 2.0), (0.2, 1.0)]
    >>> trials = [Trial(str(i), "completed", {}, *pair) for i, pair in enumerate(losses)]
    >>> abs(float(draw_bootstrap(trials, [2]).means[0]) - 5 / 3) < 0.05
    True
    """
    tests, failed = _ranked(trials)
    budgets = _check_budgets(budgets, len(trials), with_replacement)
    generator = np.random.default_rng(seed)
    shape = (positive_int("repetitions", repetitions), len(trials))
    if with_replacement:
        ranks = generator.integers(len(trials), size=(shape[0], max(budgets)))
    else:
        ranks = generator.permuted(np.broadcast_to(np.arange(len(trials)), shape), axis=1)
    best = np.minimum.accumulate(ranks, axis=1)[:, np.array(budgets) - 1]
    drawn = np.concatenate([tests, np.full(failed, np.nan)])[best]
    counted = np.sum(~np.isnan(drawn), axis=0)
    if not counted.all():
        raise ValueError("`trials`: a budget drew failed trials alone in every repetition.")
    spread = np.nanstd(drawn, axis=0) * np.sqrt(counted / np.maximum(counted - 1, 1))
    return BootstrapCurve(np.array(budgets), np.nanmean(drawn, axis=0), spread / np.sqrt(counted))


@dataclass(frozen=True)
class TuningReduction:
    """How many times fewer trials one gate needs than another for the same expected test loss.

    Attributes:
        target: float, the loss that the baseline is expected to reach.
        baseline_budget: int, the trials with which it does.
        budget: int or None, the least number of trials with which the other is expected to be at least
            as good; None if it is not with any number of its trials.
        factor: float or None, `baseline_budget / budget`; below 1 if the other needs more.
    """

    target: float
    baseline_budget: int
    budget: int | None

    @property
    def factor(self):
        return None if self.budget is None else self.baseline_budget / self.budget


def tuning_reduction(trials, baseline, baseline_budget=None, with_replacement=False):
    """The tuning-reduction factor of one search over another (the paper's "5x to 100x").

    The baseline's expected test loss with `baseline_budget` trials is the target. The budget of the other
    is the least s, from 1 to its number of trials, whose expected test loss is at or below the target.

    Args:
        trials: list of `comet_keras.tuning.Trial` of the gate in question.
        baseline: the same of the gate it is compared with.
        baseline_budget: int. Default: the largest of the baseline's `default_budgets`, 250 of 500.
        with_replacement: bool, see `bootstrap_curve`. Default False.

    Returns:
        `TuningReduction`.

    Raises:
        ValueError: as `bootstrap_curve`.

    Example:

    >>> from comet_keras.reports import tuning_reduction
    >>> from comet_keras.tuning import Trial
    >>> good = [Trial(str(i), "completed", {}, 0.1 * i, 0.1 * i) for i in range(10)]
    >>> worse = [Trial(str(i), "completed", {}, 0.2 * i, 0.2 * i) for i in range(10)]
    >>> tuning_reduction(good, worse, baseline_budget=4).budget
    3
    """
    if baseline_budget is None:
        baseline_budget = default_budgets(len(baseline))[-1]
    target = float(bootstrap_curve(baseline, [baseline_budget], with_replacement).means[0])
    tests, failed = _ranked(trials)
    for s in range(1, len(trials) + 1):
        if _expected(tests, failed, s, with_replacement) <= target:
            return TuningReduction(target, baseline_budget, s)
    return TuningReduction(target, baseline_budget, None)


def _ranked(trials):
    """Test losses of the completed trials, best validation loss first, and the number of the others."""
    ranked = sorted(filter(has_losses, trials), key=lambda trial: trial.validation_loss)
    if not ranked:
        raise ValueError("`trials` must hold at least one completed trial.")
    return np.array([trial.test_loss for trial in ranked], "float64"), len(trials) - len(ranked)


def _check_budgets(budgets, num_trials, with_replacement):
    budgets = default_budgets(num_trials) if budgets is None else list(budgets)
    if not budgets:
        raise ValueError("`budgets` must hold at least one number of trials.")
    budgets = [positive_int("budgets", s) for s in budgets]
    if not with_replacement and max(budgets) > num_trials:
        raise ValueError(
            f"`budgets` must be at most the number of trials, {num_trials}, without replacement. "
            f"Received: {max(budgets)}"
        )
    return budgets


def _weights(total, s, with_replacement):
    """Probability that the trial of rank r is the best of s drawn from `total`: `(total,)`."""
    r = np.arange(total)
    if with_replacement:
        return ((total - r) / total) ** s - ((total - r - 1) / total) ** s
    # C(N-1-r, s-1) / C(N, s), each from the one before, without large numbers.
    steps = np.maximum(total - s - r[:-1], 0) / (total - 1 - r[:-1])
    return s / total * np.cumprod(np.concatenate([[1.0], steps]))


def _expected(tests, failed, s, with_replacement):
    weights = _weights(len(tests) + failed, s, with_replacement)[: len(tests)]
    return float(weights @ tests / weights.sum())


def _jackknife_error(tests, failed, s, with_replacement):
    """Standard error by leaving out each trial in turn; those that failed are all alike."""
    total, completed = len(tests) + failed, len(tests)
    if completed < 2 or (not with_replacement and s >= total):
        return float("nan")
    weights = _weights(total - 1, s, with_replacement)
    below, above = weights[: completed - 1], weights[:completed]
    # Without rank i: ranks before it keep their place, ranks after it move up by one.
    before = np.concatenate([[0.0], np.cumsum(below * tests[:-1])])
    after = np.concatenate([np.cumsum((below * tests[1:])[::-1])[::-1], [0.0]])
    left_out = (before + after) / below.sum()
    if failed:
        # `above` sums over all completed trials: N - 1 ranks hold them when a failed one is left out.
        left_out = np.concatenate([left_out, np.full(failed, above @ tests / above.sum())])
    return float(np.sqrt((total - 1) / total * np.sum((left_out - left_out.mean()) ** 2)))
