"""Which rows go to which expert.

The one contract: `dispatch(experts, inputs, weights)` returns the experts' outputs combined by the
weights. It is the only place that calls experts.
"""

import math

from keras import ops


def dispatch_dense(experts, inputs, weights):
    """Runs every expert on every row.

    Args:
        experts: function from inputs `(*lead, ...)` to the outputs of all n experts `(*lead, n, *rest)`.
        inputs: tensor `(*lead, ...)`, or what the experts take.
        weights: tensor `(*lead, gates, n)`, the weights of every gate.

    Returns:
        Tuple of the combined outputs `(*lead, gates, *rest)` and the experts' outputs
        `(*lead, n, *rest)`.
    """
    outputs = experts(inputs)
    return combine(outputs, weights), outputs


def combine(outputs, weights):
    """Sums expert outputs `(*lead, n, *rest)` by weights `(*lead, gates, n)`: `(*lead, gates, *rest)`."""
    lead = len(weights.shape) - 2
    rest = ops.shape(outputs)[lead + 1 :]
    if len(rest) != 1:
        # No -1, which has no answer for an empty batch.
        size = math.prod(rest)
        outputs = ops.reshape(outputs, (*ops.shape(weights)[:-2], outputs.shape[lead], size))
    combined = ops.matmul(weights, outputs)
    if len(rest) != 1:
        combined = ops.reshape(combined, (*ops.shape(combined)[:-1], *rest))
    return combined
