"""What a layer costs at inference."""

import math

import keras
from keras import tree

CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
SEPARABLE = (keras.layers.SeparableConv1D, keras.layers.SeparableConv2D)
DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
TRANSPOSED = (
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
)


def multiply_adds(layer, input_shape):
    """Multiply-adds of one sample through a layer at inference.

    Counted are the products of dense layers, convolutions, gates and stacked experts, without biases
    and activations; an embedding is a look-up and costs nothing. Sequential and functional models cost
    what their layers cost, one call at a time. Any other layer is taken to use each of its trainable
    weights once, or once a position for sequences `(batch, positions, d)`: right for recurrent layers
    and normalisations, too little for attention, whose products of activations are left out. Frozen
    weights count as well.

    Args:
        layer: a built Keras layer or model.
        input_shape: tuple with the batch dimension; the structure of shapes that a model with several
            inputs takes. Other unknown sizes count as 1, which gives a lower bound.

    Returns:
        int.

    Raises:
        ValueError: if the layer is not built, or a model has another number of inputs.

    Example:

    >>> from comet_keras.multiply_adds import multiply_adds
    >>> layer = keras.layers.Dense(3)
    >>> layer.build((None, 5))
    >>> multiply_adds(layer, (None, 5))
    15
    >>> multiply_adds(layer, (None, 10, 5))
    150
    """
    if not layer.built:
        raise ValueError(f"`layer` must be built. Received one that is not: {layer.name!r}")
    if isinstance(layer, keras.Sequential):
        return _of_sequential(layer, input_shape)
    if hasattr(layer, "_run_through_graph"):
        return _of_graph(layer, input_shape)
    shape = _first_shape(input_shape)
    return next(count(layer, shape) for kinds, count in _rules() if isinstance(layer, kinds))


def num_weights(layer):
    """Number of the trainable weights that a layer holds, frozen or not, with its sub-layers'."""
    # `trainable_variables` leaves out frozen ones, which take part in inference like the others.
    found = {id(v): v for part in layer._flatten_layers() for v in part._trainable_variables}
    return sum(_size(v.shape) for v in found.values())


def _rules():
    """Pairs of layer types and how to count them; the first that fits."""
    # Imported here, as these layers' own package may come to count with this module.
    from comet_keras.experts import DenseExperts
    from comet_keras.gates import Gate
    from comet_keras.permutation import Permutation

    return (
        ((keras.layers.Embedding, Permutation), lambda layer, shape: 0),
        (keras.layers.Dense, lambda layer, shape: _size(shape[1:]) * layer.units),
        (keras.layers.EinsumDense, _of_einsum),
        (CONVOLUTIONS + DEPTHWISE, _of_convolution),
        (SEPARABLE, _of_separable),
        (TRANSPOSED, lambda layer, shape: _size(layer.kernel.shape) * _places(layer, shape)),
        (Gate, _of_gate),
        (DenseExperts, _of_stacked),
        (object, _of_other),
    )


def _of_sequential(model, input_shape):
    x, total = keras.KerasTensor(_first_shape(input_shape), model.input_dtype), 0
    for layer in model.layers:
        total += multiply_adds(layer, x.shape)
        x = layer.compute_output_spec(x)
    return total


def _of_graph(model, input_shape):
    total = 0

    def counted(operation):
        def run(*args, **kwargs):
            nonlocal total
            if isinstance(operation, keras.layers.Layer):
                inputs = args[0] if args else next(iter(kwargs.values()))
                total += multiply_adds(operation, tree.map_structure(lambda x: x.shape, inputs))
            # Not a call, which would add nodes to the operation.
            return operation.compute_output_spec(*args, **kwargs)

        return run

    shapes = _flatten_shapes(input_shape)
    if len(shapes) != len(model.inputs):
        raise ValueError(
            f"`input_shape` must hold a shape for each of the {len(model.inputs)} inputs of {model.name!r}. "
            f"Received: {input_shape!r}"
        )
    inputs = [keras.KerasTensor(shape, x.dtype) for shape, x in zip(shapes, model.inputs)]
    model._run_through_graph(inputs, operation_fn=counted)
    return total


def _of_einsum(layer, shape):
    inputs, kernel = layer.equation.replace(" ", "").split("->")[0].split(",")
    # Letters that no equation uses, for the dimensions that an ellipsis stands for.
    rest = "".join(chr(0x4E00 + i) for i in range(len(shape) - len(inputs.replace("...", ""))))
    inputs = inputs.replace("...", rest)
    free = [size for label, size in zip(inputs[1:], shape[1:]) if label not in kernel]
    return _size(layer.kernel.shape) * _size(free)


def _of_convolution(layer, shape):
    return _size(layer.kernel.shape) * _places_out(layer, shape)


def _of_separable(layer, shape):
    weights = _size(layer.depthwise_kernel.shape) + _size(layer.pointwise_kernel.shape)
    return weights * _places_out(layer, shape)


def _of_gate(gate, shape):
    """The kernels of a router, once a position; noise is drawn in training only."""
    noise = getattr(gate, "noise_kernel", None)
    kernels = [v for v in gate._trainable_variables if len(v.shape) > 1 and v is not noise]
    return sum(_size(v.shape) for v in kernels) * _size(shape[1:-1])


def _of_stacked(experts, shape):
    return sum(_size(kernel.shape) for kernel in experts.kernels) * _size(shape[1:-1])


def _of_other(layer, shape):
    return num_weights(layer) * (_size(shape[1:2]) if len(shape) == 3 else 1)


def _places_out(layer, shape):
    return _places(layer, layer.compute_output_shape(shape))


def _places(layer, shape):
    """Pixels, or whatever a convolution moves over, of images `shape`."""
    return _size(shape[1:-1] if layer.data_format == "channels_last" else shape[2:])


def _size(shape):
    return math.prod(1 if size is None else int(size) for size in shape)


def _first_shape(shapes):
    return _flatten_shapes(shapes)[0]


def _flatten_shapes(shapes):
    """The shapes in a structure of shapes, in the order of Keras."""
    if isinstance(shapes, dict):
        return [shape for key in sorted(shapes) for shape in _flatten_shapes(shapes[key])]
    if all(size is None or isinstance(size, int) for size in shapes):
        return [tuple(shapes)]
    return [shape for part in shapes for shape in _flatten_shapes(part)]
