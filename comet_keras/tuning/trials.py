"""The trials of a search, as files: one JSON line each, beside one file that describes the search.

A search's folder holds `search.json`, written before the first trial, and `trials.jsonl`, to which each
trial is added when it ends. Neither needs Keras to be read.
"""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from comet_keras.files import write_whole

SEARCH_FILE, TRIALS_FILE = "search.json", "trials.jsonl"
COMPLETED, FAILED = "completed", "failed"


@dataclass(frozen=True)
class Trial:
    """One trial that has ended.

    Attributes:
        trial_id: str, unique within the search.
        status: `"completed"` or `"failed"`.
        hyperparameters: dict from name to a JSON value.
        validation_loss: float or None, of the best epoch; the mean where a trial has several executions.
            What trials are ranked by. None where the trial failed.
        test_loss: float or None, of the same weights, without regularization terms.
        tasks: dict from task to its test figures (`loss`, `rows`, and `auc`, `mse` or `accuracy`).
        experts_per_sample: dict from gate to its mean number of experts a test row.
        epochs: int, epochs run, of all executions.
        seconds: float, wall time.
        executions: int, trainings that the figures are a mean of.
        reason: str or None, why the trial failed.
        score: float or None, value of the search's objective, which is the validation loss unless the
            search was given another.
    """

    trial_id: str
    status: str
    hyperparameters: dict
    validation_loss: float | None = None
    test_loss: float | None = None
    tasks: dict = field(default_factory=dict)
    experts_per_sample: dict = field(default_factory=dict)
    epochs: int = 0
    seconds: float = 0.0
    executions: int = 1
    reason: str | None = None
    score: float | None = None

    @property
    def completed(self):
        return self.status == COMPLETED

    def to_dict(self):
        return asdict(self)


def write_search(folder, description):
    """Writes `search.json`: a dict with at least `task`, `gate` and `task_weights`."""
    path = Path(folder) / SEARCH_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(description, indent=2, allow_nan=False) + "\n"
    write_whole(path, lambda partial: partial.write_text(text))


def read_search(folder):
    """What a search was asked for, a dict.

    Raises:
        FileNotFoundError: if the folder holds no search.
        ValueError: if its file is damaged.
    """
    path = Path(folder) / SEARCH_FILE
    if not path.is_file():
        raise FileNotFoundError(f"There is no search in {str(folder)!r}: it has no {SEARCH_FILE}.")
    try:
        description = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not isinstance(description, dict):
        raise ValueError(f"{path} is damaged: it holds no object.")
    return description


def append_trial(folder, trial):
    """Adds a trial as one line in one write; a last line without an end, as a kill leaves it, is cut off first.

    One process writes a search's trials: its own, or the chief of its workers.
    """
    line = json.dumps(trial.to_dict(), allow_nan=False) + "\n"
    with open(Path(folder) / TRIALS_FILE, "a+b", buffering=0) as file:
        file.truncate(_end_of_last_line(file))
        file.write(line.encode())


def _end_of_last_line(file, block=4096):
    """Bytes of a file up to and with its last newline."""
    end = file.seek(0, 2)
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def read_trials(folder):
    """The trials of a search that have ended, in the order of their ends.

    A trial that was run again (after a kill) counts once, as it ended last. A last line without an end,
    as a kill leaves it, is left out.

    Args:
        folder: the search's folder.

    Returns:
        list of `Trial`.

    Raises:
        FileNotFoundError: if the folder holds no search.
        ValueError: naming file and line, if a line is damaged.
    """
    read_search(folder)
    path = Path(folder) / TRIALS_FILE
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    names = {item.name for item in fields(Trial)}
    trials = {}
    for number, line in enumerate(lines, 1):
        try:
            values = json.loads(line)
            trial = Trial(**{name: value for name, value in values.items() if name in names})
            _check_kinds(trial)
        except (json.JSONDecodeError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}, line {number} is no trial: {error}") from None
        trials.pop(trial.trial_id, None)
        trials[trial.trial_id] = trial
    return list(trials.values())


def _check_kinds(trial):
    """Raises TypeError where a damaged file would only show later."""
    for name in ("hyperparameters", "tasks", "experts_per_sample"):
        if not isinstance(getattr(trial, name), dict):
            raise TypeError(f"{name} is no object")
    for name in ("validation_loss", "test_loss", "score", "epochs", "seconds"):
        value = getattr(trial, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise TypeError(f"{name} is no number")
