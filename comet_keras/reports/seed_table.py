"""Table 1 of the COMET paper: gates without and with local search over many seeds."""

import json
import math
from pathlib import Path

from comet_keras.reports import paper_numbers as paper
from comet_keras.reports.searches import GATE_ORDER, gate_name
from comet_keras.reports.significance import mean_and_error, p_value_below
from comet_keras.reports.table_formats import Measured, Table
from comet_keras.reports.top_fraction import SIGNIFICANT

STARTS = {"soft": "Soft start", "warm": "Warm start", "cold": "Cold start"}


def seed_table(runs):
    """Table 1 in the paper's layout, with columns of one's own beside the paper's.

    An asterisk marks p < 0.05 in the one-sided unpaired t-test against the same gate without local search,
    in the same column; the better of the two is set in bold.

    Args:
        runs: dict from the title of a column to a dict from gate string to test losses, one a seed.

    Returns:
        `comet_keras.reports.table_formats.Table`.

    Raises:
        ValueError: if there are no runs, or a loss is not finite.

    Example:

    >>> from comet_keras.reports import seed_table
    >>> table = seed_table({"Ours": {"topk": [0.53, 0.54], "topk+": [0.51, 0.52]}})
    >>> [str(cell) for cell in table.rows[3]]
    ['Trainable', 'Non-differentiable', 'Top-k+', '51.500 ± 0.500', '*53.140 ± 0.031']
    """
    if not any(runs.values()):
        raise ValueError("`runs` must hold at least one run.")
    searched = {gate for losses in runs.values() for gate in losses}
    rows = []
    for gate in GATE_ORDER:
        if gate in searched or gate in paper.TABLE_1:
            family = gate.removesuffix("+")
            strategy = "Pre-assigned" if family == "hash" else "Trainable"
            smoothness = {"hash": "-", "topk": "Non-differentiable"}.get(family, "Differentiable")
            cells = [_cell(losses, gate) for losses in runs.values()]
            rows.append([strategy, smoothness, gate_name(gate), *cells, _printed(gate)])
    counts = sorted({len(values) for losses in runs.values() for values in losses.values()})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return Table(
        "Table 1 of the COMET paper: test loss (× 0.01) without and with local search. * p < 0.05 against "
        "the same gate without local search, one-sided unpaired t-test.",
        ["Strategy", "Smoothness", "Gate", *runs, "Paper"],
        rows,
        f"Mean ± standard error over seeds: {seeds} of ours, 100 of the paper's.",
    )


def read_seed_runs(path):
    """Runs by seed from a file of JSON lines with `gate`, `start` (`soft`, `warm`, `cold`, `none`) and `loss`.

    Such a file is what `benchmarks/table1.py` writes. Gates without local search, which have no start,
    are in every column.

    Returns:
        Dict from `"Soft start"`, `"Warm start"` and `"Cold start"`, as far as there are runs, to a dict from gate to a
        list of losses: what `seed_table` takes.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a line is damaged, there is no run, or runs differ in rows or epochs.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r} of runs.")
    losses, lengths = {}, set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        try:
            run = json.loads(line)
            gate, start, loss = run["gate"], run["start"], float(run["loss"])
            lengths.add((run.get("rows"), run.get("epochs")))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number} is no run: {error!r}") from None
        if gate not in GATE_ORDER or start not in (*STARTS, "none") or not math.isfinite(loss):
            raise ValueError(f"{path}, line {number} is no run: gate={gate!r}, start={start!r}, loss={loss}")
        losses.setdefault(start, {}).setdefault(gate, []).append(loss)
    if not losses:
        raise ValueError(f"{path} holds no run.")
    if len(lengths) > 1:
        raise ValueError(f"{path} holds runs of different (rows, epochs): {sorted(lengths, key=str)}.")
    without = losses.pop("none", {})
    columns = {title: {**without, **losses[start]} for start, title in STARTS.items() if start in losses}
    return columns or {"Ours": without}


def _cell(losses, gate):
    if gate not in losses:
        return None
    mean, error = mean_and_error(losses[gate])
    family = gate.removesuffix("+")
    other = family if gate.endswith("+") else f"{gate}+"
    significant = (
        gate.endswith("+") and family in losses and p_value_below(losses[gate], losses[family]) < SIGNIFICANT
    )
    best = other in losses and mean < mean_and_error(losses[other])[0]
    return Measured(100 * mean, 100 * error, 3, significant, best)


def _printed(gate):
    if gate not in paper.TABLE_1:
        return None
    significant = gate in paper.TABLE_1_SIGNIFICANT
    return Measured(*paper.TABLE_1[gate], 3, significant, gate in paper.TABLE_1_SIGNIFICANT)
