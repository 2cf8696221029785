"""Stacked experts."""

from comet_keras.experts.dense import DenseExperts
