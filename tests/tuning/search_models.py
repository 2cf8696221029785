"""Models to search that train in no time or not at all, and a search as a process of its own.

Run as `python search_models.py FOLDER TRIALS WORKERS [listen=HOST:PORT|connect=HOST:PORT]`; a training that finds no
file `hung` in the folder once `$HANG_AT` have begun makes one, with its process's number, and hangs.
"""

import os
import sys
import time
from pathlib import Path

import keras
import numpy as np

from comet_keras.tuning import search_model

X = np.linspace(-1, 1, 16, dtype="float32").reshape(8, 2)
Y = X.sum(axis=1, keepdims=True)
DATA = [(X, Y), (X[:5], Y[:5]), (X[5:], Y[5:])]


def trained(hp):
    rate = hp.Float("learning_rate", 1e-3, 1e-1, sampling="log")
    return small(rate, hp.Choice("units", [2, 3]))


def small(rate, units=2):
    """A model without a graph to compile."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(rate), "mse", metrics=["mae"], run_eagerly=True)
    return model


def instant(hp):
    model = Instant(hp.Float("learning_rate", 1e-3, 1e-1, sampling="log"), hp.Choice("units", [2, 3]))
    model.compile("sgd", "mse")
    return model


class Instant(keras.Model):
    """Knows its losses without training; they depend on the hyperparameters, the epoch and the seed."""

    def __init__(self, rate, units):
        inputs = keras.Input((1,))
        super().__init__(inputs, keras.layers.Dense(1)(inputs))
        self.rate, self.units = rate, units

    def fit(self, epochs, callbacks, **_):
        losses = [abs(np.log10(self.rate) + 2) + self.units / (epoch + 1) for epoch in range(epochs)]
        losses = [loss + 0.01 * np.random.uniform() for loss in losses]
        history = keras.callbacks.CallbackList(callbacks, add_history=True, model=self)
        history.on_train_begin()
        for epoch, loss in enumerate(losses):
            history.on_epoch_begin(epoch)
            history.on_epoch_end(epoch, {"loss": loss, "val_loss": loss, "val_mae": loss})
        history.on_train_end()
        return self.history

    def evaluate(self, **_):
        return {"loss": self.units, "mae": self.rate}


class Log(keras.callbacks.Callback):
    """Writes each training's learning rate into a file as it begins."""

    def __init__(self, folder):
        super().__init__()
        self.folder = Path(folder)

    def on_train_begin(self, logs=None):
        with open(self.folder / "begun", "a") as file:
            file.write(f"{self.model.rate}\n")
        begun = len((self.folder / "begun").read_text().splitlines())
        if begun >= int(os.environ.get("HANG_AT", 10**9)):
            try:
                partial = self.folder / f"hung.{os.getpid()}"
                partial.write_text(str(os.getpid()))
                os.link(partial, self.folder / "hung")
            except FileExistsError:
                return
            time.sleep(600)


def search_in(folder, trials, workers=1, **options):
    options = {"epochs": 2, "callbacks": [Log(folder)], "seed": 3, **options}
    return search_model(instant, DATA, trials=trials, folder=folder, workers=workers, **options)


if __name__ == "__main__":
    search_in(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), **dict(option.split("=") for option in sys.argv[4:]))
