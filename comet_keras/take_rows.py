from keras import ops


def take_rows(weight, index):
    """Rows of a trainable weight, with a dense gradient.

    TensorFlow's own gradient of a gather is a list of rows, and of an index that occurs more than once Keras'
    optimizers take the mean square row by row: with Adam such rows would move several times too far.

    Args:
        weight: `(rows, ...)`, a variable or tensor.
        index: int tensor of any shape.

    Returns:
        `(*index.shape, ...)`.
    """
    # The gradient of a reshape is dense.
    return ops.take(ops.reshape(weight, weight.shape), index, axis=0)
