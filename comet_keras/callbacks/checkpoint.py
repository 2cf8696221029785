import json
import time
import zipfile
from pathlib import Path

import keras
import numpy as np

from comet_keras.files import write_whole

STATE = "state"
# What Keras' own callback and ours have to remember from epoch to epoch, beyond the model's weights.
REMEMBERED = {
    "EarlyStopping": ("wait", "best", "best_epoch", "stopped_epoch", "best_weights"),
    "HardenPermutation": ("report",),
    "TrainingLog": ("history", "completed"),
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
        path: file to write, ending in `.npz`.
        callbacks: list of the other callbacks of the training.
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
        for callback, names in self._remembering():
            saved = self._state["callbacks"].get(type(callback).__name__, {})
            for name in names:
                if name in saved:
                    setattr(callback, name, saved[name])
        self._arrays = {}

    def on_epoch_end(self, epoch, logs=None):
        self._save(epoch + 1)

    def _variables(self):
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        return {"model": self.model.variables, "optimizer": optimizer.variables}

    def _restore(self, name, variables):
        saved = [self._arrays[key] for key in sorted(self._arrays) if key.startswith(f"{name}/")]
        shapes = [tuple(variable.shape) for variable in variables], [array.shape for array in saved]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{self.path} does not fit: it was written for another {name}.")
        for variable, array in zip(variables, saved):
            variable.assign(array)

    def _remembering(self):
        return [(c, REMEMBERED[type(c).__name__]) for c in self.callbacks if type(c).__name__ in REMEMBERED]

    def _save(self, epoch):
        arrays = {}

        def keep(name, values):
            arrays.update({f"{name}/{i:05d}": np.asarray(value) for i, value in enumerate(values)})

        for name, variables in self._variables().items():
            keep(name, [keras.ops.convert_to_numpy(variable) for variable in variables])
        state = {
            "epoch": epoch,
            "seconds": self.seconds,
            "stopped": bool(self.model.stop_training),
            "description": self.description,
            "callbacks": {},
        }
        for callback, names in self._remembering():
            values = {name: getattr(callback, name, None) for name in names}
            # Before the first epoch there are none.
            keep("best_weights", values.pop("best_weights", None) or [])
            state["callbacks"][type(callback).__name__] = {
                name: value.item() if hasattr(value, "item") else value for name, value in values.items()
            }
        write_whole(self.path, lambda path: np.savez(path, **arrays, **{STATE: json.dumps(state)}))


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
    weights = [arrays[name] for name in sorted(arrays) if name.startswith("best_weights/")]
    if "EarlyStopping" in state["callbacks"]:
        state["callbacks"]["EarlyStopping"]["best_weights"] = weights or None
    return state, arrays
