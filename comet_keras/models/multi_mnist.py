"""The paper's multi-task models for MultiMNIST and MultiFashionMNIST."""

from comet_keras.models.image_mixture import convolutional_experts, image_mixture
from comet_keras.validation import positive_int

TASKS = ("top_left", "bottom_right")
FILTERS, KERNEL_SIZE, EXPERT_UNITS = (10, 20), 5, (50, 50)


def multi_mnist(
    image_shape=(36, 36, 1),
    num_classes=None,
    gate="comet+",
    num_experts=16,
    k=4,
    gamma=0.01,
    entropy_weight=0.01,
    zeta=1e-4,
    permutation_start="soft",
):
    """Names both digits of an overlapping pair by convolutional experts with a gate a task.

    An expert is two convolutions (5 x 5; 10 and 20 filters; ReLU), each followed by max pooling, and two
    ReLU dense layers of 50 units; convolutions are not padded, which the paper leaves open. Gates read
    the flattened image. A head is two ReLU dense layers of 50 units and a softmax. Source: COMET
    (Ibrahim et al., KDD 2023), sections S1.2 and S1.3, whose values are the defaults; `gamma` and
    `entropy_weight` are tuned there in 0.001 .. 10 and 0.0001 .. 10.

    Args:
        image_shape: triple of ints, at least 16 x 16 pixels. Default `(36, 36, 1)`.
        num_classes: dict from task to its number of classes. Default
            `{"top_left": 10, "bottom_right": 10}`.
        gate: str, a gate string (see `make_gate`) but for hash, as images have no ids. Default
            `"comet+"`.
        num_experts: int, n. Default 16.
        k: int, experts a sample. Default 4.
        gamma: float > 0, width of the smooth step. Default 0.01, which the paper fixes for COMET+.
        entropy_weight: float >= 0, lambda of the gates' entropy. Default 0.01.
        zeta: float >= 0, of the permutation's entropy. Default 1e-4.
        permutation_start: "soft" (default), "warm" or "cold", see `make_permutation`.

    Returns:
        A functional `keras.Model`, uncompiled: inputs `{"image": float (batch, *image_shape)}`,
        outputs, for each task, probabilities `(batch, classes)`.

    Raises:
        ValueError: if there is no such gate, it is a hash gate, or the image is too small.

    Example:

    >>> import numpy as np
    >>> from comet_keras import models
    >>> model = models.multi_mnist(gate="topk", num_experts=4)
    >>> model.predict({"image": np.zeros((2, 36, 36, 1))}, verbose=0)["top_left"].shape
    (2, 10)
    """
    options = (gate, num_experts, k, gamma, entropy_weight, zeta, permutation_start)
    return _pairs_model("multi_mnist", image_shape, num_classes, *options)


def multi_fashion_mnist(
    image_shape=(36, 36, 1),
    num_classes=None,
    gate="comet+",
    num_experts=5,
    k=2,
    gamma=0.01,
    entropy_weight=0.01,
    zeta=1e-4,
    permutation_start="soft",
):
    """Names both pieces of clothing of an overlapping pair: `multi_mnist` with fewer experts.

    Source: COMET (Ibrahim et al., KDD 2023), sections S1.2 and S1.3. S1.2 and the authors' configuration
    have 5 experts, which is the default, S1.3 has 6. `gamma` and `entropy_weight` are tuned there in
    0.001 .. 5 both.

    Args:
        image_shape, num_classes, gate: see `multi_mnist`.
        num_experts: int, n. Default 5.
        k: int, experts a sample. Default 2.
        gamma, entropy_weight, zeta, permutation_start: see `multi_mnist`.

    Returns:
        A functional `keras.Model`, uncompiled, see `multi_mnist`.

    Raises:
        ValueError: see `multi_mnist`.
    """
    options = (gate, num_experts, k, gamma, entropy_weight, zeta, permutation_start)
    return _pairs_model("multi_fashion_mnist", image_shape, num_classes, *options)


def _pairs_model(name, image_shape, num_classes, gate, num_experts, *options):
    experts = convolutional_experts(
        positive_int("num_experts", num_experts), image_shape, FILTERS, KERNEL_SIZE, EXPERT_UNITS
    )
    return image_mixture(name, image_shape, num_classes or dict.fromkeys(TASKS, 10), experts, gate, *options)
