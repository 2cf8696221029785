import warnings

import keras

from comet_keras.permutation import Permutation
from comet_keras.validation import positive_int


class HardenPermutation(keras.callbacks.Callback):
    """Runs the two stages of local search: soft permutations first, then hard ones.

    Tells every `Permutation` of the model how many training steps the first stage has, keeps its hard
    permutation up to date for evaluation, and hardens it once these steps are done. All state lies in the
    model's weights: a stage that training left unfinished is carried on by the next `fit`, also in another
    process, and weights that early stopping restores come with their own permutation. Source: COMET
    (Ibrahim et al., KDD 2023), section 4.3.

    Args:
        epochs: int >= 1, length of the first stage. The paper tunes 1 to 10. Default 5.
        steps_per_epoch: int, training steps in an epoch; only needed for a first epoch over a data set
            of unknown length, whose temperature stays at the start otherwise.
        verbose: 0 or 1. 1 prints a line when the permutations harden, and one with the change of the
            training loss after the next epoch. Default 1.

    Adds to the logs `permutation_distance` (Frobenius norm of S - P, the largest over permutations) and
    `permutation_row_deviation`; 0 once hard.

    Attributes:
        report: dict, once this callback has hardened: `epoch`, `distance`, `row_deviation`, and the mean
            training loss of that epoch (`loss_before`) and of the next (`loss_after`).

    Example:

    ```python
    model.fit(x, y, epochs=20, callbacks=[HardenPermutation(epochs=5)])
    ```
    """

    def __init__(self, epochs=5, steps_per_epoch=None, verbose=1):
        super().__init__()
        self.epochs = positive_int("epochs", epochs)
        if steps_per_epoch is not None:
            positive_int("steps_per_epoch", steps_per_epoch)
        self.steps_per_epoch = steps_per_epoch
        self.verbose = verbose
        self.report = {}
        self._epoch = 0
        self._figures = None
        self._steps_before = 0

    def permutations(self, built=True):
        """The permutation layers of the model that train, and by default are built."""
        # Through self.model each time: on JAX the layers hold no values within an epoch.
        layers = self.model._flatten_layers(include_self=False, recursive=True)
        layers = [layer for layer in layers if isinstance(layer, Permutation) and layer.trainable]
        return [layer for layer in layers if layer.built or not built]

    def on_train_begin(self, logs=None):
        if self.verbose and not self.permutations(built=False):
            warnings.warn(
                f"HardenPermutation: model {self.model.name!r} has no Permutation layer that trains."
            )
        self._set_stage(self.steps_per_epoch or (self.params or {}).get("steps"))
        self._renew()

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        self._figures = None
        self._steps_before = self._steps_done()

    def on_test_begin(self, logs=None):
        self._renew()

    def on_epoch_end(self, epoch, logs=None):
        if not self._stage_is_known():
            self._set_stage(self._steps_done() - self._steps_before)
        self._renew()
        logs = {} if logs is None else logs
        if self._figures:
            logs["permutation_distance"] = self._figures["distance"]
            logs["permutation_row_deviation"] = self._figures["row_deviation"]
        self._report_loss(epoch, logs.get("loss"))

    def on_train_end(self, logs=None):
        self._renew()

    def _steps_done(self):
        return max((int(layer.step.numpy()) for layer in self.permutations()), default=0)

    def _stage_is_known(self):
        return all(int(layer.stage_steps.numpy()) > 0 for layer in self.permutations())

    def _set_stage(self, steps_per_epoch):
        stage_steps = self.epochs * steps_per_epoch if steps_per_epoch else None
        for layer in self.permutations(built=False):
            layer.begin(stage_steps)

    def _renew(self):
        """Rounds the soft permutations, and hardens those whose stage is over."""
        figures, hardened = [], False
        for layer in self.permutations():
            soft = not bool(layer.hardened.numpy())
            over = 0 < int(layer.stage_steps.numpy()) <= int(layer.step.numpy())
            figures.append(layer.harden() if over else layer.round())
            hardened = hardened or (soft and over)
        if figures and (self._figures is None or not self.report):
            self._figures = {name: max(f[name] for f in figures) for name in figures[0]}
        if hardened:
            self.report = {"epoch": self._epoch, **self._figures}
            self._print(
                f"Epoch {self._epoch + 1}: permutation hardened, ||S - P|| = "
                f"{self.report['distance']:.4f}, largest row deviation "
                f"{self.report['row_deviation']:.4f}."
            )

    def _report_loss(self, epoch, loss):
        if loss is None or not self.report:
            return
        if epoch == self.report["epoch"]:
            self.report["loss_before"] = float(loss)
        elif "loss_before" in self.report and "loss_after" not in self.report:
            self.report["loss_after"] = float(loss)
            self._print(
                f"Epoch {epoch + 1}: training loss {self.report['loss_before']:.4f} with the soft "
                f"permutation, {loss:.4f} after hardening."
            )

    def _print(self, message):
        if self.verbose:
            print(f"\n{message}", flush=True)
