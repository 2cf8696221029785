import keras
from keras import ops

from comet_keras.reductions import positions, sum_over_positions
from comet_keras.regularizers.regularizer import GateRegularizer
from comet_keras.validation import positive_int


@keras.saving.register_keras_serializable("comet_keras")
class LoadBalance(GateRegularizer):
    """The load balance loss of the Switch Transformer.

    `weight * n * sum_i f_i P_i`: f the share of positions whose k largest probabilities
    contain expert i (no gradient), P the mean probability. It is k at perfect balance.
    Source: Fedus et al., JMLR 2022, equation 4 (their weight: 0.01).

    Args:
        weight: float or schedule.
        k: int, experts selected a position. Default 1.
        reads: entry of shape `(..., n)`, default `"probabilities"`.

    Example:

    >>> float(LoadBalance(1.0)([[0.7, 0.3], [0.4, 0.6]]))
    1.0
    """

    name = "load_balance"
    reads = "probabilities"

    def __init__(self, weight, k=1, reads=None):
        super().__init__(weight, reads)
        self.k = positive_int("k", k)

    def penalty(self, x, mask=None):
        experts = x.shape[-1]
        chosen = ops.argsort(-x, axis=-1)[..., : self.k]
        chosen = ops.sum(ops.one_hot(chosen, experts, dtype=x.dtype), axis=-2)
        count = ops.maximum(ops.sum(positions(mask, x[..., 0])), 1)
        share = ops.stop_gradient(sum_over_positions(chosen, mask) / count)
        return experts * ops.sum(share * sum_over_positions(x, mask) / count)

    def get_config(self):
        return {**super().get_config(), "k": self.k}
