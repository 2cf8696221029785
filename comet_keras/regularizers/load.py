import keras

from comet_keras.regularizers.importance import Importance


@keras.saving.register_keras_serializable("comet_keras")
class Load(Importance):
    """Load loss: experts should be selected equally often.

    `weight * CV(sum_b P_b)^2`, where `P_bi` is the probability that expert i stays among
    the k chosen if its noise is drawn anew. A `TopKGate(noisy=True)` provides it in
    training. Source: Shazeer et al., ICLR 2017, appendix A (their weight: 0.1).

    Args:
        weight: float or schedule.
    """

    name = "load"
    reads = "load"
