"""The book of a search: its trials as they end, and a line of progress for each."""

import json
import time
from pathlib import Path

from comet_keras.files import write_whole
from comet_keras.tuning.trials import FAILED, Trial, append_trial, read_search, read_trials

TRIAL_FOLDERS, RECORD_FILE = "trials", "record.json"
# This many trials that fail alike, before any other has ended, end the search: it is not the hyperparameters.
FAILURES = 3


def trial_folder(folder, trial_id):
    """The folder of a trial, within its search's."""
    return Path(folder) / TRIAL_FOLDERS / f"trial_{trial_id}"


def write_record(folder, trial):
    """Writes what a trial reached into its folder: from then on it has ended, whoever is killed."""
    text = json.dumps(trial.to_dict(), allow_nan=False) + "\n"
    write_whole(trial_folder(folder, trial.trial_id) / RECORD_FILE, lambda path: path.write_text(text))


def read_record(folder, trial_id):
    """The `Trial` that `write_record` wrote, or None."""
    path = trial_folder(folder, trial_id) / RECORD_FILE
    return Trial(**json.loads(path.read_text())) if path.is_file() else None


class Journal:
    """Keeps `trials.jsonl`, the best trial's model, and the progress that is shown.

    Args:
        folder: the search's folder.
        objective: `Objective`.
        total: int, trials of the whole search.
        verbose: int, 0 for silence.

    Attributes:
        trials: dict from id to `Trial`, of those that have ended.
        session: list of `Trial`, those that ended since this process began.
    """

    def __init__(self, folder, objective, total, verbose=1):
        self.folder, self.objective, self.total, self.verbose = Path(folder), objective, total, verbose
        self.trials = {trial.trial_id: trial for trial in read_trials(folder)}
        self.session = []
        space = read_search(folder).get("space", {})
        self._fixed = {name for name, parameter in space.items() if "fixed" in parameter}
        self._started = time.monotonic()

    @property
    def best(self):
        """The best completed `Trial`, or None."""
        best = None
        for trial in self.trials.values():
            if trial.completed and self.objective.better(trial.score, best and best.score):
                best = trial
        return best

    @property
    def hopeless(self):
        """Whether the first trials of this process all failed with the same reason."""
        first = self.session[:FAILURES]
        return len(first) == FAILURES and len({trial.reason for trial in first}) == 1 and not first[0].completed

    def end(self, trial_id, message=None):
        """Takes up the record of a trial that has ended. One that is known already is left as it is."""
        if trial_id in self.trials:
            return
        trial = read_record(self.folder, trial_id)
        if trial is None:
            trial = Trial(trial_id, FAILED, {}, reason=last_line(message) or "It left no record.")
        former = self.best
        append_trial(self.folder, trial)
        self.trials[trial_id] = trial
        self.session.append(trial)
        self._keep_best(former, trial)
        if self.verbose:
            print(self._line(trial), flush=True)

    def _keep_best(self, former, trial):
        """Of the models on disk the best trial's stays."""
        loser = former if self.best is trial else trial
        for path in trial_folder(self.folder, loser.trial_id).glob("model.*") if loser else ():
            path.unlink()

    def _line(self, trial):
        done = len(self.trials)
        parts = [f"trial {done:>{len(str(self.total))}}/{self.total}"]
        if trial.completed:
            parts.append(f"{self.objective.name} {trial.score:.4f}")
            if trial.test_loss is not None:
                parts.append(f"test loss {trial.test_loss:.4f}")
        else:
            parts.append(f"failed: {shortened(trial.reason, 60)}")
        searched = {name: value for name, value in trial.hyperparameters.items() if name not in self._fixed}
        parts.extend(f"{name} {_short(value)}" for name, value in searched.items())
        if self.best is not None:
            parts.append(f"best {self.best.score:.4f}")
        parts.append(duration(trial.seconds))
        left = (time.monotonic() - self._started) / len(self.session) * (self.total - done)
        return "  ".join([*parts, f"{duration(left)} left" if left > 0 else "done"])


def duration(seconds):
    """Seconds as a person reads them.

    Example:

    >>> from comet_keras.tuning.journal import duration
    >>> duration(4.31), duration(340), duration(8000)
    ('4.3 s', '6 min', '2 h 13 min')
    """
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def last_line(message):
    """The last line of a traceback, which names the error."""
    lines = (message or "").strip().splitlines()
    return lines[-1] if lines else ""


def shortened(text, width):
    """A text on one line, of at most `width` characters."""
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _short(value):
    return f"{value:.3g}" if isinstance(value, float) else str(value)
