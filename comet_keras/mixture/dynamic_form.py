import math

from keras import ops


def dispatch_dynamic(experts, rows, weights, used):
    """Runs each expert on the rows that give it weight, in tensors of the size this takes.

    Args:
        experts: `ExpertCalls`.
        rows: tensor `(rows, ...)`.
        weights: tensor `(rows, gates, n)`.
        used: bool tensor `(rows, n)`, whether any gate gives weight.

    Returns:
        Combined outputs `(rows, gates, *rest)`.
    """
    count, (gates, n) = ops.shape(used)[0], weights.shape[1:]
    # The pairs of expert and row with weight, expert by expert.
    expert, row = ops.nonzero(ops.transpose(used))
    if row.shape[0] == 0:  # of which PyTorch makes no segments
        return ops.zeros((count, gates, *experts.output_shape), dtype=weights.dtype)
    sizes = ops.sum(ops.cast(used, "int32"), axis=0)
    outputs = experts.on_groups(ops.take(rows, row, axis=0), sizes)
    # Where weights of the pairs stand in the flat tensor, a column for each gate.
    places = (row * (gates * n) + expert)[:, None] + n * ops.arange(gates, dtype="int32")
    pair_weights = ops.take(ops.reshape(weights, (-1,)), places)
    flat = ops.reshape(outputs, (ops.shape(outputs)[0], math.prod(experts.output_shape)))
    combined = [
        ops.segment_sum(flat * pair_weights[:, i : i + 1], row, num_segments=count)
        for i in range(gates)
    ]
    return ops.reshape(ops.stack(combined, axis=1), (count, gates, *experts.output_shape))

