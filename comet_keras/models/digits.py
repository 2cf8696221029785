"""The paper's model for MNIST and SVHN in one."""

from comet_keras.models.image_mixture import convolutional_experts, image_mixture
from comet_keras.validation import positive_int

FILTERS, KERNEL_SIZE, EXPERT_UNITS = (10, 20), 5, (50,)


def digits(
    image_shape=(32, 32, 3),
    num_classes=None,
    gate="comet+",
    num_experts=8,
    k=2,
    gamma=0.001,
    entropy_weight=0.01,
    zeta=1e-4,
    permutation_start="soft",
):
    """Names a digit, handwritten or of a house number, by convolutional experts with one gate.

    An expert is two convolutions (5 x 5; 10 and 20 filters; ReLU), each followed by max pooling, and a
    ReLU dense layer of 50 units; convolutions are not padded, which the paper leaves open. The gate reads
    the flattened image. The head is two ReLU dense layers of 50 units and a softmax. Source: COMET
    (Ibrahim et al., KDD 2023), sections S1.2 and S1.3, whose values are the defaults; `gamma` and
    `entropy_weight` are tuned there in 0.001 .. 1 and 0.001 .. 0.5.

    Args:
        image_shape: triple of ints, at least 16 x 16 pixels. Default `(32, 32, 3)`.
        num_classes: dict from the task to its number of classes. Default `{"digit": 10}`.
        gate: str, a gate string (see `make_gate`) but for hash, as images have no ids. Default
            `"comet+"`.
        num_experts: int, n. Default 8.
        k: int, experts a sample. Default 2.
        gamma: float > 0, width of the smooth step. Default 0.001, which the paper fixes for COMET+.
        entropy_weight: float >= 0, lambda of the gate's entropy. Default 0.01.
        zeta: float >= 0, of the permutation's entropy. Default 1e-4.
        permutation_start: "soft" (default), "warm" or "cold", see `make_permutation`.

    Returns:
        A functional `keras.Model`, uncompiled: inputs `{"image": float (batch, *image_shape)}`,
        outputs `{"digit": probabilities (batch, 10)}`.

    Raises:
        ValueError: if there is no such gate, it is a hash gate, or the image is too small.

    Example:

    >>> from comet_keras import models
    >>> model = models.digits(gate="topk", num_experts=4)
    >>> model.output["digit"].shape
    (None, 10)
    """
    experts = convolutional_experts(
        positive_int("num_experts", num_experts), image_shape, FILTERS, KERNEL_SIZE, EXPERT_UNITS
    )
    options = (gate, k, gamma, entropy_weight, zeta, permutation_start)
    return image_mixture("digits", image_shape, num_classes or {"digit": 10}, experts, *options)
