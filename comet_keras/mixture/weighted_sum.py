import keras
from keras import ops

from comet_keras.mixture.combine import combine


@keras.saving.register_keras_serializable("comet_keras")
class WeightedSum(keras.layers.Layer):
    """Combines expert outputs that were computed elsewhere.

    Args:
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        outputs: list of n tensors `(*lead, *rest)`, one an expert, or one tensor
            `(*lead, n, *rest)`.
        weights: tensor `(*lead, n)`.

    Returns:
        Tensor `(*lead, *rest)`: the sum of outputs times weights.

    Raises:
        ValueError: if shapes do not fit.

    Example:

    >>> x = keras.ops.ones((2, 8))
    >>> outputs = [keras.layers.Dense(3)(x) for _ in range(4)]
    >>> tuple(WeightedSum()(outputs, SoftmaxGate(4)(x)).shape)
    (2, 3)
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, outputs_shape, weights_shape):
        n, lead = weights_shape[-1], len(weights_shape) - 1
        if _is_list_of_shapes(outputs_shape):
            if len(outputs_shape) != n:
                raise ValueError(
                    f"WeightedSum received {len(outputs_shape)} expert outputs and weights of {n} "
                    f"experts, shape {tuple(weights_shape)}."
                )
            if len({tuple(shape) for shape in outputs_shape}) > 1:
                raise ValueError(
                    "WeightedSum needs expert outputs of one shape. Received: "
                    f"{[tuple(shape) for shape in outputs_shape]}"
                )
        elif len(outputs_shape) <= lead or outputs_shape[lead] != n:
            raise ValueError(
                f"WeightedSum expects outputs of {n} experts along axis {lead}. Received outputs of "
                f"shape {tuple(outputs_shape)} and weights of shape {tuple(weights_shape)}"
            )
        self.built = True

    def call(self, outputs, weights):
        lead = len(weights.shape) - 1
        if isinstance(outputs, (list, tuple)):
            outputs = ops.stack(outputs, axis=lead)
        return ops.squeeze(combine(outputs, ops.expand_dims(weights, -2)), axis=lead)

    def compute_output_shape(self, outputs_shape, weights_shape):
        if _is_list_of_shapes(outputs_shape):
            return tuple(outputs_shape[0])
        lead = len(weights_shape) - 1
        return (*outputs_shape[:lead], *outputs_shape[lead + 1 :])

    def compute_mask(self, inputs, previous_mask):
        return previous_mask[0] if isinstance(previous_mask, (list, tuple)) else previous_mask


def _is_list_of_shapes(shape):
    return bool(shape) and isinstance(shape[0], (list, tuple))
