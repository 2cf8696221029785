"""The paper's multi-task model for CelebA."""

from comet_keras.datasets.celeb_a import ATTRIBUTES, IMAGE_SIZE
from comet_keras.models.image_mixture import convolutional_experts, image_mixture
from comet_keras.validation import positive_int

FILTERS, KERNEL_SIZE = (4, 4, 4, 1), 3


def celeb_a(
    image_shape=(*IMAGE_SIZE, 3),
    attributes=ATTRIBUTES,
    gate="comet+",
    num_experts=6,
    k=2,
    gamma=5.0,
    entropy_weight=0.01,
    zeta=1e-4,
    permutation_start="soft",
):
    """Attributes of a face by convolutional experts with a gate a task.

    An expert is four convolutions (3 x 3; 4, 4, 4 and 1 filters; ReLU), each followed by max pooling;
    convolutions are not padded, which the paper leaves open. Gates read the flattened image. A head is
    one sigmoid unit. Source: COMET (Ibrahim et al., KDD 2023), sections S1.2 and S1.3, whose values are
    the defaults; `gamma` and `entropy_weight` are tuned there in 0.001 .. 5 both. (S1.2 speaks of two
    tasks, all else of ten.)

    Args:
        image_shape: triple of ints, at least 46 x 46 pixels. Default `(128, 128, 3)`.
        attributes: sequence of str, the tasks. Default: the ten of `comet_keras.datasets.celeb_a`.
        gate: str, a gate string (see `make_gate`) but for hash, as images have no ids. Default
            `"comet+"`.
        num_experts: int, n. Default 6.
        k: int, experts a sample. Default 2.
        gamma: float > 0, width of the smooth step. Default 5, which the paper fixes for COMET+.
        entropy_weight: float >= 0, lambda of the gates' entropy. Default 0.01.
        zeta: float >= 0, of the permutation's entropy. Default 1e-4.
        permutation_start: "soft" (default), "warm" or "cold", see `make_permutation`.

    Returns:
        A functional `keras.Model`, uncompiled: inputs `{"image": float (batch, *image_shape)}`,
        outputs, for each attribute, `(batch, 1)` in 0..1.

    Raises:
        ValueError: if there is no such gate, it is a hash gate, or the image is too small.

    Example:

    >>> from comet_keras import models
    >>> model = models.celeb_a((64, 64, 3), attributes=["Male", "Young"], gate="topk")
    >>> sorted(model.output)
    ['Male', 'Young']
    """
    experts = convolutional_experts(positive_int("num_experts", num_experts), image_shape, FILTERS, KERNEL_SIZE)
    options = (gate, k, gamma, entropy_weight, zeta, permutation_start)
    return image_mixture("celeb_a", image_shape, dict.fromkeys(attributes), experts, *options, head_units=())
