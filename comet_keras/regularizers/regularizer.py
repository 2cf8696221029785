import keras
from keras import ops

from comet_keras.validation import non_negative_float


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
        if not callable(weight):
            try:
                weight = non_negative_float("weight", weight)
            except ValueError as error:
                raise ValueError(f"{error}. A learning rate schedule is allowed too.") from None
        self.weight = weight
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
