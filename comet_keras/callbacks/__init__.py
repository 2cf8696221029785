"""Callbacks: the stages of local search, routing statistics in the logs, and checkpoints to resume from."""

from comet_keras.callbacks.checkpoint import TrainingCheckpoint
from comet_keras.callbacks.harden import HardenPermutation
from comet_keras.callbacks.monitor import RoutingMonitor
from comet_keras.callbacks.permutation_history import PermutationHistory
from comet_keras.callbacks.training_log import TrainingLog
