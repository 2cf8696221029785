import keras
from keras import ops


def conditional(owner, layers, predicate, on_true, on_false):
    """`ops.cond` over functions that call layers.

    What layers do beside returning a value (state such as seeds and moving averages, loss terms)
    must not leave a branch by itself: backends refuse it. Here it is returned from the branch, and
    takes effect outside.

    Args:
        owner: layer that is given the loss terms of the branch that ran.
        layers: the layers that the functions call.
        predicate: bool scalar tensor.
        on_true, on_false: functions without arguments, returning tensors of one structure.

    Returns:
        What the function that ran returned.
    """
    if keras.backend.backend() == "torch":
        return on_true() if predicate else on_false()
    variables = list({id(v): v for layer in layers for v in layer.variables}.values())
    # All of them, since a scope hides what the one around it says of a variable.
    before = [ops.convert_to_tensor(v) for v in variables]
    state = [i for i, v in enumerate(variables) if not v.trainable]
    changed, has_losses = set(), False

    def isolated(function):
        def branch():
            nonlocal has_losses
            scope = keras.StatelessScope(list(zip(variables, before)), collect_losses=True)
            with scope:
                outputs = function()
            after = [scope.get_current_value(variables[i]) for i in state]
            changed.update(i for i, new in zip(state, after) if new is not before[i])
            has_losses = has_losses or bool(scope.losses)
            losses = [ops.cast(x, "float32") for x in scope.losses]
            return outputs, after, sum(losses, ops.zeros((), "float32"))

        return branch

    outputs, after, loss = ops.cond(predicate, isolated(on_true), isolated(on_false))
    for i, value in zip(state, after):
        if i in changed:
            variables[i].assign(value)
    if has_losses:
        owner.add_loss(loss)
    return outputs
