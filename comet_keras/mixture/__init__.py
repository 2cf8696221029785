"""The mixture, and the sum for expert outputs that were computed elsewhere."""

from comet_keras.mixture.mixture import MixtureOfExperts
from comet_keras.mixture.weighted_sum import WeightedSum
