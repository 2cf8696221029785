"""Two images in one, as in MultiMNIST."""

import numpy as np


def overlay(top_left, bottom_right, shift, clip=None):
    """Adds two batches of images, shifted towards opposite corners of a larger canvas.

    The first image lies in the top-left corner and the second in the
    bottom-right corner; where both lie, pixels are added.

    Source: COMET (KDD 2023), Supplement S1.1, MultiMNIST: 28 x 28 digits with
    `shift=8` on a 36 x 36 canvas. The authors' code does not clip the sum.

    Args:
        top_left: array `(N, height, width)` or `(N, height, width, channels)`.
        bottom_right: array of the same shape.
        shift: int >= 0, pixels by which the canvas is larger than an image.
        clip: number or None, the largest value a pixel may reach.

    Returns:
        array `(N, height + shift, width + shift, ...)`; integers are added as
        int32 or wider, so uint8 images do not overflow; floats keep their dtype.

    Raises:
        ValueError: if shapes differ or have no batch axis, or `shift` is negative.

    Example:

    >>> import numpy as np
    >>> from comet_keras.datasets import overlay
    >>> overlay(np.full((1, 2, 2), 5), np.full((1, 2, 2), 7), shift=1)[0]
    array([[ 5,  5,  0],
           [ 5, 12,  7],
           [ 0,  7,  7]])
    """
    top_left, bottom_right = np.asarray(top_left), np.asarray(bottom_right)
    if top_left.shape != bottom_right.shape or top_left.ndim not in (3, 4):
        raise ValueError(
            "`top_left` and `bottom_right` must both be (N, height, width) or (N, height, width, channels). "
            f"Received: shapes {top_left.shape} and {bottom_right.shape}"
        )
    if isinstance(shift, bool) or int(shift) != shift or shift < 0:
        raise ValueError(f"`shift` must be an integer of at least 0. Received: shift={shift!r}")
    shift = int(shift)
    dtype = np.result_type(top_left, bottom_right)
    if dtype.kind in "biu":
        dtype = np.promote_types(dtype, np.int32)
    rows, height, width = top_left.shape[:3]
    canvas = np.zeros((rows, height + shift, width + shift, *top_left.shape[3:]), dtype)
    canvas[:, :height, :width] += top_left
    canvas[:, shift:, shift:] += bottom_right
    return canvas if clip is None else np.minimum(canvas, np.asarray(clip, dtype))
