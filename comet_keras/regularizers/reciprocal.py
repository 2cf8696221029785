import keras
from keras import ops

from comet_keras.reductions import masked_mean
from comet_keras.regularizers.regularizer import GateRegularizer


@keras.saving.register_keras_serializable("comet_keras")
class Reciprocal(GateRegularizer):
    """Keeps the selectors of DSelect-k away from codes that belong to no expert.

    `weight * mean_b sum_j 1 / (1e-6 + sum_i r_bji)`: k when every selector stays on the
    n experts, larger when weight leaks to the `2^m - n` unused codes. Source: DSelect-k
    (Hazimeh et al., NeurIPS 2021), appendix; mean over the batch in place of its sum.

    Args:
        weight: float or schedule.

    Example:

    >>> float(Reciprocal(1.0)([[[0.5, 0.0, 0.0]]]))
    1.99...
    """

    name = "reciprocal"
    reads = "selectors"

    def penalty(self, x, mask=None):
        values = ops.sum(1 / (1e-6 + ops.sum(x, axis=-1)), axis=-1)
        return masked_mean(values, mask if len(values.shape) else None)
