"""Tables of the searches of one task: what each gate reached, and with how many trials."""

import numpy as np

from comet_keras.reports.bootstrap import (
    bootstrap_curve,
    default_budgets,
    tuning_reduction,
)
from comet_keras.reports.searches import EXISTING_GATES, gate_name
from comet_keras.reports.table_formats import Measured, Table
from comet_keras.reports.top_fraction import (
    FRACTION,
    SIGNIFICANT,
    compare_with_best_existing,
    top_fraction,
)

DIGITS = 4


def trials_table(records, fraction=FRACTION):
    """What each gate's best trials reach on the test rows.

    Args:
        records: dict from gate to `SearchRecord`, all of one task and its weights
            (`read_comparable_searches`).
        fraction: float, see `top_fraction`. Default 0.05.

    Returns:
        `comet_keras.reports.table_formats.Table`.

    Example:

    >>> from comet_keras.reports import SearchRecord, trials_table
    >>> from comet_keras.tuning import Trial
    >>> trials = [Trial("0", "completed", {}, 0.5, 0.6), Trial("1", "failed", {}, reason="NaN")]
    >>> trials_table({"topk": SearchRecord("books", "topk", {}, trials)}).rows[0][:4]
    ['Top-k', 2, 1, 1]
    """
    first = next(iter(records.values()))
    tops = {gate: top_fraction(record.trials, fraction) for gate, record in records.items()}
    best_existing, p_values = compare_with_best_existing(tops)
    metrics = {(task, name): None for record in records.values() for task, name in record.metrics.items()}
    best = min(tops, key=lambda gate: tops[gate].loss[0])
    rows = []
    for gate, top in tops.items():
        p = p_values.get(gate)
        known = p is not None and np.isfinite(p)
        loss = Measured(*top.loss, DIGITS, bool(known and p < SIGNIFICANT), gate == best)
        per_sample = top.experts_per_sample
        rows.append(
            [
                gate_name(gate),
                top.ended,
                top.failed,
                len(top.selected),
                loss,
                f"{p:.3f}" if known else None,
                Measured(*per_sample) if per_sample else None,
                *(_metric(top, task, name) for task, name in metrics),
            ]
        )
    headers = ["gate", "trials", "failed", "top", "test loss", "p", "n/s"]
    headers += [f"{task} {name}" for task, name in metrics]
    notes = ["Mean ± standard error. n/s: experts per sample."]
    if p_values:
        notes.append(
            f"* p < {SIGNIFICANT} against {gate_name(best_existing)}, the best existing gate (one-sided Welch t-test)."
        )
    if any(len(top.selected) == 1 for top in tops.values()):
        notes.append("A single trial has no standard error and is not tested.")
    caption = f"{first.title}: the best {100 * fraction:g}% of trials by validation loss, on the test rows"
    return Table(caption, headers, rows, "\n".join(notes))


def bootstrap_table(records, budgets=None, with_replacement=False):
    """Expected test loss by the number of trials, a column a gate.

    Args:
        records: as in `trials_table`.
        budgets: ints, or None for those of the paper that all gates have trials for.
        with_replacement: bool, see `bootstrap_curve`. Default False.

    Returns:
        `(table, curves)`: a `Table`, and a dict from gate to `BootstrapCurve`.

    Raises:
        ValueError: if a budget is above a gate's number of trials, without replacement.
    """
    first = next(iter(records.values()))
    if budgets is None:
        budgets = default_budgets(min(len(record.trials) for record in records.values()))
    curves = {}
    for gate, record in records.items():
        try:
            curves[gate] = bootstrap_curve(record.trials, budgets, with_replacement)
        except ValueError as error:
            raise ValueError(f"{gate_name(gate)}: {error}") from None
    rows = [
        [str(budget), *(Measured(curve.means[i], curve.errors[i], DIGITS) for curve in curves.values())]
        for i, budget in enumerate(next(iter(curves.values())).budgets)
    ]
    how = "with" if with_replacement else "without"
    caption = f"{first.title}: expected test loss of the best of s random trials, drawn {how} replacement"
    notes = "± jackknife standard error. Best: by validation loss."
    return Table(caption, ["s", *map(gate_name, curves)], rows, notes), curves


def reduction_table(records, with_replacement=False):
    """Tuning-reduction factors: each gate with local search against the same without, COMET and COMET+
    against each existing gate.

    Args:
        records, with_replacement: as in `bootstrap_table`.

    Returns:
        `Table`, or None if there is no such pair.
    """
    rows = []
    for gate, baseline in _pairs(records):
        reduction = tuning_reduction(records[gate].trials, records[baseline].trials, None, with_replacement)
        reached = reduction.budget is not None
        rows.append(
            [
                gate_name(gate),
                gate_name(baseline),
                reduction.baseline_budget,
                f"{reduction.target:.{DIGITS}f}",
                str(reduction.budget) if reached else f"not with {len(records[gate].trials)}",
                f"{reduction.factor:.1f}x" if reached else None,
            ]
        )
    if not rows:
        return None
    headers = ["gate", "baseline", "its trials", "its test loss", "trials needed", "reduction"]
    caption = "Trials needed for the expected test loss of the baseline"
    return Table(caption, headers, rows)


def _pairs(records):
    """Pairs (gate, baseline) to compare, of the gates that there are."""
    for gate in records:
        family = gate.removesuffix("+")
        if gate.endswith("+") and family in records:
            yield gate, family
    for gate in ("comet", "comet+"):
        if gate in records:
            yield from ((gate, existing) for existing in EXISTING_GATES if existing in records)


def _metric(top, task, name):
    figure = top.metric(name, task)
    return Measured(*figure, DIGITS) if figure else None
