"""Sums and means over positions, without the masked ones."""

from keras import ops


def positions(mask, like):
    """`mask` as a float tensor of ones and zeros with a value for each position.

    Args:
        mask: bool tensor `(...)` or None.
        like: tensor `(...)` of the positions, whose shape and dtype the result has. It may have further
            axes, such as one value a tree: `(..., k)`.
    """
    if mask is None:
        return ops.ones_like(like)
    mask = ops.convert_to_tensor(mask)
    mask = ops.reshape(mask, (*ops.shape(mask), *[1] * (len(like.shape) - len(mask.shape))))
    return ops.cast(ops.broadcast_to(mask, ops.shape(like)), like.dtype)


def masked_mean(values, mask=None):
    """Mean of `values (...)` over the positions that `mask (...)` keeps; 0 if none."""
    keep = positions(mask, values)
    # Chosen rather than multiplied: what is masked may be NaN.
    return ops.sum(ops.where(keep > 0, values, 0)) / ops.maximum(ops.sum(keep), 1)


def sum_over_positions(x, mask=None):
    """Sum of `x (..., n)` over all leading positions that `mask (...)` keeps: `(n,)`."""
    if mask is not None:
        x = ops.where(positions(mask, x[..., 0])[..., None] > 0, x, 0)
    return ops.sum(ops.reshape(x, (-1, x.shape[-1])), axis=0)


def squared_variation(values):
    """Squared coefficient of variation of `values (n,)`, population variance; 0 at mean 0."""
    mean = ops.mean(values)
    variance = ops.mean(ops.square(values - mean))
    safe = ops.where(mean == 0, ops.ones_like(mean), mean)
    return ops.where(mean != 0, variance / ops.square(safe), ops.zeros_like(mean))


def entropy(p):
    """`-sum p log p` of `p (..., n)` in nats, `0 log 0 = 0`, with finite gradients at 0."""
    safe = ops.where(p > 0, p, ops.ones_like(p))
    return -ops.sum(p * ops.log(safe), axis=-1)
