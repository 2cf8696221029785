import keras
from keras import ops

from comet_keras.reductions import entropy, masked_mean
from comet_keras.regularizers.regularizer import GateRegularizer


@keras.saving.register_keras_serializable("comet_keras")
class Entropy(GateRegularizer):
    """Entropy of the selectors: drives trees and selectors to a hard choice.

    `weight * mean_b sum_j H(v_bj)` with `H(v) = -sum_i v_i log v_i` in nats: a sum over
    the k selectors of a sample, a mean over samples. Source: COMET (Ibrahim et al., KDD
    2023), section 3.3; DSelect-k (Hazimeh et al., NeurIPS 2021).

    Args:
        weight: float or schedule, lambda.
        reads: `"selectors"` (default; the trees of COMET, the selectors of DSelect-k,
            shape `(..., k, n)`, or `(k, n)` when shared by all samples) or any entry of
            shape `(..., n)`, e.g. `"weights"` for a softmax gate.

    Example:

    >>> float(Entropy(1.0, reads="weights")([[0.5, 0.5], [1.0, 0.0]]))  # ln(2) / 2
    0.3465...
    """

    name = "entropy"
    reads = "selectors"

    def penalty(self, x, mask=None):
        values = entropy(x)
        if self.reads == "selectors":
            values = ops.sum(values, axis=-1)
        # Selectors shared by the batch leave one value, which no mask belongs to.
        return masked_mean(values, mask if len(values.shape) else None)
