"""Routing statistics gathered inside layers, in non-trainable weights."""

import contextlib

import numpy as np
from keras import ops

from comet_keras.metrics.routing import SUPPORT_THRESHOLD
from comet_keras.reductions import entropy, positions, sum_over_positions

# Of the process, not of the thread: tf.distribute traces each replica in a thread of its own.
_scopes = []


@contextlib.contextmanager
def gathering():
    """Scope in which functions traced for inference gather statistics too.

    Training steps always gather. A model called for prediction or exported changes no
    state, so evaluation gathers only when its function is traced within this scope.
    """
    scope = object()
    _scopes.append(scope)
    try:
        yield
    finally:
        _scopes.remove(scope)


def is_gathering(training):
    """Whether a call with this `training` argument gathers statistics."""
    return bool(training) or bool(_scopes)


class RoutingStatistics:
    """Running means over the positions seen since the last reset.

    Means rather than sums, so that float32 stays accurate over an epoch of any length.

    Args:
        layer: the layer that owns the weights.
        num_experts: int, n.
        penalties: names of the loss terms whose values are kept as well.
    """

    def __init__(self, layer, num_experts, penalties=()):
        self.num_experts = num_experts
        self.penalty_names = tuple(penalties)

        def weight(name, shape):
            # Replicas of a distributed model see equal parts of a batch: their mean is
            # the statistic of the whole.
            return layer.add_weight(
                name=name,
                shape=shape,
                dtype="float32",
                initializer="zeros",
                trainable=False,
                autocast=False,
                aggregation="mean",
            )

        self.count = weight("routed_positions", ())
        # Experts per sample and entropy in nats.
        self.means = weight("routing_means", (2,))
        self.usage = weight("expert_usage", (num_experts,))
        self.steps = weight("penalty_steps", ()) if self.penalty_names else None
        self.penalties = (
            weight("penalty_means", (len(self.penalty_names),)) if self.penalty_names else None
        )

    def observe(self, weights, mask=None):
        """Takes in `weights (..., n)`, without the positions that `mask (...)` leaves out."""
        weights = ops.stop_gradient(ops.cast(weights, "float32"))
        like = weights[..., 0]
        positions_seen = ops.sum(positions(mask, like))
        support = ops.sum(ops.cast(weights >= SUPPORT_THRESHOLD, "float32"), axis=-1)
        values = ops.stack([support, entropy(weights)], axis=-1)
        count = self.count + positions_seen
        safe = ops.maximum(count, 1)
        share = positions_seen / safe
        per_position = 1 / safe
        self.means.assign(self.means * (1 - share) + sum_over_positions(values, mask) * per_position)
        self.usage.assign(self.usage * (1 - share) + sum_over_positions(weights, mask) * per_position)
        self.count.assign(count)

    def observe_penalties(self, values):
        """Takes in this step's loss terms, in the order of the names."""
        values = ops.stop_gradient(ops.stack([ops.cast(value, "float32") for value in values]))
        steps = self.steps + 1
        self.penalties.assign(self.penalties + (values - self.penalties) / steps)
        self.steps.assign(steps)

    @property
    def variables(self):
        found = [self.count, self.means, self.usage, self.steps, self.penalties]
        return [variable for variable in found if variable is not None]

    def reset(self):
        for variable in self.variables:
            variable.assign(np.zeros(variable.shape, "float32"))

    def read(self):
        """The figures as a dict of floats, with `expert_usage` as a numpy array `(n,)`.

        Keys: `experts_per_sample`, `gate_entropy` (H_s) and `expert_usage_entropy` (H_u)
        in bits, `largest_expert_share`, `<name>_loss` for each term; empty if nothing was
        gathered.
        """
        if not float(ops.convert_to_numpy(self.count)) > 0:
            return {}
        support, nats = (float(v) for v in ops.convert_to_numpy(self.means))
        usage = np.asarray(ops.convert_to_numpy(self.usage), "float64")
        used = usage[usage > 0]
        figures = {
            "experts_per_sample": support,
            "gate_entropy": nats / float(np.log(2)),
            "expert_usage_entropy": float(-np.sum(used * np.log2(used))),
            "largest_expert_share": float(usage.max()),
            "expert_usage": usage,
        }
        if self.penalties is not None and float(ops.convert_to_numpy(self.steps)) > 0:
            for name, value in zip(self.penalty_names, ops.convert_to_numpy(self.penalties)):
                figures[f"{name}_loss"] = float(value)
        return figures
