"""What a search has found."""

from comet_keras.tuning.journal import trial_folder
from comet_keras.tuning.objectives import Objective
from comet_keras.tuning.trials import read_search, read_trials


class SearchResults:
    """The trials of a search's folder, finished or not.

    Args:
        folder: the search's folder.

    Attributes:
        folder: as given.
        description: dict, what the search was asked for.
        objective: `Objective`, what trials are ranked by.
        trials: list of `Trial`, in the order of their ends.

    Raises:
        FileNotFoundError: if the folder holds no search.

    Example:

    ```python
    from comet_keras.tuning import search_model

    def build(hp):
        model = keras.Sequential([keras.layers.Dense(hp.Int("units", 1, 8)), keras.layers.Dense(1)])
        model.compile("adam", "mse")
        return model

    data = [(np.ones((4, 2)), np.ones(4))] * 2
    results = search_model(build, data, trials=2, folder="runs/try", epochs=1, verbose=0)
    best = results.best()
    model = results.best_model()
    ```
    """

    def __init__(self, folder, load=None):
        self.folder = folder
        self.description = read_search(folder)
        self.objective = Objective(**self.description["objective"])
        self.trials = read_trials(folder)
        self._load = load

    def best_trials(self, count=10):
        """The best completed trials, best first."""
        completed = [trial for trial in self.trials if trial.completed]
        sign = -1 if self.objective.direction == "max" else 1
        return sorted(completed, key=lambda trial: sign * trial.score)[:count]

    def best(self):
        """The best completed `Trial`.

        Raises:
            ValueError: if there is none.
        """
        best = self.best_trials(1)
        if not best:
            raise ValueError(f"No trial of the search in {str(self.folder)!r} was completed.")
        return best[0]

    def best_model(self):
        """The best trial's trained `keras.Model`, of its best execution.

        That of a function of the user's is built by this function: ask the results that `search_model`
        returned, which it also does for a search that has ended.

        Raises:
            ValueError: if no trial was completed, or the model cannot be built.
        """
        import keras

        path = trial_folder(self.folder, self.best().trial_id) / "model.keras"
        if path.is_file():
            return keras.saving.load_model(path)
        if self._load is None:
            raise ValueError(
                f"Only weights are kept in {str(path.parent)!r}: call `search_model` with the same arguments, "
                "which runs no trial again, and ask what it returns."
            )
        return self._load(self.best().trial_id)

    def __repr__(self):
        return f"SearchResults({str(self.folder)!r}, {len(self.trials)} trials)"
