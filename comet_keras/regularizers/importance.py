import keras

from comet_keras.reductions import squared_variation, sum_over_positions
from comet_keras.regularizers.regularizer import GateRegularizer


@keras.saving.register_keras_serializable("comet_keras")
class Importance(GateRegularizer):
    """Importance loss: experts should receive equal total weight.

    `weight * CV(sum_b g_b)^2` with the population variance. Source: Shazeer et al.,
    ICLR 2017, section 4 (their weight: 0.1).

    Args:
        weight: float or schedule.
        reads: entry of shape `(..., n)`, default `"weights"`.

    Example:

    >>> float(Importance(1.0)([[0.2, 0.8], [0.6, 0.4]]))
    0.04...
    """

    name = "importance"

    def penalty(self, x, mask=None):
        return squared_variation(sum_over_positions(x, mask))
