"""Multi-task models of the COMET paper, gates by name, and what compiles and evaluates them."""

from comet_keras.models.evaluation import evaluate_exactly, evaluate_task
from comet_keras.models.gate_strings import (
    GATES,
    make_gate,
    make_permutation,
    wants_permutation,
)
from comet_keras.models.losses import compile_for
from comet_keras.models.movielens import movielens
from comet_keras.models.multi_digits import multi_digits

__all__ = [
    "GATES",
    "compile_for",
    "evaluate_exactly",
    "evaluate_task",
    "make_gate",
    "make_permutation",
    "movielens",
    "multi_digits",
    "wants_permutation",
]
