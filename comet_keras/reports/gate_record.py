"""How many experts gates choose, counted batch by batch."""

import numpy as np
from keras import ops

from comet_keras.metrics.routing import SUPPORT_THRESHOLD


class GateRecord:
    """How many experts the gates of one layer give weight.

    Attributes:
        positions: int, rows seen (positions of sequences).
        used: `(gates,)`, weights that are not zero.
        above: `(gates,)`, weights of at least 1e-5.
        run: int, pairs of row and expert with weight from any gate.
    """

    def __init__(self, layer, num_gates):
        self.layer, self.positions, self.run = layer, 0, 0
        self.used, self.above = np.zeros(num_gates, "int64"), np.zeros(num_gates, "int64")

    @property
    def experts_run(self):
        """Mean number of experts of a row."""
        return self.run / self.positions if self.positions else 0.0

    def observe(self, weights):
        """Takes in tensors `(*lead, n)`, one a gate.

        Returns:
            How often each expert runs, int array `(n,)`, and how many weights are not zero.
        """
        n = weights[0].shape[-1]
        used = np.stack([_to_numpy(ops.not_equal(w, 0)).reshape(-1, n) for w in weights])
        above = [_to_numpy(ops.cast(w, "float32") >= SUPPORT_THRESHOLD).sum() for w in weights]
        runs = used.any(axis=0).sum(axis=0)
        self.positions += used.shape[1]
        self.used += used.sum(axis=(1, 2))
        self.above += np.asarray(above)
        self.run += int(runs.sum())
        return runs, int(used.sum())


def _to_numpy(tensor):
    return np.asarray(ops.convert_to_numpy(tensor))
