"""Counting training steps inside layers."""

import keras


def first_call_in_step(layer):
    """True for the first call of `layer` within one pass through its model.

    A layer may be called several times in one training step (a gate shared by two
    towers, a permutation applied to every task). What advances by step has to advance
    once. Keras opens one call context for each pass through the outermost layer, so the
    context tells the passes apart while the step is being traced, on every backend.

    Args:
        layer: the layer whose `call` is running.

    Returns:
        bool, decided while tracing.
    """
    context = layer._get_call_context()
    counted = context.get_value("comet_keras_counted")
    if counted is None:
        counted = set()
        context.set_value("comet_keras_counted", counted)
    if id(layer) in counted:
        return False
    counted.add(id(layer))
    return True


def once_in_step(layer, compute):
    """What `compute()` returns in the first call of `layer` within one pass, for every call in it."""
    context = layer._get_call_context()
    key = f"comet_keras_result_{id(layer)}"
    result = context.get_value(key)
    if result is None:
        result = compute()
        context.set_value(key, result)
    return result


def add_step_counter(layer, name="step"):
    """Adds the int32 scalar weight that counts training steps to `layer`."""
    return layer.add_weight(
        name=name, shape=(), dtype="int32", initializer="zeros", trainable=False
    )


def advance(layer, step):
    """Adds one to the counter `step` of `layer`, once in a training step."""
    if first_call_in_step(layer):
        step.assign(step + keras.ops.cast(1, step.dtype))
