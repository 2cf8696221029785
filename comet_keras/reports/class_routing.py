"""Which experts a model routes the rows of each class to."""

from dataclasses import dataclass

import numpy as np

from comet_keras.reports.tables import text_table
from comet_keras.validation import positive_int

MOST_LABELS = 20  # a task with more distinct targets is cut into ranges
RANGES = 5


@dataclass(frozen=True, eq=False)
class ClassRouting:
    """The routing of one gate, by the labels of one task.

    Attributes:
        gate: str, the gate's label (as in `RoutingMonitor`; `""` for a single gate).
        task: str, whose labels are counted.
        labels: list of str, c classes or ranges of values.
        rows: int array `(c,)`, rows of each.
        used: int array `(c, n)`, rows of a class that give an expert a weight of at least 1e-5.
        chosen: int array `(c, n)`, rows of a class whose largest weight is the expert's.
        mutual_information: float, I(E;Y) in bits between label and chosen expert.
        label_entropy: float, H(Y) in bits: the most that experts can tell of the label.
    """

    gate: str
    task: str
    labels: list
    rows: np.ndarray
    used: np.ndarray
    chosen: np.ndarray
    mutual_information: float
    label_entropy: float

    @property
    def shares(self):
        """Share of each class's rows that go to each expert, `(c, n)`; a class's shares add up to its
        experts per sample."""
        return self.used / np.maximum(self.rows, 1)[:, None]

    @property
    def title(self):
        """Gate and task, as one name where they agree."""
        return self.task if self.gate in ("", self.task) else f"{self.task}, gate {self.gate}"

    def __str__(self):
        experts = [str(i) for i in range(self.used.shape[1])]
        rows = [
            [label, int(count), *(f"{100 * share:.0f}%" for share in shares)]
            for label, count, shares in zip(self.labels, self.rows, self.shares)
        ]
        return "\n\n".join(
            [
                f"{self.title}: share of each class's rows that go to each expert",
                text_table(rows, ["class", "rows", *experts]),
                f"I(expert; class) = {self.mutual_information:.3f} of {self.label_entropy:.3f} bits",
            ]
        )


def class_routing(model, split, tasks, batch_size=2048):
    """The experts that rows of each class go to, for every task of a model.

    A task's labels are counted for the gate of its name, or where there is none, for every gate that has no
    task's name. Classes are the labels of a yes-or-no or multi-class task, and the distinct values of one of
    regression, or five ranges of as many rows each where there are more than 20 values. Rows of sample
    weight 0 do not count. Mutual information is I(E;Y) = H(E) + H(Y) - H(E,Y) with E the expert of largest
    weight and Y the label (the attentive gate paper, Krishnamurthy et al., 2023, section 3). In a mixture
    the weights are those that reach the experts, after the permutation.

    Args:
        model: a built `keras.Model` with gates of this package.
        split: `comet_keras.datasets.Split`.
        tasks: dict from target to `"binary"`, `"regression"` or `"multiclass"`, as `Dataset.tasks`.
        batch_size: int. Default 2048.

    Returns:
        List of `ClassRouting`.

    Raises:
        ValueError: if the model has no gate, a gate does not weigh each row once, or there are no rows.

    Example:

    >>> from comet_keras import datasets, models
    >>> from comet_keras.reports import class_routing
    >>> data = datasets.multi_digits(train_pairs=20, validation_pairs=20, test_pairs=50)
    >>> routing = class_routing(models.multi_digits(gate="topk"), data.test, data.tasks)
    >>> [r.task for r in routing], int(routing[0].used.sum())
    (['top_left', 'bottom_right'], 100)
    """
    from comet_keras.metrics import mutual_information
    from comet_keras.metrics.routing import SUPPORT_THRESHOLD

    weights = _gate_weights(model, split, positive_int("batch_size", batch_size))
    found = []
    for task, kind in tasks.items():
        counted = np.asarray(split.sample_weights[task]) > 0
        if not counted.any():
            raise ValueError(f"`split` has no row with a label of task {task!r}.")
        codes, labels = _classes(np.asarray(split.targets[task])[counted], kind)
        rows = np.bincount(codes, minlength=len(labels))
        for gate in [task] if task in weights else [gate for gate in weights if gate not in tasks]:
            w = weights[gate][counted]
            used = _count(codes, w >= SUPPORT_THRESHOLD, len(labels))
            chosen = _count(codes, np.eye(w.shape[1])[w.argmax(axis=1)], len(labels))
            information = float(mutual_information(chosen.astype("float64")))
            found.append(ClassRouting(gate, task, labels, rows, used, chosen, information, _entropy(rows)))
    return found


def _gate_weights(model, split, batch_size):
    """Dict from gate label to the weights `(N, n)` that its experts receive in inference."""
    import keras
    from keras import ops

    from comet_keras.metrics import gates_of

    gates = gates_of(model)
    if not gates:
        raise ValueError(f"Model {model.name!r} has no gate whose routing could be shown.")
    if not len(split):
        raise ValueError("`split` holds no rows.")
    heard = {label: [] for label in gates}

    def listen(label):
        return lambda weights, *args, **kwargs: heard[label].append(
            np.asarray(ops.convert_to_numpy(ops.cast(weights, "float32")))
        )

    # On the instances alone, past Keras' tracking of attributes, so that nothing of it stays.
    try:
        for label, gate in gates.items():
            vars(gate)["observe"] = listen(label)
        batches = split.batches(batch_size)
        is_tensorflow = keras.backend.backend() == "tensorflow"
        for batch in batches if is_tensorflow else batches.as_numpy_iterator():
            model(batch[0], training=False)
    finally:
        for gate in gates.values():
            vars(gate).pop("observe", None)
    for label, parts in heard.items():
        shapes = {part.ndim for part in parts}
        if shapes != {2} or sum(map(len, parts)) != len(split):
            raise ValueError(f"Gate {label!r} must weigh each row of `split` once, to be shown by class.")
    return {label: np.concatenate(parts) for label, parts in heard.items()}


def _classes(targets, kind):
    """The class of each row `(N,)` and the names of the classes."""
    targets = targets.reshape(len(targets))
    values, codes = np.unique(targets, return_inverse=True)
    if kind != "regression" or len(values) <= MOST_LABELS:
        return codes, [f"{value:g}" for value in values]
    edges = np.unique(np.quantile(targets, np.arange(1, RANGES) / RANGES))
    codes = np.searchsorted(edges, targets)
    _, codes = np.unique(codes, return_inverse=True)  # without ranges that no row is in
    inside = [targets[codes == code] for code in range(codes.max() + 1)]
    return codes, [f"{part.min():g} to {part.max():g}" for part in inside]


def _count(codes, marks, num_classes):
    """How many rows of each class have each mark: `(classes, n)` from marks `(N, n)`."""
    classes = np.eye(num_classes, dtype="int64")[codes]
    return classes.T @ marks.astype("int64")


def _entropy(counts):
    """In bits; every count is above 0."""
    p = counts / counts.sum()
    return float(np.sum(p * np.log2(1 / p)))
