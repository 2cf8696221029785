"""A search as it is asked for: its folder, its description, and the tuner that runs it."""

import contextlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from comet_keras.tuning.journal import FAILURES, TRIAL_FOLDERS, Journal
from comet_keras.tuning.trials import SEARCH_FILE, TRIALS_FILE, read_search, read_trials, write_search
from comet_keras.validation import one_of, positive_int

TUNERS = ("random", "bayesian", "hyperband")
LOCK_FILE = ".lock"
# What may differ when a search is continued: more trials, data that have moved.
MAY_DIFFER = ("trials", "data_dir")


@dataclass(eq=False)
class Study:
    """What a process needs to take part in a search.

    Args:
        folder: `Path` of the search.
        hypermodel: `TaskHyperModel` or `ModelHyperModel`.
        description: dict for `search.json`.
        tuner: str, one of `TUNERS`.
        trials: int.
        seed: int.
        executions: int.
        epochs: int, at most, of a training.
        verbose: int.

    Raises:
        ValueError: naming the argument that is not allowed.
    """

    folder: Path
    hypermodel: object
    description: dict
    tuner: str = "random"
    trials: int = 500
    seed: int = 0
    executions: int = 1
    epochs: int = 100
    verbose: int = 1

    def __post_init__(self):
        self.folder = Path(self.folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"`folder` is a file: {str(self.folder)!r}")
        one_of("tuner", self.tuner, TUNERS)
        for name in ("trials", "executions", "epochs"):
            setattr(self, name, positive_int(name, getattr(self, name)))
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"`seed` must be an integer of at least 0. Received: seed={self.seed!r}")
        if self.tuner == "bayesian":
            _check_sklearn()
        objective = self.hypermodel.objective.to_dict()
        names = ("tuner", "trials", "seed", "executions", "epochs")
        description = {
            **self.description,
            "objective": objective,
            **{name: getattr(self, name) for name in names},
        }
        self.description = json.loads(json.dumps(description))  # as it will be read

    @contextlib.contextmanager
    def open(self, overwrite=False):
        """Scope in which this process alone runs the search in its folder, begun or continued."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder):
            if overwrite:
                self._remove()
            if (self.folder / SEARCH_FILE).is_file():
                self.check_same()
            write_search(self.folder, self.description)
            yield

    def has_ended(self):
        """Whether the folder holds all trials."""
        return (self.folder / SEARCH_FILE).is_file() and len(read_trials(self.folder)) >= self.trials

    def check_same(self):
        """Raises ValueError if the folder holds a search for something else; names what differs."""
        found = read_search(self.folder)
        names = sorted((set(found) | set(self.description)) - set(MAY_DIFFER))
        differing = [name for name in names if found.get(name) != self.description.get(name)]
        if differing:
            details = "; ".join(
                f"{name} was {found.get(name)!r}, now {self.description.get(name)!r}" for name in differing
            )
            raise ValueError(
                f"The folder {str(self.folder)!r} holds another search: {details}. Take another folder, or overwrite."
            )

    def make_tuner(self, before_request=None):
        """The `SearchTuner`, with the state that the folder holds."""
        from comet_keras.tuning.oracles import make_oracle
        from comet_keras.tuning.tuner import SearchTuner

        objective = self.hypermodel.objective
        journal = Journal(self.folder, objective, self.trials, self.verbose)
        oracle = make_oracle(self.tuner, objective, self.trials, self.seed, self.epochs, journal)
        return SearchTuner(oracle, self.hypermodel, self.folder, self.executions, before_request)

    def check_hopeful(self, journal):
        """Raises RuntimeError if the search ended because its first trials failed alike."""
        if journal.hopeless:
            raise RuntimeError(
                f"The first {FAILURES} trials failed with the same reason, and the search was stopped: "
                f"{journal.session[0].reason} (see error.txt in their folders, {self.folder / TRIAL_FOLDERS})"
            )

    def _remove(self):
        shutil.rmtree(self.folder / TRIAL_FOLDERS, ignore_errors=True)
        for name in (SEARCH_FILE, TRIALS_FILE):
            (self.folder / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder):
    """Holds the lock of a folder, which ends with the process at the latest."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / LOCK_FILE, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"Another process is searching in {str(folder)!r}.") from None
        yield


def _check_sklearn():
    from importlib.util import find_spec

    if find_spec("sklearn") is None:
        raise ValueError("tuner='bayesian' needs scikit-learn: pip install 'comet_keras[tuner]'")
