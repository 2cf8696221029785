"""Searches as reports read them: one gate on one task each."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from comet_keras.tuning.trials import SEARCH_FILE, read_search, read_trials

GATE_NAMES = {  # as the paper writes them
    "softmax": "Softmax",
    "hash": "Hash-r",
    "topk": "Top-k",
    "dselect_k": "DSelect-k",
    "comet": "COMET",
}
TASK_NAMES = {
    "books": "Books",
    "movielens": "MovieLens",
    "jester": "Jester",
    "multi_fashion_mnist": "MultiFashionMNIST",
    "celeb_a": "CelebA",
    "digits": "Digits",
    "multi_mnist": "MultiMNIST",
    "multi_digits": "MultiDigits",
}
# The order of the paper's tables: each gate before the same with local search.
GATE_ORDER = tuple(spec for family in GATE_NAMES for spec in (family, f"{family}+"))
EXISTING_GATES = ("softmax", "hash", "topk", "dselect_k")


@dataclass(frozen=True)
class SearchRecord:
    """One search: what it was asked for, and its trials that have ended.

    Attributes:
        task: str, such as `"movielens"`.
        gate: str, a gate string such as `"comet+"`; any name in a search of one's own model.
        task_weights: dict from task to the weight of its loss.
        trials: list of `comet_keras.tuning.Trial`, at least one of them with losses.
        num_experts: int or None, as the search or its trials name it.
        rows: int or None, training rows if not all.
        folder: str, where it was read; empty if nowhere.

    Example:

    >>> from comet_keras.reports import SearchRecord
    >>> from comet_keras.tuning import Trial
    >>> trial = Trial("0", "completed", {}, validation_loss=0.5, test_loss=0.6)
    >>> SearchRecord("books", "topk+", {"read": 0.9, "rating": 0.1}, [trial]).gate_name
    'Top-k+'
    """

    task: str
    gate: str
    task_weights: dict
    trials: list
    num_experts: int | None = None
    rows: int | None = None
    folder: str = ""

    @property
    def gate_name(self):
        """The gate as the paper writes it."""
        return gate_name(self.gate)

    @property
    def setting(self):
        """What searches must share to be compared: task, task weights and training rows."""
        return self.task, tuple(sorted(self.task_weights.items())), self.rows

    @property
    def alpha(self):
        """Weight of the yes-or-no task beside one of regression (the paper's alpha), or None."""
        found = {metric: task for task, metric in self.metrics.items()}
        if len(self.task_weights) != 2 or set(found) != {"auc", "mse"}:
            return None
        return self.task_weights.get(found["auc"])

    @property
    def metrics(self):
        """Dict from task to its metric beside the loss: `"auc"`, `"mse"` or `"accuracy"`."""
        tasks = next(trial.tasks for trial in self.trials if has_losses(trial))
        return {
            task: name for task, figures in tasks.items() for name in ("accuracy", "auc", "mse") if name in figures
        }

    @property
    def title(self):
        """Task and, with two losses in the paper's way, alpha."""
        name = TASK_NAMES.get(self.task, self.task)
        return name if self.alpha is None else f"{name} (alpha = {self.alpha:g})"


def gate_name(gate):
    """A gate string as the paper writes the gate.

    Example:

    >>> from comet_keras.reports.searches import gate_name
    >>> gate_name("hash+")
    'Hash-r+'
    """
    family = gate.removesuffix("+")
    return GATE_NAMES.get(family, family) + gate[len(family) :]


def has_losses(trial):
    """Whether a trial was completed and can be ranked."""
    losses = trial.validation_loss, trial.test_loss
    return trial.completed and None not in losses and all(map(math.isfinite, losses))


def read_searches(folders):
    """Reads the searches of several folders, in the order of gates in the paper's tables.

    Args:
        folders: paths, each of one search (`comet-keras search`); trials still running are left out.

    Returns:
        List of `SearchRecord`.

    Raises:
        FileNotFoundError: if a folder holds no search.
        ValueError: if a search lacks its task, gate or task weights, has no completed trial with a
            test loss, or two searches are of one gate and the same setting.
    """
    records = [_read(folder) for folder in folders]
    counts = Counter((record.setting, record.gate) for record in records)
    for record in records:
        if counts[record.setting, record.gate] > 1:
            same = [r.folder for r in records if (r.setting, r.gate) == (record.setting, record.gate)]
            raise ValueError(f"Several searches of {record.gate} on {record.title}: {', '.join(same)}.")
    return sorted(records, key=lambda record: _place(record.gate))


def read_comparable_searches(folders):
    """Reads searches of one task with the same task weights and training rows.

    Returns:
        Dict from gate to its `SearchRecord`, in the order of the paper's tables.

    Raises:
        FileNotFoundError, ValueError: as `read_searches`, and if task, weights or rows differ.
    """
    records = read_searches(folders)
    if not records:
        raise ValueError("At least one folder of a search is needed.")
    first = records[0]
    for other in records[1:]:
        if other.setting != first.setting:
            raise ValueError(
                "Searches of different tasks, task weights or training rows cannot be compared: "
                f"{first.folder} is of {_setting(first)}, {other.folder} of {_setting(other)}."
            )
    return {record.gate: record for record in records}


def _read(folder):
    description = read_search(folder)
    path = Path(folder) / SEARCH_FILE
    missing = [name for name in ("task", "gate", "task_weights") if name not in description]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}.")
    if not isinstance(description["task_weights"], dict):
        raise ValueError(f"{path} is damaged: task_weights is no object.")
    trials = read_trials(folder)
    done = [trial for trial in trials if has_losses(trial)]
    if not done:
        raise ValueError(
            f"The search in {str(folder)!r} has no completed trial with a test loss ({len(trials)} have ended)."
        )
    experts = description.get("num_experts", done[0].hyperparameters.get("num_experts"))
    return SearchRecord(
        task=description["task"],
        gate=description["gate"],
        task_weights=description["task_weights"],
        trials=trials,
        num_experts=experts,
        rows=description.get("rows"),
        folder=str(folder),
    )


def _place(gate):
    return GATE_ORDER.index(gate) if gate in GATE_ORDER else len(GATE_ORDER)


def _setting(record):
    weights = " ".join(f"{name}={weight:g}" for name, weight in record.task_weights.items())
    rows = "all rows" if record.rows is None else f"{record.rows} rows"
    return f"{record.task} with weights {weights} and {rows}"
