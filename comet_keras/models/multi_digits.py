"""A multi-task model for pairs of overlapping digits."""

from comet_keras.models.image_mixture import image_mixture


def multi_digits(
    image_shape=(12, 12, 1),
    num_classes=None,
    gate="comet+",
    num_experts=8,
    k=2,
    gamma=1.0,
    entropy_weight=0.05,
    zeta=1e-4,
    permutation_start="soft",
    expert_units=(64, 32),
    dropout=0.0,
    head_units=(50, 50),
):
    """Names both digits of an overlapping pair by a mixture of experts with a gate a task.

    The shape of the paper's MultiMNIST model (COMET, Ibrahim et al., KDD 2023, sections S1.2 and S1.3):
    gates read the flattened image, and each task's head is two dense layers of 50 units and a softmax.
    The paper's experts are convolutional, for 36 x 36 images; on the 12 x 12 images of
    `comet_keras.datasets.multi_digits` dense experts are used, which learn them well and train quickly,
    and fewer of them (8 and k = 2, where the paper has 16 and k = 4).

    Args:
        image_shape: triple of ints. Default `(12, 12, 1)`.
        num_classes: dict from task to its number of classes. Default
            `{"top_left": 10, "bottom_right": 10}`.
        gate: str, a gate string (see `make_gate`) but for hash, as images have no ids. Default
            `"comet+"`.
        num_experts: int, n. Default 8.
        k: int, experts a sample. Default 2.
        gamma: float > 0, width of the smooth step; the paper tunes 0.001 .. 10. Default 1.0.
        entropy_weight: float >= 0, lambda of the gates' entropy; the paper tunes 0.0001 .. 10.
            Default 0.05.
        zeta: float >= 0, of the permutation's entropy. Default 1e-4, as the paper.
        permutation_start: "soft" (default), "warm" or "cold", see `make_permutation`.
        expert_units: int or sequence of ints, ReLU layers of an expert. Default `(64, 32)`.
        dropout: float, after each expert layer. Default 0.
        head_units: sequence of ints, ReLU layers of each head. Default `(50, 50)`.

    Returns:
        A functional `keras.Model`, uncompiled: inputs `{"image": float (batch, *image_shape)}`,
        outputs, for each task, probabilities `(batch, classes)`.

    Raises:
        ValueError: if there is no such gate, or it is a hash gate.

    Example:

    >>> import numpy as np
    >>> from comet_keras import models
    >>> model = models.multi_digits(gate="comet")
    >>> model.predict({"image": np.zeros((2, 12, 12, 1))}, verbose=0)["top_left"].shape
    (2, 10)
    """
    # Imported here: the command line loads this module without Keras.
    from comet_keras.experts import DenseExperts

    experts = DenseExperts(num_experts, expert_units, activation="relu", dropout=dropout, name="experts")
    num_classes = num_classes or {"top_left": 10, "bottom_right": 10}
    options = (gate, k, gamma, entropy_weight, zeta, permutation_start, head_units)
    return image_mixture("multi_digits", image_shape, num_classes, experts, *options)
