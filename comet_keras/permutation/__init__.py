"""Local search by a learned permutation of experts."""

from comet_keras.permutation.permutation import Permutation
