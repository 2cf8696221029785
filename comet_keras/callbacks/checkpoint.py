import json
import time
import zipfile
from pathlib import Path

import keras
import numpy as np

from comet_keras.callbacks.harden import HardenPermutation
from comet_keras.callbacks.training_log import TrainingLog
from comet_keras.files import write_whole

STATE = "state"
# What Keras' own callback and ours have to remember from epoch to epoch, beyond the model's weights.
REMEMBERED = {
    keras.callbacks.EarlyStopping: ("wait", "best", "best_epoch", "stopped_epoch"),
    HardenPermutation: ("report",),
    TrainingLog: ("history", "completed"),
}


class TrainingCheckpoint(keras.callbacks.Callback):
    """Saves after every epoch what a training needs to go on as if it had not stopped.

    That is every variable of the model, states of random numbers included, every variable of the
    optimizer, and what `EarlyStopping`, `HardenPermutation` and `TrainingLog` remember. With `resume`
    all of it is put back when training begins. The file is replaced as a whole, so that a kill at any
    moment leaves the last complete one.

    Put it last among the callbacks, and start `fit` at `initial_epoch=checkpoint.epoch` with the data
    order of that epoch (`Split.endless_batches(..., first_epoch=checkpoint.epoch)`).

    Args:
        path: file to write.
        callbacks: list of the other callbacks of the training; those of one class in the same order when it
            resumes.
        description: dict of JSON values that is kept in the file, see `read_description`.
        resume: bool, whether to continue from the file. Default False.

    Attributes:
        epoch: int, epochs completed before this training began.
        seconds: float, wall time of training so far, that of earlier processes included.
        stopped: bool, whether early stopping had ended the training.

    Raises:
        FileNotFoundError, ValueError: with `resume`, if there is no such file or it is not a checkpoint.

    Example:

    ```python
    callbacks = [HardenPermutation(epochs=5, verbose=0)]
    checkpoint = TrainingCheckpoint("checkpoint.npz", callbacks)  # later: resume=True
    model.fit(x, y, epochs=1, initial_epoch=checkpoint.epoch, verbose=0, callbacks=[*callbacks, checkpoint])
    ```
    """

    def __init__(self, path, callbacks, description=None, resume=False):
        super().__init__()
        self.path, self.callbacks, self.description = Path(path), list(callbacks), description or {}
        self._state, self._arrays = _read(self.path) if resume else ({}, {})
        self.epoch = self._state.get("epoch", 0)
        self.stopped = self._state.get("stopped", False)
        self._seconds_before = self._state.get("seconds", 0.0)
        self._started = None

    @property
    def seconds(self):
        return self._seconds_before + (time.perf_counter() - self._started if self._started else 0.0)

    def on_train_begin(self, logs=None):
        self._started = time.perf_counter()
        if not self._state:
            self._save(epoch=0)
            return
        for name, variables in self._variables().items():
            self._restore(name, variables)
        for key, callback, names in self._remembering():
            for name, value in self._state["callbacks"].get(key, {}).items():
                if name in names:
                    setattr(callback, name, value)
            if isinstance(callback, keras.callbacks.EarlyStopping):
                callback.best_weights = self._saved(f"best-{key}") or None
        self._arrays = {}

    def on_epoch_end(self, epoch, logs=None):
        self._save(epoch + 1)

    def _variables(self):
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        return {"model": self.model.variables, "optimizer": optimizer.variables}

    def _restore(self, name, variables):
        saved = self._saved(name)
        shapes = [tuple(variable.shape) for variable in variables], [array.shape for array in saved]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{self.path} does not fit: it was written for another {name}.")
        for variable, array in zip(variables, saved):
            variable.assign(array)

    def _saved(self, name):
        return [self._arrays[key] for key in sorted(self._arrays) if key.startswith(f"{name}/")]

    def _remembering(self):
        """Key, callback and attributes of each callback that remembers something."""
        for kind, names in REMEMBERED.items():
            alike = [callback for callback in self.callbacks if isinstance(callback, kind)]
            for i, callback in enumerate(alike):
                yield f"{kind.__name__}-{i}", callback, names

    def _save(self, epoch):
        arrays = {}

        def keep(name, values):
            arrays.update({f"{name}/{i:05d}": _native(value) for i, value in enumerate(values)})

        for name, variables in self._variables().items():
            keep(name, [keras.ops.convert_to_numpy(variable) for variable in variables])
        state = {
            "epoch": epoch,
            "seconds": self.seconds,
            "stopped": bool(self.model.stop_training),
            "description": self.description,
            "callbacks": {},
        }
        for key, callback, names in self._remembering():
            values = {name: getattr(callback, name, None) for name in names}
            state["callbacks"][key] = {n: v.item() if hasattr(v, "item") else v for n, v in values.items()}
            # Before the first epoch there are none.
            keep(f"best-{key}", getattr(callback, "best_weights", None) or [])
        text = json.dumps(state)

        def write(path):
            with open(path, "wb") as file:  # given a path, numpy would add a suffix
                np.savez(file, **arrays, **{STATE: text})

        write_whole(self.path, write)


def _native(array):
    """bfloat16 and its like, which numpy's files do not know, as float32, which holds all their values."""
    array = np.asarray(array)
    return array if array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1 else array.astype("float32")


def read_description(path):
    """The description that a checkpoint was written with.

    Raises:
        FileNotFoundError, ValueError: if there is no such file or it is not a checkpoint.
    """
    return _read(Path(path))[0]["description"]


def _read(path):
    if not path.is_file():
        raise FileNotFoundError(f"There is no checkpoint {str(path)!r}.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        state = json.loads(str(arrays.pop(STATE)))
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a complete checkpoint: {error}") from None
    return state, arrays
