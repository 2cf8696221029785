"""Counting training steps inside layers."""

from keras import ops
from keras.src.backend.common.stateless_scope import get_stateless_scope


def first_call_in_step(layer):
    """True for the first call of `layer` within one pass through its model.

    A layer may be called several times in one training step (a gate shared by two
    towers, a permutation applied to every task). What advances by step has to advance
    once.

    Args:
        layer: the layer whose `call` is running.

    Returns:
        bool, decided while tracing.
    """
    counted = _notes_of_pass(layer).setdefault("counted", set())
    if id(layer) in counted:
        return False
    counted.add(id(layer))
    return True


def once_in_step(layer, compute):
    """What `compute()` returns in the first call of `layer` within one pass, for every call in it."""
    results = _notes_of_pass(layer).setdefault("results", {})
    if id(layer) not in results:
        results[id(layer)] = compute()
    return results[id(layer)]


def _notes_of_pass(layer):
    """A dict that lives as long as the present pass through the outermost layer.

    Keras opens one call context for each pass, except in `stateless_call`, by which JAX trains: that
    has a stateless scope around the pass, and no context outside of single layers.
    """
    scope = get_stateless_scope()
    if scope is not None:
        return vars(scope).setdefault("comet_keras", {})
    context = layer._get_call_context()
    if context.get_value("comet_keras") is None:
        context.set_value("comet_keras", {})
    return context.get_value("comet_keras")


def add_step_counter(layer, name="step"):
    """Adds the int32 scalar weight that counts training steps to `layer`."""
    return layer.add_weight(
        name=name, shape=(), dtype="int32", initializer="zeros", trainable=False
    )


def advance(step, data):
    """Adds one to the counter `step`, after the batch that `data` comes from.

    At the end of a data set of unknown length TensorFlow runs what it can of one step more: all that
    does not wait for the batch.

    Args:
        step: int32 scalar variable.
        data: tensor computed from the batch.
    """
    arrived = ops.logical_or(ops.any(data > 0), True)
    step.assign(step + ops.cast(arrived, step.dtype))
