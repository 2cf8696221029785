"""Losses and metrics by the type of a task, and compiling a model for a data set."""


def default_task_weights(tasks):
    """Equal weights that sum to 1, as the paper has for its image data sets."""
    return {task: 1 / len(tasks) for task in tasks}


def check_task_weights(task_weights, tasks):
    """Returns a weight for each task as a dict of floats.

    Raises:
        ValueError: if weights and tasks do not name the same, or a weight is below 0 or all are 0.
    """
    if task_weights is None:
        return default_task_weights(tasks)
    if not isinstance(task_weights, dict) or set(task_weights) != set(tasks):
        raise ValueError(
            f"`task_weights` must be a dict with a weight for each of {', '.join(tasks)}. "
            f"Received: task_weights={task_weights!r}"
        )
    weights = {task: float(task_weights[task]) for task in tasks}
    if not all(0 <= weight < float("inf") for weight in weights.values()) or not any(weights.values()):
        raise ValueError(
            f"`task_weights` must be finite, at least 0 and not all 0. Received: {task_weights!r}"
        )
    return weights


def make_loss(kind):
    """The loss of a task: `"binary"`, `"regression"` or `"multiclass"`.

    Each is a mean over the rows that count: the sum of losses times sample weights over the sum of
    sample weights, and 0 when that is 0 (a batch of MovieLens without any rating). Source: COMET
    (Ibrahim et al., KDD 2023), section 5.1; its public code averages ratings over the rated rows.
    """
    import keras

    losses = {
        "binary": keras.losses.BinaryCrossentropy,
        "regression": keras.losses.MeanSquaredError,
        "multiclass": keras.losses.SparseCategoricalCrossentropy,
    }
    return losses[kind](reduction="mean_with_sample_weight")


def make_metrics(kind):
    """Metrics of a task, to be weighted by sample weights: `auc`, `mse` or `accuracy`."""
    import keras

    metrics = {
        "binary": lambda: keras.metrics.AUC(name="auc"),
        "regression": lambda: keras.metrics.MeanSquaredError(name="mse"),
        "multiclass": lambda: keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
    }
    return [metrics[kind]()]


def compile_for(model, dataset, learning_rate=1e-3, task_weights=None):
    """Compiles a model for a data set: Adam, and a loss and a metric for each type of task.

    | type | loss | metric |
    |---|---|---|
    | binary | binary cross-entropy | `<task>_auc` |
    | regression | mean squared error over the rows that count | `<task>_mse` |
    | multiclass | sparse categorical cross-entropy | `<task>_accuracy` |

    Args:
        model: `keras.Model` whose outputs are a dict with the tasks of the data set.
        dataset: `comet_keras.datasets.Dataset`; its sample weights say which rows count.
        learning_rate: float or schedule, of Adam. Default 1e-3.
        task_weights: dict from task to weight. Default: equal, summing to 1.

    Returns:
        The model.

    Raises:
        ValueError: if outputs, tasks and weights do not name the same.

    Example:

    >>> from comet_keras import datasets, models
    >>> data = datasets.multi_digits(train_pairs=64, validation_pairs=32, test_pairs=32)
    >>> model = models.compile_for(models.multi_digits(), data, learning_rate=2e-3)
    >>> history = model.fit(data.train.batches(32), verbose=0)
    """
    return compile_tasks(model, dataset.tasks, learning_rate, task_weights)


def compile_tasks(model, tasks, learning_rate=1e-3, task_weights=None):
    """Compiles a model for tasks, a dict from output to its type, as `compile_for` does for a data set."""
    import keras

    outputs = set(model.output) if isinstance(model.output, dict) else model.output_names
    if set(outputs) != set(tasks):
        raise ValueError(
            f"The outputs of `model` must be the tasks of `dataset`, {sorted(tasks)}. Received: {sorted(outputs)}"
        )
    model.compile(
        keras.optimizers.Adam(learning_rate),
        loss={task: make_loss(kind) for task, kind in tasks.items()},
        loss_weights=check_task_weights(task_weights, tasks),
        weighted_metrics={task: make_metrics(kind) for task, kind in tasks.items()},
    )
    return model
