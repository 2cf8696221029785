import keras
from keras import ops

from comet_keras.reductions import masked_mean
from comet_keras.regularizers.regularizer import GateRegularizer


@keras.saving.register_keras_serializable("comet_keras")
class RouterZ(GateRegularizer):
    """Router z-loss: keeps the router's logits small.

    `weight * mean_b (logsumexp_i o_bi)^2` of the raw logits. Source: Zoph et al., ST-MoE,
    2022, equation 5 (their weight: 0.001).

    Args:
        weight: float or schedule.

    Example:

    >>> float(RouterZ(1.0)([[0.0, 0.0]]))  # ln(2)^2
    0.48...
    """

    name = "router_z"
    reads = "logits"

    def penalty(self, x, mask=None):
        return masked_mean(ops.square(ops.logsumexp(x, axis=-1)), mask)
