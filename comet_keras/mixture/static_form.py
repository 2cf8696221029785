"""Conditional computation in tensors whose sizes do not depend on the data.

Rows are put into blocks of b places. A block belongs to one expert; stacked experts take as many blocks
as their rows fill, listed experts one long block each. Places that no row takes hold zeros that nobody
reads. Nothing is dropped: where blocks do not suffice, `Plan.fits` says so and all is computed densely.
"""

import math

from keras import ops

# The room of a listed expert, over its even share of the rows.
CAPACITY_FACTOR = 2
BLOCK = 32


class Plan:
    """Which place each row takes.

    Args:
        used: bool tensor `(rows, n)`.
        per_row: int, at most so many experts a row.
        experts: `ExpertCalls`.
    """

    def __init__(self, used, per_row, experts):
        n = used.shape[1]
        self.per_row, self.num_rows = per_row, ops.shape(used)[0]
        pairs = self.num_rows * per_row
        counted = ops.cast(used, "int32")
        sizes = ops.sum(counted, axis=0)
        if experts.stacked:
            self.block = _smaller(BLOCK, -(-pairs // n))
            # Each expert's last block may be partly empty.
            self.num_blocks = pairs // self.block + n
            blocks = (sizes + self.block - 1) // self.block
            room = True
        else:
            self.block = _smaller(self.num_rows, -(-CAPACITY_FACTOR * pairs // n))
            self.num_blocks = n
            blocks = ops.ones_like(sizes)
            room = ops.all(sizes <= self.block)
        self.num_places = self.num_blocks * self.block
        ends = ops.cumsum(blocks)
        order = ops.arange(self.num_blocks, dtype="int32")
        self.owners = ops.minimum(ops.searchsorted(ends, order, side="right"), n - 1)
        #: Bool scalar tensor: no row is left out.
        self.fits = ops.logical_and(ops.all(ops.sum(counted, axis=1) <= per_row), room)
        # The experts of each row, and the places they give it.
        rank = ops.cumsum(counted, axis=0) - counted
        place = (ends - blocks) * self.block + rank
        found, self.experts = ops.top_k(ops.cast(used, "float32"), per_row)
        self.found = found > 0
        self.places = ops.take_along_axis(place, self.experts, axis=1)

    def places_or(self, outside):
        """Places `(rows, per_row)`; `outside` where a row has fewer experts."""
        return ops.where(self.found, self.places, outside)


def dispatch_static(experts, rows, weights, plan):
    """As `dispatch_dynamic`, in tensors of fixed size; right where `plan.fits`."""
    total, count, per_row = plan.num_places, plan.num_rows, plan.per_row
    source = ops.broadcast_to(ops.arange(count, dtype="int32")[:, None], (count, per_row))
    # One place more takes what has no place, and one row of zeros fills places that nothing takes.
    taken = ops.scatter_update(
        ops.zeros((total + 1,), dtype="int32") + count,
        ops.reshape(plan.places_or(total), (-1, 1)),
        ops.reshape(source, (-1,)),
    )[:total]
    padded = ops.concatenate([rows, ops.zeros_like(rows[:1])], axis=0)
    blocks = ops.take(padded, taken, axis=0)
    blocks = ops.reshape(blocks, (plan.num_blocks, plan.block, *ops.shape(rows)[1:]))
    outputs = experts.on_blocks(blocks, plan.owners)
    size = math.prod(experts.output_shape)
    picked = ops.take(ops.reshape(outputs, (total, size)), plan.places_or(0), axis=0)
    picked = ops.where(plan.found[..., None], picked, 0)
    # Where the weights stand in the flat tensor: XLA has no gradient of `take_along_axis` in a branch.
    gates, n = weights.shape[1:]
    first = n * ops.reshape(ops.arange(count * gates, dtype="int32"), (count, gates, 1))
    chosen = ops.take(ops.reshape(weights, (-1,)), first + plan.experts[:, None, :])
    combined = ops.matmul(chosen, picked)
    return ops.reshape(combined, (count, gates, *experts.output_shape))


def _smaller(a, b):
    """The minimum, at least 1, of ints, or of int tensors where XLA finds out the batch size."""
    if isinstance(a, int) and isinstance(b, int):
        return max(1, min(a, b))
    return ops.maximum(1, ops.minimum(a, b))
