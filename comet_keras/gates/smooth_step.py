from keras import ops


def smooth_step(t, gamma=1.0):
    """Smooth-step function: a sigmoid that reaches exact 0 and 1.

    0 for `t <= -gamma/2`, 1 for `t >= gamma/2`, the cubic
    `-2 t^3 / gamma^3 + 3 t / (2 gamma) + 1/2` between. Source: COMET (Ibrahim et al., KDD
    2023), equation 9, with the middle branch on `|t| <= gamma/2`.

    Args:
        t: float tensor of any shape.
        gamma: float > 0, width of the soft range.

    Returns:
        Tensor of the shape of `t`. `1 - h(t)` is `smooth_step(-t)`, exact near 0 too.
    """
    # With s = t/gamma + 1/2 the cubic is s^2 (3 - 2s): never below 0 by rounding. Half of gamma is added
    # before the division, which compilers replace by a product: exact 0 at -gamma/2 in any case.
    s = ops.clip((t + gamma / 2) / gamma, 0.0, 1.0)
    return s * s * (3 - 2 * s)
