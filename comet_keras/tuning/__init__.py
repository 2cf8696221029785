"""KerasTuner searches over the paper's models, and their results.

KerasTuner itself (`pip install 'comet_keras[tuner]'`) is loaded only once a search begins.
"""

from comet_keras.tuning.results import SearchResults
from comet_keras.tuning.search import search, search_model
from comet_keras.tuning.spaces import SPACE_TASKS, Choice, Fixed, LogUniform, space
from comet_keras.tuning.trials import Trial, read_search, read_trials

__all__ = [
    "SPACE_TASKS", "Choice", "Fixed", "LogUniform", "ModelHyperModel", "SearchResults", "TaskHyperModel", "Trial",
    "read_search", "read_trials", "search", "search_model", "space",
]  # fmt: skip


def __getattr__(name):
    # These are KerasTuner's classes, which takes seconds to load.
    if name == "TaskHyperModel":
        from comet_keras.tuning.hypermodel import TaskHyperModel

        return TaskHyperModel
    if name == "ModelHyperModel":
        from comet_keras.tuning.model_hypermodel import ModelHyperModel

        return ModelHyperModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
