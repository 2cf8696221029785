import contextlib

from comet_keras.metrics.statistics import gathering


def gates_of(model):
    """The routing layers of a model by the label that logs and tables use.

    A gate inside a mixture is labelled by its key in the mixture's structure (`""` for a
    single gate), a gate on its own by its layer's name. When a model routes in several
    places, the name of the mixture stands in front; equal labels get a number.

    Returns:
        Dict from label to gate (a layer with `statistics`).
    """
    layers = list(model._flatten_layers(include_self=False, recursive=True))
    mixtures = [layer for layer in layers if hasattr(layer, "labelled_gates")]
    inside = {id(gate) for mixture in mixtures for _, gate in mixture.labelled_gates()}
    alone = [
        layer for layer in layers if hasattr(layer, "statistics") and id(layer) not in inside
    ]
    several = len(mixtures) + len(alone) > 1
    found = {}

    def add(gate, *parts):
        label = "_".join(part for part in parts if part)
        unique, copy = label, 2
        while unique in found:  # layers of submodels may share a name
            unique, copy = f"{label}_{copy}", copy + 1
        found[unique] = gate

    for mixture in mixtures:
        for key, gate in mixture.labelled_gates():
            add(gate, mixture.name if several else "", key)
    for gate in alone:
        add(gate, gate.name)
    return {label: gate for label, gate in found.items() if gate.statistics is not None}


def routing_statistics(model, data, batch_size=256):
    """The routing statistics of every gate of `model` over a data set.

    Each position counts once, whatever the batches; masked positions do not count. In a
    mixture the weights are those that reach the experts, after the permutation.

    Args:
        model: a built `keras.Model` with layers of this package.
        data: what `model.predict` takes: arrays, or a `tf.data.Dataset` of batches.
        batch_size: int, rows a batch when `data` is arrays. Default 256.

    Returns:
        Dict from gate label (see `RoutingMonitor`) to a dict with `experts_per_sample`,
        `gate_entropy` and `expert_usage_entropy` (bits), `largest_expert_share` and
        `expert_usage` (array `(n,)`).

    Raises:
        ValueError: if the model has no gate.
    """
    gates = gates_of(model)
    if not gates:
        raise ValueError(f"Model {model.name!r} has no gate to gather statistics from.")
    with _undisturbed(model, gates), gathering():
        for gate in gates.values():
            gate.statistics.reset()
        # Traced anew: the model's own prediction function gathers nothing.
        model.make_predict_function(force=True)
        batches = {} if hasattr(data, "element_spec") else {"batch_size": batch_size}
        model.predict(data, verbose=0, **batches)
        return {
            label: {k: v for k, v in gate.statistics.read().items() if not k.endswith("_loss")}
            for label, gate in gates.items()
        }


@contextlib.contextmanager
def _undisturbed(model, gates):
    """Puts statistics and prediction function back as they were."""
    variables = [v for gate in gates.values() for v in gate.statistics.variables]
    kept = [v.numpy() for v in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, kept):
            variable.assign(value)
        model.make_predict_function(force=True)
