"""comet_keras: sparse mixtures of experts for Keras."""

import importlib

from comet_keras import metrics, regularizers
from comet_keras.callbacks import HardenPermutation, RoutingMonitor
from comet_keras.experts import DenseExperts
from comet_keras.gates import (
    COMETGate,
    DSelectKGate,
    Gate,
    HashGate,
    SoftmaxGate,
    TopKGate,
)
from comet_keras.mixture import MixtureOfExperts, WeightedSum
from comet_keras.permutation import Permutation

__version__ = "0.1.0"

_ON_DEMAND = ("datasets", "models", "reports", "train")


def __getattr__(name):
    if name in _ON_DEMAND:
        return importlib.import_module(f"comet_keras.{name}")
    raise AttributeError(f"module 'comet_keras' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_ON_DEMAND])
