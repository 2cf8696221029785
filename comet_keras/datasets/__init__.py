"""Data sets of the COMET paper. Each is a `Dataset` of three `Split`s."""

from comet_keras.datasets.books import books
from comet_keras.datasets.cache import load, prepare
from comet_keras.datasets.celeb_a import celeb_a
from comet_keras.datasets.dataset import Dataset, Split
from comet_keras.datasets.digits import digits
from comet_keras.datasets.jester import jester
from comet_keras.datasets.missing_labels import mask_missing_labels
from comet_keras.datasets.movielens import movielens
from comet_keras.datasets.multi_digits import multi_digits
from comet_keras.datasets.multi_mnist import multi_fashion_mnist, multi_mnist
from comet_keras.datasets.overlay import overlay
from comet_keras.datasets.registry import DATASETS, names

__all__ = [
    "DATASETS",
    "Dataset",
    "Split",
    "books",
    "celeb_a",
    "digits",
    "jester",
    "load",
    "mask_missing_labels",
    "movielens",
    "multi_digits",
    "multi_fashion_mnist",
    "multi_mnist",
    "names",
    "overlay",
    "prepare",
]
