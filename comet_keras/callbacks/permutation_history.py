"""The soft permutations of a training run, epoch by epoch."""

import keras

from comet_keras.permutation import Permutation


class PermutationHistory(keras.callbacks.Callback):
    """Keeps the soft permutation matrices of the first stage, for `permutation_evolution`.

    Place it before `HardenPermutation`, so that it sees the matrix that is about to harden.

    Attributes:
        soft: dict from a permutation's name to a dict from epoch to the matrix S `(n, n)`: 0 before
            training, then at the end of each epoch until it is hard. A layer whose name is taken gets a
            number behind it.
        hard: dict from name to the permutation `(n, n)` at the end of training.

    Example:

    >>> from comet_keras.callbacks import PermutationHistory
    >>> history = PermutationHistory()
    >>> history.soft  # filled by model.fit(..., callbacks=[history, HardenPermutation(epochs=5)])
    {}
    """

    def __init__(self):
        super().__init__()
        self.soft, self.hard = {}, {}
        self._epoch = None

    def on_train_begin(self, logs=None):
        self.soft, self.hard = {}, {}
        self._record(0)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_test_begin(self, logs=None):
        # Validation hardens already, before the epoch ends.
        if self._epoch is not None:
            self._record(self._epoch + 1)

    def on_epoch_end(self, epoch, logs=None):
        self._record(epoch + 1)

    def on_train_end(self, logs=None):
        self._epoch = None
        self.hard = {name: layer.hard_matrix() for name, layer in self._permutations().items()}

    def _permutations(self):
        # Through self.model each time: on JAX the layers hold no values within an epoch.
        layers = {}
        for layer in self.model._flatten_layers(include_self=False, recursive=True):
            if isinstance(layer, Permutation) and layer.built:
                name, copy = layer.name, 2
                while name in layers:
                    name, copy = f"{layer.name}_{copy}", copy + 1
                layers[name] = layer
        return layers

    def _record(self, epoch):
        for name, layer in self._permutations().items():
            matrices = self.soft.setdefault(name, {})
            if not bool(keras.ops.convert_to_numpy(layer.hardened)):
                matrices[epoch] = layer.soft_matrix()
