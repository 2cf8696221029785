"""Routing statistics as functions of gate weights.

Every function takes weights `(..., n)` on the simplex (tensor or array) and averages over
all leading positions. Entropies are in bits. Sources: COMET (Ibrahim et al., KDD 2023),
section 5 (experts per sample); the attentive gate paper (Krishnamurthy et al., 2023),
section 3 (entropies and mutual information).
"""

import keras
from keras import ops

from comet_keras.reductions import entropy

SUPPORT_THRESHOLD = 1e-5


def experts_per_sample(weights, threshold=SUPPORT_THRESHOLD):
    """Mean number of experts with a weight of at least `threshold`.

    Example:

    >>> float(experts_per_sample([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]))
    1.5
    """
    weights = ops.convert_to_tensor(weights)
    support = ops.cast(weights >= threshold, "float32")
    return ops.mean(ops.sum(support, axis=-1))


def expert_usage(weights):
    """Mean weight of each expert: `(n,)`."""
    weights = _as_float(weights)
    return ops.mean(ops.reshape(weights, (-1, weights.shape[-1])), axis=0)


def gate_entropy(weights):
    """H_s: mean entropy of a sample's weights, in bits. 0 when each uses one expert."""
    return ops.mean(entropy(_as_float(weights))) / _LN2


def expert_usage_entropy(weights):
    """H_u: entropy of the mean weights, in bits. `log2(n)` when all experts are used alike."""
    return entropy(expert_usage(weights)) / _LN2


def largest_expert_share(weights):
    """Mean weight of the expert that receives most."""
    return ops.max(expert_usage(weights))


def mutual_information(counts):
    """I(E;Y) in bits between experts and labels, from how often they met.

    Args:
        counts: `(labels, experts)`, non-negative; rows labels, columns experts.

    Returns:
        Float scalar: H(Y) + H(E) - H(Y, E).
    """
    counts = _as_float(counts)
    p = counts / ops.sum(counts)
    h_y, h_e = entropy(ops.sum(p, axis=1)), entropy(ops.sum(p, axis=0))
    return (h_y + h_e - entropy(ops.reshape(p, (-1,)))) / _LN2


_LN2 = 0.6931471805599453


def _as_float(values):
    values = ops.convert_to_tensor(values)
    is_float = "float" in keras.backend.standardize_dtype(values.dtype)
    return values if is_float else ops.cast(values, keras.config.floatx())
