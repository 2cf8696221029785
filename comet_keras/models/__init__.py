"""Multi-task models of the COMET paper, gates by name, and what compiles and evaluates them."""

from comet_keras.models.books import books
from comet_keras.models.build import build
from comet_keras.models.celeb_a import celeb_a
from comet_keras.models.digits import digits
from comet_keras.models.evaluation import evaluate_exactly, evaluate_task
from comet_keras.models.gate_strings import (
    GATES,
    make_gate,
    make_permutation,
    wants_permutation,
)
from comet_keras.models.jester import jester
from comet_keras.models.losses import compile_for
from comet_keras.models.movielens import movielens
from comet_keras.models.multi_digits import multi_digits
from comet_keras.models.multi_mnist import multi_fashion_mnist, multi_mnist
from comet_keras.models.multi_task import MultiTaskModel

__all__ = [
    "GATES",
    "MultiTaskModel",
    "books",
    "build",
    "celeb_a",
    "compile_for",
    "digits",
    "evaluate_exactly",
    "evaluate_task",
    "jester",
    "make_gate",
    "make_permutation",
    "movielens",
    "multi_digits",
    "multi_fashion_mnist",
    "multi_mnist",
    "wants_permutation",
]
