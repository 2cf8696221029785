"""What every data set returns: arrays by name, in three splits, with their tasks described."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from comet_keras.datasets.pipeline import batched
from comet_keras.validation import one_of, positive_int

TASKS = ("binary", "regression", "multiclass")


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Rows of a data set: arrays by name, all with the same first axis.

    Args:
        features: dict of arrays `(N, ...)`, at least one: the model's inputs.
        targets: dict of arrays `(N, ...)`, at least one: one entry a task.
        sample_weights: dict of arrays `(N,)`, a weight of each row for each
            target. A target without weights gets ones (float32): Keras wants
            weights for every output or for none.
        transform: function from a batch of `features` (a dict of TensorFlow
            tensors) to the model's inputs (the same), applied batch by batch.
            With it `features` may be small, such as row numbers, file names or
            bytes, where the inputs as floats would not fit into memory. By
            default the features are the inputs.

    Raises:
        ValueError: if arrays disagree in length, or weights name no target.

    Example:

    >>> import numpy as np
    >>> from comet_keras.datasets import Split
    >>> split = Split({"x": np.arange(5)}, {"y": np.arange(5.0)})
    >>> len(split), len(split.take(2)), len(split.take([4, 0, 1]))
    (5, 2, 3)
    >>> [len(x["x"]) for x, y, weights in split.batches(2)]
    [2, 2, 1]
    """

    features: dict
    targets: dict
    sample_weights: dict = field(default_factory=dict)
    transform: Callable | None = None

    def __post_init__(self):
        for part in ("features", "targets", "sample_weights"):
            arrays = getattr(self, part)
            if not isinstance(arrays, dict):
                raise ValueError(f"`{part}` must be a dict of arrays. Received: {type(arrays).__name__}")
            object.__setattr__(self, part, {name: np.asarray(array) for name, array in arrays.items()})
        for part in ("features", "targets"):
            if not getattr(self, part):
                raise ValueError(f"`{part}` must hold at least one array. Received: {part}={{}}")
        unknown = sorted(set(self.sample_weights) - set(self.targets))
        if unknown:
            raise ValueError(f"`sample_weights` has no target for {unknown}. The targets are {sorted(self.targets)}")
        for name in self.targets:
            self.sample_weights.setdefault(name, np.ones(len(self), "float32"))
        self._check_lengths()

    def _check_lengths(self):
        arrays = {
            f"{part}[{name!r}]": array
            for part in ("features", "targets", "sample_weights")
            for name, array in getattr(self, part).items()
        }
        scalars = [name for name, array in arrays.items() if array.ndim == 0]
        if scalars:
            raise ValueError(f"Every array needs a first axis of rows. Without one: {scalars}")
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"All arrays must have the same number of rows. Received: {lengths}")

    def __len__(self):
        first = next(iter(self.features.values()))
        return len(first) if first.ndim else 0

    def __repr__(self):
        return f"Split({len(self)} rows, features={list(self.features)}, targets={list(self.targets)})"

    def take(self, rows):
        """Returns the split of some rows.

        Args:
            rows: an int (the first `rows` rows), an array of row numbers in the
                wanted order, or a boolean mask `(N,)`.

        Raises:
            ValueError: if there are no such rows.
        """
        if np.ndim(rows) == 0:
            if isinstance(rows, (bool, np.bool_)) or int(rows) != rows or not 0 <= rows <= len(self):
                raise ValueError(f"`rows` must be between 0 and {len(self)}. Received: rows={rows!r}")
            index = slice(int(rows))
        else:
            index = np.asarray(rows)
            if index.size == 0:
                index = index.astype(int)  # np.asarray([]) is float
            if index.dtype.kind not in "iub" or index.ndim != 1:
                raise ValueError(f"`rows` must be a count, row numbers or a mask. Received: rows={rows!r}")
            if index.dtype.kind == "b" and len(index) != len(self):
                raise ValueError(f"`rows` as a mask must have {len(self)} entries. Received: {len(index)}")
            if index.dtype.kind != "b" and index.size and not -len(self) <= index.min() <= index.max() < len(self):
                raise ValueError(
                    f"`rows` must hold row numbers below {len(self)}. Received: {index.min()} to {index.max()}"
                )
        parts = (self.features, self.targets, self.sample_weights)
        return Split(*({name: array[index] for name, array in part.items()} for part in parts), self.transform)

    @property
    def input_shapes(self):
        """dict from each of the model's inputs to the shape of a row, a tuple."""
        if self.transform is None:
            return {name: array.shape[1:] for name, array in self.features.items()}
        return {name: tuple(spec.shape[1:]) for name, spec in self.batches(1).element_spec[0].items()}

    def batches(self, batch_size, shuffle=False, seed=None):
        """Returns a `tf.data.Dataset` of `(features, targets, sample_weights)`, ready for `fit`.

        Args:
            batch_size: int, rows in a batch. The last batch holds the rest.
            shuffle: if True, each epoch visits all rows in a new order.
            seed: int or None. The same seed gives the same sequence of orders
                (under the same global seed of TensorFlow, if one is set).

        Returns:
            A prefetched `tf.data.Dataset` of known cardinality.
        """
        arrays = (self.features, self.targets, self.sample_weights)
        return batched(arrays, len(self), positive_int("batch_size", batch_size), shuffle, seed, self.transform)

    def endless_batches(self, batch_size, seed, first_epoch=0):
        """Returns shuffled batches without end, for `fit` with `steps_per_epoch`.

        The order of an epoch follows from `seed` and the epoch's number, so that
        a training which resumes at `first_epoch` sees what it would have seen.

        Args:
            batch_size: int, rows in a batch. The last batch of an epoch holds the rest.
            seed: int.
            first_epoch: int, number of the first epoch, from 0. Default 0.

        Returns:
            A prefetched, infinite `tf.data.Dataset`; an epoch is `steps(batch_size)` batches.

        Raises:
            ValueError: if there are no rows.
        """
        if not len(self):
            raise ValueError("The split has no rows, and so no batches.")
        arrays = (self.features, self.targets, self.sample_weights)
        batch_size = positive_int("batch_size", batch_size)
        return batched(arrays, len(self), batch_size, True, seed, self.transform, first_epoch)

    def steps(self, batch_size):
        """int, batches of an epoch."""
        return -(-len(self) // positive_int("batch_size", batch_size))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three splits and what a model needs to know about them.

    Args:
        name: str.
        train, validation, test: `Split`s with the same features and targets.
        tasks: dict from target to `"binary"`, `"regression"` or `"multiclass"`.
        num_classes: dict from each multiclass target to its number of classes.
        vocabulary_sizes: dict from each feature of ids to its number of ids
            (an embedding's `input_dim`).
        description: str: source, sampling and split.

    Raises:
        ValueError: if names, shapes, classes or ids do not fit together.

    Example:

    >>> import numpy as np
    >>> from comet_keras.datasets import Dataset, Split
    >>> split = Split({"user": np.arange(4)}, {"watch": np.ones(4)})
    >>> data = Dataset("tiny", split, split, split, {"watch": "binary"}, vocabulary_sizes={"user": 4})
    >>> data.vocabulary_sizes["user"]
    4
    """

    name: str
    train: Split
    validation: Split
    test: Split
    tasks: dict
    num_classes: dict = field(default_factory=dict)
    vocabulary_sizes: dict = field(default_factory=dict)
    description: str = ""

    def __post_init__(self):
        for task, kind in self.tasks.items():
            one_of(f"tasks[{task!r}]", kind, TASKS)
        self._check_splits_agree()
        self._check_classes()
        self._check_ids()

    @property
    def splits(self):
        """dict of the three splits by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def _check_splits_agree(self):
        expected = _row_shapes(self.train)
        for name, split in self.splits.items():
            if set(split.targets) != set(self.tasks):
                raise ValueError(
                    f"`tasks` must name the targets. Received: tasks={sorted(self.tasks)}, "
                    f"{name} targets={sorted(split.targets)}"
                )
            if _row_shapes(split) != expected:
                raise ValueError(
                    f"All splits must have the same names and row shapes. "
                    f"Received: train {expected}, {name} {_row_shapes(split)}"
                )

    def _check_classes(self):
        multiclass = {task for task, kind in self.tasks.items() if kind == "multiclass"}
        if set(self.num_classes) != multiclass:
            raise ValueError(
                f"`num_classes` must name the multiclass tasks {sorted(multiclass)}. "
                f"Received: {sorted(self.num_classes)}"
            )
        for task, size in self.num_classes.items():
            for name, split in self.splits.items():
                _check_codes(f"{name} target {task!r}", split.targets[task], size, "num_classes")

    def _check_ids(self):
        unknown = sorted(set(self.vocabulary_sizes) - set(self.train.features))
        if unknown:
            raise ValueError(f"`vocabulary_sizes` has no feature for {unknown}")
        for feature, size in self.vocabulary_sizes.items():
            for name, split in self.splits.items():
                _check_codes(f"{name} feature {feature!r}", split.features[feature], size, "vocabulary_sizes")


def _row_shapes(split):
    return {
        part: {name: array.shape[1:] for name, array in sorted(getattr(split, part).items())}
        for part in ("features", "targets")
    }


def _check_codes(what, codes, size, argument):
    if codes.size and not 0 <= codes.min() <= codes.max() < size:
        raise ValueError(
            f"{what} must lie in 0..{size - 1} (`{argument}` is {size}). Received: {codes.min()} to {codes.max()}"
        )
