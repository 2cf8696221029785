"""Fresh values for fresh things: initializers that are safe to share."""

import keras
from keras import ops


def fresh(initializer, index=0):
    """A copy of `initializer` that draws its own values.

    Keras initializers return the same values each time one instance is called, so that
    layers sharing an instance start equal. The copy number `index` of a seeded
    initializer has a seed of its own that follows from the given one (the whole stays
    reproducible); the copy of an unseeded initializer is unseeded. One with a
    `SeedGenerator` draws new values each time by itself, and one without a config can't be copied: both
    are returned as they are.

    Args:
        initializer: a Keras initializer, its name or its config.
        index: int, which copy.

    Returns:
        A `keras.initializers.Initializer` (or the callable itself if it is none).

    Example:

    >>> shared = keras.initializers.GlorotUniform(seed=1)
    >>> kernels = [fresh(shared, i)((4, 2)) for i in range(3)]  # three different kernels
    """
    initializer = keras.initializers.get(initializer)
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    if isinstance(getattr(initializer, "seed", None), keras.random.SeedGenerator):
        return initializer
    config = initializer.get_config()
    if not config:  # nothing to draw, or an incomplete config, as of Keras' Identity, which forgets its gain
        return initializer
    if isinstance(config.get("seed"), int):
        config["seed"] = (config["seed"] + 7919 * index) % (2**31 - 1)
    return type(initializer).from_config(config)


class StackedInitializer(keras.initializers.Initializer):
    """Draws each slice along the first axis on its own.

    The fans of a slice are those of one kernel, where Keras would count the stack axis
    of a `(experts, in, out)` kernel as a receptive field and start far too small.

    Args:
        initializer: the initializer of one slice (object, name or config).

    Example:

    >>> tuple(StackedInitializer("glorot_uniform")((16, 8, 4)).shape)
    (16, 8, 4)
    """

    def __init__(self, initializer):
        self.initializer = keras.initializers.get(initializer)

    def __call__(self, shape, dtype=None):
        slices = [fresh(self.initializer, i)(shape[1:], dtype=dtype) for i in range(shape[0])]
        return ops.stack(slices, axis=0)
