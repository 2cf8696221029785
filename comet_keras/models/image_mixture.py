"""The shape that the paper's models for images share."""

from comet_keras.models.gate_strings import make_gate, make_permutation, reads_ids


def image_mixture(
    name,
    image_shape,
    classes,
    experts,
    gate,
    k,
    gamma,
    entropy_weight,
    zeta=1e-4,
    permutation_start="soft",
    head_units=(50, 50),
):
    """Tasks on images by a mixture of experts; gates read the flattened image.

    Args:
        name: str, of the model.
        image_shape: triple of ints.
        classes: dict from task to its number of classes, None for a binary task. A single task has a
            single gate, several have one each.
        experts: list of layers that read images, or `DenseExperts`, which read the flattened image.
        head_units: sequence of ints, ReLU layers of each head.
        gate, k, gamma, entropy_weight, zeta, permutation_start: see `multi_mnist`.

    Returns:
        A functional `keras.Model`, uncompiled: inputs `{"image": float (batch, *image_shape)}`, outputs,
        for each task, probabilities `(batch, classes)`, or `(batch, 1)` of a binary task.

    Raises:
        ValueError: if there is no such gate, or it is a hash gate.
    """
    if reads_ids(gate):
        raise ValueError(f"gate={gate!r} routes by id, and the images of {name} have no ids.")
    # Imported here: the command line loads this module without Keras.
    import keras

    from comet_keras.mixture import MixtureOfExperts

    read_images = isinstance(experts, list)
    num_experts = len(experts) if read_images else experts.num_experts
    image = keras.Input(image_shape, name="image")
    pixels = keras.layers.Flatten(name="pixels")(image)
    options = {"k": k, "gamma": gamma, "entropy_weight": entropy_weight}
    gates = {task: make_gate(gate, num_experts, name=f"{task}_gate", **options) for task in classes}
    single = next(iter(classes)) if len(classes) == 1 else None
    mixture = MixtureOfExperts(
        experts,
        gates=gates if single is None else gates[single],
        permutation=make_permutation(gate, num_experts, zeta, permutation_start),
        name="mixture",
    )
    towers = mixture(image, gate_inputs=pixels) if read_images else mixture(pixels)
    outputs = {}
    for task, hidden in (towers if single is None else {single: towers}).items():
        for i, units in enumerate(head_units):
            hidden = keras.layers.Dense(units, activation="relu", name=f"{task}_hidden_{i}")(hidden)
        units, activation = (1, "sigmoid") if classes[task] is None else (classes[task], "softmax")
        outputs[task] = keras.layers.Dense(units, activation=activation, name=task)(hidden)
    return keras.Model({"image": image}, outputs, name=name)


def convolutional(image_shape, filters, kernel_size, units=(), padding="valid", name=None):
    """A stack of convolutions, each with ReLU and followed by 2 x 2 max pooling, then ReLU dense layers.

    Args:
        image_shape: triple of ints, height, width and channels.
        filters: sequence of ints, one a convolution.
        kernel_size: int.
        units: sequence of ints, one a dense layer.
        padding: `"valid"` (default) or `"same"`.
        name: str or None.

    Returns:
        A built `keras.Sequential` from `(batch, *image_shape)` to `(batch, features)`.

    Raises:
        ValueError: if the image is too small.
    """
    import keras

    least = 1
    for _ in filters:
        least = 2 * least + (kernel_size - 1 if padding == "valid" else 0)
    if len(image_shape) != 3 or None in image_shape or min(image_shape[:2]) < least:
        raise ValueError(
            f"`image_shape` must be (height, width, channels) of at least {least} x {least} pixels for "
            f"{len(filters)} convolutions. Received: image_shape={tuple(image_shape)}"
        )
    stack = keras.Sequential([keras.Input(image_shape)], name=name)
    for i, number in enumerate(filters):
        stack.add(
            keras.layers.Conv2D(
                number, kernel_size, padding=padding, activation="relu", name=f"convolution_{i}"
            )
        )
        stack.add(keras.layers.MaxPooling2D(name=f"pooling_{i}"))
    stack.add(keras.layers.Flatten(name="flatten"))
    for i, number in enumerate(units):
        stack.add(keras.layers.Dense(number, activation="relu", name=f"dense_{i}"))
    return stack


def convolutional_experts(num_experts, *args, **kwargs):
    """List of n `convolutional` stacks, `expert_0` to `expert_{n-1}`."""
    return [convolutional(*args, **kwargs, name=f"expert_{i}") for i in range(num_experts)]
