"""A user's own model as a KerasTuner hypermodel. Imports KerasTuner; import it only to search."""

import copy

import keras
import keras_tuner

from comet_keras.datasets import Dataset, Split
from comet_keras.tuning.executions import Execution, final_epoch
from comet_keras.tuning.hypermodel import FailOnNaN
from comet_keras.tuning.objectives import Objective


class ModelHyperModel(keras_tuner.HyperModel):
    """Builds and trains what a function returns; see `comet_keras.tuning.search_model`.

    Args:
        build: function from `keras_tuner.HyperParameters` to a compiled `keras.Model`.
        data: `comet_keras.datasets.Dataset`, or the training, validation and (optionally) test data: each
            a tuple `(x, y)` or `(x, y, sample_weight)`, or a `tf.data.Dataset` or other data that Keras
            can read more than once.
        epochs: int.
        patience: int or None, for early stopping by the objective.
        batch_size: int, of data that is not in batches already.
        callbacks: Keras callbacks; each training gets copies.
        seed: int.

    Raises:
        ValueError: if `build` is no function or `data` is none of the above.
    """

    declares = False

    def __init__(self, build, data, epochs=10, patience=None, batch_size=32, callbacks=(), seed=0):
        super().__init__(name=getattr(build, "__name__", "model"))
        if not callable(build):
            raise ValueError(f"`build` must be a function of hyperparameters. Received: build={build!r}")
        self.function, self.parts = build, _parts(data)
        self.epochs, self.patience, self.batch_size = epochs, patience, batch_size
        self.callbacks, self.seed = list(callbacks), seed
        self.objective = Objective("val_loss", "min")

    def prepare(self):
        """There is nothing to load."""

    def build(self, hp):
        """The compiled model of a trial."""
        model = self.function(hp)
        if not isinstance(model, keras.Model) or not model.compiled:
            raise ValueError(f"`build` must return a compiled keras.Model. Received: {model!r}")
        return model

    def hyperparameters(self, hp):
        """What a trial is recorded with: a dict of the searched values, and the epochs of Hyperband."""
        values = {name: value for name, value in hp.values.items() if not name.startswith("tuner/")}
        return {**values, "epochs": self._epochs(hp)} if "tuner/epochs" in hp.values else values

    def probe(self, model):
        """One step on validation data, which builds the model; returns the names of its figures."""
        x = self._arguments(self.parts[1])
        figures = model.evaluate(**x, steps=1, return_dict=True, verbose=0)
        return [f"val_{name}" for name in figures]

    def execute(self, hp, execution):
        """Trains the model of a trial with the seed `seed + execution`; returns an `Execution`.

        Raises:
            TrialFailed: if a loss becomes NaN or infinite.
        """
        keras.utils.set_random_seed(self.seed + execution)
        model = self.build(hp)
        train, validation, *test = self.parts
        history = model.fit(
            **self._arguments(train, shuffle=True),
            **self._validation(validation),
            epochs=self._epochs(hp),
            callbacks=[*copy.deepcopy(self.callbacks), FailOnNaN(), *self._early_stopping()],
            shuffle=isinstance(train, tuple),  # a tf.data.Dataset shuffles itself
            verbose=0,
        ).history
        epoch = final_epoch(history, self.objective, self.patience is not None)
        figures = model.evaluate(**self._arguments(test[0]), return_dict=True, verbose=0) if test else {}
        return Execution(
            model,
            score=float(history[self.objective.name][epoch]),
            validation_loss=float(history["val_loss"][epoch]),
            test_loss=figures.get("loss"),
            epochs=len(history["val_loss"]),
        )

    def _epochs(self, hp):
        return hp.values.get("tuner/epochs", self.epochs)

    def _early_stopping(self):
        if self.patience is None:
            return []
        watched = {"monitor": self.objective.name, "mode": self.objective.direction}
        return [keras.callbacks.EarlyStopping(**watched, patience=self.patience, restore_best_weights=True)]

    def _arguments(self, part, shuffle=False):
        if isinstance(part, Split):
            seed = self.seed if shuffle else None
            return {"x": part.batches(self.batch_size, shuffle=shuffle, seed=seed)}
        if isinstance(part, tuple):
            return {**dict(zip(("x", "y", "sample_weight"), part)), "batch_size": self.batch_size}
        return {"x": part}

    def _validation(self, part):
        if isinstance(part, tuple):
            return {"validation_data": part, "validation_batch_size": self.batch_size}
        return {"validation_data": self._arguments(part)["x"]}


def _parts(data):
    """Training, validation and perhaps test data, as a list."""
    if isinstance(data, Dataset):
        return [data.train, data.validation, data.test]
    if not isinstance(data, (tuple, list)) or len(data) not in (2, 3):
        raise ValueError(
            "`data` must be a Dataset, or training, validation and perhaps test data. "
            f"Received: {type(data).__name__}"
        )
    parts = [tuple(part) if isinstance(part, list) else part for part in data]
    for part in parts:
        if isinstance(part, tuple) and not 2 <= len(part) <= 3:
            raise ValueError(f"Each part of `data` must be (x, y) or (x, y, weights). Received: {len(part)} entries")
        if hasattr(part, "__next__"):
            raise ValueError("`data` must be readable more than once, which a generator is not.")
    return parts
