import math

from keras import ops


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
