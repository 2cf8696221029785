import keras
from keras import ops


class GateRegularizer(keras.regularizers.Regularizer):
    """Base class of the terms that a gate adds to the training loss.

    A term is computed in float32 (float64 for float64 input) from one of the tensors
    that a gate's `route` returns, counts no masked position, and is added in training
    only. Subclasses set `name` and `reads`, and implement `penalty`.

    Args:
        weight: float >= 0, or a `keras.optimizers.schedules.LearningRateSchedule` over
            the gate's training steps. The coefficient of the term.
        reads: str, the entry of the gate's routing that the term is computed from:
            `"weights"`, `"logits"`, `"probabilities"`, `"selectors"` or `"load"`.
            Defaults to the class's own.
    """

    name = "penalty"
    reads = "weights"

    def __init__(self, weight, reads=None):
        if isinstance(weight, dict):
            weight = keras.optimizers.schedules.deserialize(weight)
        if not callable(weight) and not float(weight) >= 0:
            raise ValueError(
                "`weight` must be a number of at least 0 or a learning rate schedule. "
                f"Received: weight={weight!r}"
            )
        self.weight = weight if callable(weight) else float(weight)
        if reads is not None:
            self.reads = reads

    def penalty(self, x, mask=None):
        """The term without its weight.

        Args:
            x: float tensor of the shape given by `reads`, `(..., n)` for most.
            mask: optional bool tensor `(...)`; False positions do not count.

        Returns:
            Float scalar.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `penalty(x, mask)`.")

    def __call__(self, x, mask=None, step=0):
        x = ops.convert_to_tensor(x)
        if keras.backend.standardize_dtype(x.dtype) != "float64":
            x = ops.cast(x, "float32")
        weight = self.weight(step) if callable(self.weight) else self.weight
        penalty = self.penalty(x, mask)
        return ops.convert_to_tensor(weight, dtype=penalty.dtype) * penalty

    def get_config(self):
        weight = self.weight
        if callable(weight):
            weight = keras.optimizers.schedules.serialize(weight)
        config = {"weight": weight}
        if self.reads != type(self).reads:
            config["reads"] = self.reads
        return config


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
    return ops.sum(values * keep) / ops.maximum(ops.sum(keep), 1)


def sum_over_positions(x, mask=None):
    """Sum of `x (..., n)` over all leading positions that `mask (...)` keeps: `(n,)`."""
    if mask is not None:
        x = x * positions(mask, x[..., 0])[..., None]
    return ops.sum(ops.reshape(x, (-1, x.shape[-1])), axis=0)


def squared_variation(values):
    """Squared coefficient of variation of `values (n,)`, population variance; 0 at mean 0."""
    mean = ops.mean(values)
    variance = ops.mean(ops.square(values - mean))
    safe = ops.where(mean > 0, mean, ops.ones_like(mean))
    return ops.where(mean > 0, variance / ops.square(safe), ops.zeros_like(mean))


def entropy(p):
    """`-sum p log p` of `p (..., n)` in nats, `0 log 0 = 0`, with finite gradients at 0."""
    safe = ops.where(p > 0, p, ops.ones_like(p))
    return -ops.sum(p * ops.log(safe), axis=-1)
