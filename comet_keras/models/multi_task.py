"""A multi-task model for a user's own inputs and tasks."""

import math

from comet_keras.models.gate_strings import make_gate, make_permutation, reads_ids
from comet_keras.models.image_mixture import convolutional
from comet_keras.models.losses import check_task_weights, compile_tasks
from comet_keras.validation import positive_int

INPUTS = '"numeric", ("numeric", width), ("ids", number) or ("image", (height, width, channels))'
TASKS = '"binary", "regression" or ("multiclass", classes)'


def MultiTaskModel(
    inputs,
    tasks,
    gate="comet+",
    num_experts=8,
    k=2,
    gamma=1.0,
    entropy_weight=0.05,
    zeta=1e-4,
    permutation_start="soft",
    embedding_size=32,
    expert_units=64,
    dropout=0.0,
    head_units=64,
    scale_by=None,
    task_weights=None,
    learning_rate=1e-3,
    seed=0,
):
    """A mixture of experts with a gate a task, for your own inputs and tasks, ready for `fit`.

    Ids are embedded, images go through the two convolutions and the dense layer of the paper's experts
    for digits (padded, so that small images do too), numbers are taken as they are or scaled. All
    that, concatenated, feeds dense experts and the gates; each task's combination of the experts feeds
    a head: a ReLU layer, then one unit, one sigmoid unit or a softmax. The shape is that of COMET
    (Ibrahim et al., KDD 2023), section S1.2; the sizes are the package's choice.

    Args:
        inputs: dict from name to `"numeric"` or `("numeric", width)`, `("ids", number)` for integers
            0 .. number - 1, or `("image", (height, width, channels))`.
        tasks: dict from name to `"binary"`, `"regression"` or `("multiclass", classes)`.
        gate: str, a gate string (see `make_gate`). Hash gates read the first of the ids. Default
            `"comet+"`, which wants the callback `HardenPermutation` in `fit`.
        num_experts: int, n. Default 8.
        k: int, experts a sample. Default 2.
        gamma: float > 0, width of the smooth step. Default 1.0.
        entropy_weight: float >= 0, lambda of the gates' entropy. Default 0.05.
        zeta: float >= 0, of the permutation's entropy. Default 1e-4.
        permutation_start: "soft" (default), "warm" or "cold", see `make_permutation`.
        embedding_size: int, of each embedding. Default 32.
        expert_units: int or sequence of ints, ReLU layers of an expert. Default 64.
        dropout: float, after each expert layer. Default 0.
        head_units: int, of each head's ReLU layer. Default 64.
        scale_by: dict of arrays `(N,)` or `(N, width)`, such as the training features: numeric inputs
            found in it are shifted and scaled to mean 0 and standard deviation 1 over these rows (NaN
            left out). Default: none are.
        task_weights: dict from task to weight, of the losses' sum. Default: equal, summing to 1.
        learning_rate: float or schedule, of Adam. Default 1e-3.
        seed: int, of the hash table. Default 0.

    Returns:
        A functional `keras.Model`, compiled as `compile_for` does: inputs and outputs are dicts by
        name. Ids and single numbers come as `(batch,)` or `(batch, 1)`; missing labels go through
        `comet_keras.datasets.mask_missing_labels`.

    Raises:
        ValueError: if an input or task is none of these (naming it), names clash, a hash gate has no
            ids to read, or another argument does not fit.

    Example:

    >>> import numpy as np
    >>> from comet_keras.datasets import mask_missing_labels
    >>> from comet_keras.models import MultiTaskModel
    >>> features = {"user": np.arange(100) % 10, "age": np.linspace(18, 80, 100)}
    >>> labels = {"click": np.arange(100) % 2, "genre": np.where(np.arange(100) < 50, np.nan, 3)}
    >>> model = MultiTaskModel(
    ...     inputs={"user": ("ids", 10), "age": "numeric"},
    ...     tasks={"click": "binary", "genre": ("multiclass", 5)},
    ...     gate="topk",
    ...     scale_by=features,
    ... )
    >>> targets, weights = mask_missing_labels(labels, classes=["genre"])
    >>> history = model.fit(features, targets, sample_weight=weights, epochs=2, verbose=0)
    >>> model.predict(features, verbose=0)["genre"].shape
    (100, 5)
    """
    inputs = {name: _parse_input(name, spec) for name, spec in _checked_dict("inputs", inputs).items()}
    tasks = {name: _parse_task(name, spec) for name, spec in _checked_dict("tasks", tasks).items()}
    _check_names(inputs, tasks)
    num_ids = next(((name, size) for name, (kind, size) in inputs.items() if kind == "ids"), None)
    if reads_ids(gate) and num_ids is None:
        raise ValueError(f"gate={gate!r} routes by id, and `inputs` has no ids. Received: {sorted(inputs)}")
    kinds = {name: kind for name, (kind, _) in tasks.items()}
    task_weights = check_task_weights(task_weights, kinds)
    scales = _scales(inputs, scale_by)
    # Imported here: the command line loads this module without Keras.
    import keras

    from comet_keras.experts import DenseExperts
    from comet_keras.mixture import MixtureOfExperts

    tensors = {name: _make_input(name, *spec) for name, spec in inputs.items()}
    encoded = [
        _encode(name, *spec, tensors[name], embedding_size, scales.get(name)) for name, spec in inputs.items()
    ]
    shared = keras.layers.Concatenate(name="shared")(encoded) if len(encoded) > 1 else encoded[0]
    options = {"k": k, "gamma": gamma, "entropy_weight": entropy_weight, "seed": seed}
    if num_ids is not None:
        options["num_ids"] = num_ids[1]
    mixture = MixtureOfExperts(
        DenseExperts(num_experts, expert_units, activation="relu", dropout=dropout, name="experts"),
        gates={task: make_gate(gate, num_experts, name=f"{task}_gate", **options) for task in tasks},
        permutation=make_permutation(gate, num_experts, zeta, permutation_start),
        name="mixture",
    )
    towers = mixture(shared, gate_inputs=tensors[num_ids[0]] if reads_ids(gate) else shared)
    outputs = {}
    for task, (kind, classes) in tasks.items():
        hidden = keras.layers.Dense(head_units, activation="relu", name=f"{task}_hidden")(towers[task])
        activation = {"binary": "sigmoid", "regression": None, "multiclass": "softmax"}[kind]
        outputs[task] = keras.layers.Dense(classes, activation=activation, name=task)(hidden)
    model = keras.Model(tensors, outputs, name="multi_task")
    return compile_tasks(model, kinds, learning_rate, task_weights)


def _checked_dict(argument, specs):
    if not isinstance(specs, dict) or not specs or not all(isinstance(name, str) and name for name in specs):
        raise ValueError(f"`{argument}` must be a dict from at least one name, a str. Received: {specs!r}")
    return specs


def _parse_input(name, spec):
    """`(kind, size)` of an input: a width, a number of ids, or an image's shape."""
    kind, size = spec if isinstance(spec, (tuple, list)) and len(spec) == 2 else (spec, 1)
    if kind == "image" and isinstance(size, (tuple, list)) and len(size) == 3:
        return kind, tuple(positive_int(f"inputs[{name!r}]", side) for side in size)
    if kind == "numeric" or (kind == "ids" and spec != kind):
        return kind, positive_int(f"inputs[{name!r}]", size)
    raise ValueError(f"inputs[{name!r}] must be {INPUTS}. Received: {spec!r}")


def _parse_task(name, spec):
    """`(kind, units)` of a task."""
    if spec in ("binary", "regression"):
        return spec, 1
    if isinstance(spec, (tuple, list)) and len(spec) == 2 and spec[0] == "multiclass":
        classes = positive_int(f"tasks[{name!r}]", spec[1])
        if classes > 1:
            return "multiclass", classes
    raise ValueError(f"tasks[{name!r}] must be {TASKS} with at least 2 classes. Received: {spec!r}")


def _check_names(inputs, tasks):
    """Layers carry these names, and Keras wants each once."""
    made = ["shared", "mixture", *inputs, *tasks, *(f"{task}_hidden" for task in tasks)]
    made += [f"{name}_{part}" for name in inputs for part in ("embedding", "scaled", "features")]
    twice = sorted({name for name in made if made.count(name) > 1})
    if twice:
        raise ValueError(f"`inputs` and `tasks` name layers, and these would be there twice: {twice}. Rename one.")


def _scales(inputs, scale_by):
    """Mean and variance of each numeric input that `scale_by` holds."""
    import numpy as np

    scales = {}
    for name, array in ({} if scale_by is None else scale_by).items():
        if name not in inputs:
            raise ValueError(f"`scale_by` must hold inputs, {sorted(inputs)}. Received: {name!r}")
        kind, width = inputs[name]
        if kind != "numeric":
            continue
        rows = np.asarray(array, "float64")
        if rows.size == 0 or math.prod(rows.shape[1:]) != width:
            raise ValueError(f"scale_by[{name!r}] must have shape (N, {width}). Received: {rows.shape}")
        rows = rows.reshape(-1, width)
        if np.isinf(rows).any() or np.isnan(rows).all(axis=0).any():
            raise ValueError(f"scale_by[{name!r}] must hold finite numbers, or NaN where they are missing.")
        variance = np.nanvar(rows, axis=0)
        # A constant column stays: there is nothing to scale by.
        scales[name] = np.nanmean(rows, axis=0).tolist(), np.where(variance > 0, variance, 1.0).tolist()
    return scales


def _make_input(name, kind, size):
    import keras

    if kind == "ids":
        return keras.Input((), dtype="int32", name=name)
    return keras.Input((size,) if kind == "numeric" else size, name=name)


def _encode(name, kind, size, tensor, embedding_size, scale):
    import keras

    if kind == "ids":
        return keras.layers.Embedding(size, embedding_size, name=f"{name}_embedding")(tensor)
    if kind == "image":
        return convolutional(size, (10, 20), 5, (50,), "same", name=f"{name}_features")(tensor)
    if scale is None:
        return tensor
    return keras.layers.Normalization(mean=scale[0], variance=scale[1], name=f"{name}_scaled")(tensor)
