"""Callbacks: the stages of local search, and routing statistics in the logs."""

from comet_keras.callbacks.harden import HardenPermutation
from comet_keras.callbacks.monitor import RoutingMonitor
