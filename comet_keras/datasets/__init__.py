"""Data sets of the COMET paper. Each is a `Dataset` of three `Split`s."""

from comet_keras.datasets.dataset import Dataset, Split
from comet_keras.datasets.missing_labels import mask_missing_labels
from comet_keras.datasets.movielens import movielens
from comet_keras.datasets.multi_digits import multi_digits
from comet_keras.datasets.overlay import overlay

__all__ = ["Dataset", "Split", "mask_missing_labels", "movielens", "multi_digits", "overlay"]
