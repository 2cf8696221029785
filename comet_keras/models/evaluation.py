"""Losses and metrics of predictions, exact over a whole data set."""

import numpy as np

from comet_keras.models.losses import check_task_weights

EPSILON = 1e-7  # Keras keeps probabilities this far from 0 and 1


def evaluate_exactly(model, split, tasks, task_weights=None, batch_size=2048):
    """Losses and metrics over all rows of a split, without regularization terms.

    Each task's loss is one weighted mean over the split, in float64; a mean of batch means, which
    `model.evaluate` returns, differs where rows count unequally (MovieLens ratings) or the last batch
    is smaller.

    Args:
        model: `keras.Model` whose outputs are a dict with the tasks.
        split: `comet_keras.datasets.Split` of at least one row.
        tasks: dict from task to `"binary"`, `"regression"` or `"multiclass"`.
        task_weights: dict from task to weight. Default: equal, summing to 1.
        batch_size: int, of prediction; without effect on the result. Default 2048.

    Returns:
        Dict with `loss`, the weighted sum of the tasks' losses, and `tasks`: for each task a dict with
        `loss`, `rows` (how many count) and `auc` and `accuracy`, `mse`, or `accuracy`. They are NaN when no
        row counts, the AUC also when all rows have one label; a task without rows adds 0 to the loss.

    Raises:
        ValueError: if `task_weights` do not name the tasks.

    Example:

    >>> from comet_keras import datasets, models
    >>> data = datasets.multi_digits(train_pairs=64, validation_pairs=32, test_pairs=32)
    >>> result = models.evaluate_exactly(models.multi_digits(), data.test, data.tasks)
    >>> result["tasks"]["top_left"]["rows"]
    32
    """
    task_weights = check_task_weights(task_weights, tasks)
    predictions = model.predict(split.batches(batch_size), verbose=0)
    figures = {
        task: evaluate_task(kind, split.targets[task], predictions[task], split.sample_weights[task])
        for task, kind in tasks.items()
    }
    loss = sum(task_weights[task] * figure["loss"] for task, figure in figures.items() if figure["rows"])
    return {"loss": float(loss), "tasks": figures}


def evaluate_task(kind, targets, predictions, weights):
    """Loss and metric of one task.

    Args:
        kind: `"binary"`, `"regression"` or `"multiclass"`.
        targets: array `(N,)`.
        predictions: array `(N,)` or `(N, 1)`; `(N, classes)` probabilities of a multiclass task.
        weights: array `(N,)`, sample weights; rows of weight 0 do not count, whatever they hold.

    Returns:
        Dict with `loss`, `rows` and, by the kind, `auc` and `accuracy`, `mse`, or `accuracy`.
    """
    counts = np.asarray(weights) > 0
    weights = np.asarray(weights, "float64")[counts]
    targets = np.asarray(targets)[counts]
    predictions = np.asarray(predictions, "float64")[counts]
    losses, metrics = _FIGURES[kind](targets, predictions, weights)
    return {"loss": _mean(losses, weights), "rows": int(counts.sum()), **metrics}


def _binary(targets, predictions, weights):
    scores = predictions.reshape(len(targets))
    p = np.clip(scores, EPSILON, 1 - EPSILON)
    losses = -(targets * np.log(p) + (1 - targets) * np.log1p(-p))
    accuracy = _mean((scores > 0.5) == (targets > 0.5), weights)
    return losses, {"auc": _auc(targets, scores, weights), "accuracy": accuracy}


def _regression(targets, predictions, weights):
    losses = (predictions.reshape(len(targets)) - targets) ** 2
    return losses, {"mse": _mean(losses, weights)}


def _multiclass(targets, predictions, weights):
    targets = targets.astype(int)
    p = predictions / predictions.sum(axis=-1, keepdims=True)
    chosen = p[np.arange(len(targets)), targets]
    losses = -np.log(np.clip(chosen, EPSILON, 1 - EPSILON))
    return losses, {"accuracy": _mean(predictions.argmax(axis=-1) == targets, weights)}


_FIGURES = {"binary": _binary, "regression": _regression, "multiclass": _multiclass}


def _mean(values, weights):
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def _auc(targets, scores, weights):
    if len(np.unique(targets)) < 2 or not np.isfinite(scores).all():
        return float("nan")
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(targets, scores, sample_weight=weights))
