"""Routing statistics: of weights, and of a model over a data set."""

from comet_keras.metrics.model import gates_of, routing_statistics
from comet_keras.metrics.routing import (
    expert_usage,
    expert_usage_entropy,
    experts_per_sample,
    gate_entropy,
    largest_expert_share,
    mutual_information,
)
