import warnings

import keras

from comet_keras.metrics import gates_of
from comet_keras.metrics.statistics import gathering


class RoutingMonitor(keras.callbacks.Callback):
    """Puts routing statistics into the progress bar, logs and history, and warns of collapse.

    For each gate, of the epoch's training rows and with `val_` in front of the validation rows:

    - `experts_per_sample`: mean number of experts with a weight of at least 1e-5;
    - `gate_entropy`: H_s, mean entropy of a sample's weights, in bits;
    - `expert_usage_entropy`: H_u, entropy of the mean weights, in bits (log2 n when all are used alike);
    - `largest_expert_share`: mean weight of the expert that receives most;
    - `<term>_loss`: each loss term of the gate, in training (`entropy_loss`, `importance_loss`, ...).

    Names start with the gate's key in its mixture (`watch_experts_per_sample`; nothing for a single
    gate), or the name of a gate outside a mixture; when a model routes in several places, with the
    mixture's name before that. They do not depend on how many tasks a model has. In a mixture the weights
    are those that reach the experts, after the permutation. Place this callback before those that read
    these logs.

    A gate that sends nearly all weight to as few experts as one sample may use, when it has more, is
    reported once as a warning.

    Args:
        warn: bool, whether to warn of collapse. Default True.

    Attributes:
        usage: dict from gate label to the expert usage `(n,)` of the last epoch's training rows.
        validation_usage: the same of validation rows.

    Example:

    ```python
    history = model.fit(x, y, callbacks=[RoutingMonitor()])
    history.history["largest_expert_share"]
    ```
    """

    def __init__(self, warn=True):
        super().__init__()
        self.warn = warn
        self.usage, self.validation_usage = {}, {}
        self._warned = set()
        self._training, self._validation = {}, {}
        self._test_function = None
        self._in_training = False

    def on_train_begin(self, logs=None):
        self._in_training = True

    def on_epoch_begin(self, epoch, logs=None):
        self._training, self._validation = {}, {}
        self._reset()

    def on_test_begin(self, logs=None):
        self._training = self._read()
        self._reset()
        self._gather_in_evaluation()

    def _gather_in_evaluation(self):
        """Evaluation gathers nothing unless its function is traced within the scope."""
        if self._test_function is not None and self.model.test_function is self._test_function:
            return
        self.model.make_test_function(force=True)
        evaluate = self.model.test_function

        def evaluate_and_gather(*args):
            with gathering():
                return evaluate(*args)

        self.model.test_function = self._test_function = evaluate_and_gather

    def on_test_end(self, logs=None):
        self._validation = self._read()
        self.validation_usage = {
            label: figures["expert_usage"] for label, figures in self._validation.items()
        }
        self._reset()
        if not self._in_training:
            self._forget_test_function()

    def on_train_end(self, logs=None):
        self._in_training = False
        self._forget_test_function()

    def _forget_test_function(self):
        """Evaluation without this callback shall gather nothing, and change no weight."""
        if self._test_function is not None:
            self._test_function = None
            self.model.make_test_function(force=True)

    def on_epoch_end(self, epoch, logs=None):
        if not gates_of(self.model) and not self._warned:
            self._warned.add("no gate")
            warnings.warn(f"RoutingMonitor: model {self.model.name!r} has no gate to watch.")
        training = self._training or self._read()
        self.usage = {label: figures["expert_usage"] for label, figures in training.items()}
        if logs is not None:
            logs.update(_flatten(training))
            logs.update(_flatten(self._validation, "val_"))
        if self.warn:
            self._warn_of_collapse(epoch, training)

    def _read(self):
        figures = {label: gate.statistics.read() for label, gate in gates_of(self.model).items()}
        return {label: figure for label, figure in figures.items() if figure}

    def _reset(self):
        for gate in gates_of(self.model).values():
            gate.statistics.reset()

    def _warn_of_collapse(self, epoch, figures):
        for label, gate in gates_of(self.model).items():
            if label in self._warned or label not in figures:
                continue
            effective = 2 ** figures[label]["expert_usage_entropy"]
            # A gate that uses all experts a sample (softmax) may still use few of them overall.
            per_sample = gate.k if gate.k < gate.num_experts else 1
            few = 1.1 * max(per_sample, gate.num_experts / 8)
            share = figures[label]["largest_expert_share"]
            # A training that has diverged has other troubles than a collapse.
            if gate.num_experts > per_sample and effective <= few and share == share:
                self._warned.add(label)
                warnings.warn(
                    f"Epoch {epoch + 1}: gate {label or gate.name!r} has collapsed onto few experts. "
                    f"Of {gate.num_experts} experts it uses {effective:.1f} (2^H_u), and one receives "
                    f"{share:.0%} of the weight. A balancing term (comet_keras.regularizers.Importance), "
                    "a smaller entropy weight or learning rate, or local search may help."
                )


def _flatten(figures, prefix=""):
    return {
        prefix + "_".join(part for part in (label, name) if part): value
        for label, figure in figures.items()
        for name, value in figure.items()
        if name != "expert_usage"
    }
