"""KerasTuner searches over the paper's models, and their results."""

from comet_keras.tuning.trials import Trial, read_search, read_trials

__all__ = ["Trial", "read_search", "read_trials"]
