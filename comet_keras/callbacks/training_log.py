import math
import sys
import time

import keras


class TrainingLog(keras.callbacks.Callback):
    """Keeps every epoch's logs, and shows a line for each.

    Unlike Keras' own history it holds the completed epochs also when training was interrupted.

    Args:
        epochs: int, planned number.
        show: bool, whether to print. On a terminal the line counts steps within an epoch.

    Attributes:
        history: dict from name to a list with a float for each completed epoch.
        completed: int, completed epochs.
    """

    REFRESH_SECONDS = 1.0

    def __init__(self, epochs, show=True):
        super().__init__()
        self.epochs, self.show = epochs, show
        self.history, self.completed = {}, 0
        self._live = show and sys.stdout.isatty()
        self._refreshed = 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        if self._live and now - self._refreshed > self.REFRESH_SECONDS:
            self._refreshed = now
            steps = (self.params or {}).get("steps") or "?"
            loss = float((logs or {}).get("loss", math.nan))
            print(f"\r\033[K{self._title()}  step {batch + 1}/{steps}  loss {loss:.4f}", end="", flush=True)

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        for name, value in logs.items():
            self.history.setdefault(name, []).append(float(value))
        if self.show:
            figures = "  ".join(f"{name} {value}" for name, value in self._figures(logs))
            seconds = time.perf_counter() - self._started
            start = "\r\033[K" if self._live else ""
            print(f"{start}{self._title()}  {figures}  {seconds:.1f} s", flush=True)
        self.completed += 1

    def _title(self):
        return f"epoch {self.completed + 1:>{len(str(self.epochs))}}/{self.epochs}"

    def _figures(self, logs):
        for name in ("loss", "val_loss"):
            if name in logs:
                yield name, f"{logs[name]:.4f}"
        for name in sorted(logs):
            if name.startswith("val_") and name.rsplit("_", 1)[-1] in ("auc", "mse", "accuracy"):
                yield name.removeprefix("val_"), f"{logs[name]:.3f}"
        gates = [logs[n] for n in sorted(logs) if n.startswith("val_") and n.endswith("experts_per_sample")]
        if gates:
            yield "experts", "/".join(f"{value:.2f}" for value in gates)
