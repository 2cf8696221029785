import keras
from keras import ops

from comet_keras.gates.gate import Gate
from comet_keras.initializers import fresh


@keras.saving.register_keras_serializable("comet_keras")
class SoftmaxGate(Gate):
    """The dense gate of the classical mixture: `softmax(x W + b)`, every expert used.

    Source: Jacobs et al., Neural Computation 1991; the baseline of COMET (Ibrahim et al., KDD
    2023), section 5.

    Args:
        num_experts: int >= 1, n.
        regularizers: sequence of `comet_keras.regularizers` terms reading `"weights"`,
            `"probabilities"` or `"logits"`.
        kernel_initializer: default `"glorot_uniform"`.
        bias_initializer: default `"zeros"`.
        **kwargs: as in `Gate`.

    Example:

    >>> tuple(SoftmaxGate(4)(keras.ops.ones((2, 8))).shape)
    (2, 4)
    """

    provides = ("weights", "logits", "probabilities")

    def __init__(
        self,
        num_experts,
        regularizers=(),
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(num_experts, kwargs.pop("k", None), regularizers, **kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)

    def build(self, input_shape):
        self.kernel = self.add_router_weight(
            "kernel", (input_shape[-1], self.num_experts), fresh(self.kernel_initializer)
        )
        self.bias = self.add_router_weight(
            "bias", (self.num_experts,), fresh(self.bias_initializer, 1)
        )
        super().build(input_shape)

    def route(self, inputs, training=False):
        logits = ops.matmul(inputs, self.kernel) + self.bias
        weights = softmax(logits)
        return {"weights": weights, "probabilities": weights, "logits": logits}

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }


def softmax(logits):
    """`ops.softmax` over the last axis, which may be a single expert (Keras warns of that)."""
    return ops.softmax(logits) if logits.shape[-1] > 1 else ops.ones_like(logits)
