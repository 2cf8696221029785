import keras
import numpy as np
from keras import ops

from comet_keras.gates.gate import Gate, check_names
from comet_keras.gates.smooth_step import smooth_step
from comet_keras.gates.tree import leaf_probabilities
from comet_keras.gates.tree_walk import predict
from comet_keras.initializers import fresh
from comet_keras.regularizers import Entropy
from comet_keras.validation import positive_float


# Experts from which prediction walks hard trees: below, one product for all nodes is as fast.
WALK_FROM = 128


@keras.saving.register_keras_serializable("comet_keras")
class COMETGate(Gate):
    """COMET: k trees with smooth-step splits, at most k experts a sample once the splits are hard.

    Tree j has n - 1 splits, a sample going left at node q with probability `h(w_q x + b_q)`, h the
    smooth step; `v_ji` is the product of these along the path to leaf i, which is expert i (leaves
    count from left to right). With `alpha = x B + c` of shape (k, n), the weights are

        g_i = sum_j exp(alpha_ji) v_ji / sum_j sum_i exp(alpha_ji) v_ji,

    one softmax of `alpha + log v` over all trees and leaves. They are on the simplex from the first
    step, dense while the splits are soft; `entropy_weight` drives the trees to one leaf each. Two
    trees may choose the same expert. From 128 experts on, prediction walks trees that are hard: k p log n
    multiplications in place of k p n, the same weights. Source: Ibrahim et al., KDD 2023, equations 2-3, sections
    3.3-3.5.

    Args:
        num_experts: int >= 1, n; any number, the trees need not be complete.
        k: int >= 1, trees. Default 2.
        gamma: float > 0, width of the smooth step. The paper tunes 0.001 .. 10. Default 1.0.
        entropy_weight: float or `keras.optimizers.schedules.LearningRateSchedule` over the training
            steps, lambda: the weight of the trees' summed entropy. Default 0.
        regularizers: sequence of further terms reading `"weights"`, `"selectors"` (the leaf
            probabilities v, `(..., k, n)`) or `"logits"` (alpha, `(..., k, n)`).
        split_initializer: of the splits' kernel and bias. Default uniform in (-gamma/100, gamma/100).
        leaf_initializer: of alpha's kernel and bias. Default uniform in (-0.05, 0.05).
        **kwargs: as in `Gate`.

    Example:

    >>> gate = COMETGate(5, k=2, gamma=10.0, entropy_weight=0.1)
    >>> tuple(gate(keras.ops.ones((3, 8))).shape)
    (3, 5)
    """

    provides = ("weights", "selectors", "logits")

    def __init__(
        self,
        num_experts,
        k=2,
        gamma=1.0,
        entropy_weight=0.0,
        regularizers=(),
        split_initializer=None,
        leaf_initializer=None,
        **kwargs,
    ):
        super().__init__(num_experts, k, regularizers, **kwargs)
        self.gamma = positive_float("gamma", gamma)
        self.entropy = Entropy(entropy_weight)
        bound = self.gamma / 100
        self.split_initializer = keras.initializers.get(
            split_initializer or keras.initializers.RandomUniform(-bound, bound)
        )
        self.leaf_initializer = keras.initializers.get(
            leaf_initializer or keras.initializers.RandomUniform(-0.05, 0.05)
        )
        check_names(self.all_regularizers())

    def all_regularizers(self):
        return [term for term in (self.entropy, *self.regularizers) if term.weight]

    def build(self, input_shape):
        width, splits, leaves = input_shape[-1], self.num_experts - 1, self.num_experts
        if splits:
            for name, units, initializer, copy in (
                ("split", self.k * splits, self.split_initializer, 0),
                ("leaf", self.k * leaves, self.leaf_initializer, 2),
            ):
                kernel = self.add_router_weight(
                    f"{name}_kernel", (width, units), fresh(initializer, copy)
                )
                bias = self.add_router_weight(f"{name}_bias", (units,), fresh(initializer, copy + 1))
                setattr(self, f"{name}_kernel", kernel)
                setattr(self, f"{name}_bias", bias)
        super().build(input_shape)

    def route(self, inputs, training=False):
        lead = ops.shape(inputs)[:-1]
        if self.num_experts == 1:
            ones = ops.ones((*lead, 1), dtype=self.router_dtype)
            return {"weights": ones, "selectors": ones[..., None], "logits": ones[..., None]}
        if self.num_experts >= WALK_FROM and not training:
            return {"weights": predict(self, inputs, lambda x: self._all_leaves(x)["weights"])}
        return self._all_leaves(inputs)

    def _all_leaves(self, inputs):
        lead = ops.shape(inputs)[:-1]
        splits = ops.matmul(inputs, self.split_kernel) + self.split_bias
        alpha = ops.matmul(inputs, self.leaf_kernel) + self.leaf_bias
        return self.combine(
            ops.reshape(splits, (*lead, self.k, self.num_experts - 1)),
            ops.reshape(alpha, (*lead, self.k, self.num_experts)),
        )

    def combine(self, splits, alpha):
        """Routing from split logits `(..., k, n - 1)` in heap order and leaf logits `(..., k, n)`."""
        left, right = smooth_step(splits, self.gamma), smooth_step(-splits, self.gamma)
        v = leaf_probabilities(left, right)
        reached = v > 0
        # Two where-guards: neither value nor gradient of the logarithm sees a zero.
        tiny = float(np.finfo(self.router_dtype).tiny)
        scores = alpha + ops.log(ops.maximum(ops.where(reached, v, 1.0), tiny))
        scores = ops.where(reached, scores, -float("inf"))
        # An initial value, for the maximum of an empty batch.
        top = ops.max(scores, axis=(-2, -1), keepdims=True, initial=-float("inf"))
        exps = ops.exp(scores - ops.stop_gradient(top))
        weights = ops.sum(exps, axis=-2) / ops.sum(exps, axis=(-2, -1))[..., None]
        return {"weights": weights, "selectors": v, "logits": alpha}

    def get_config(self):
        return {
            **super().get_config(),
            "gamma": self.gamma,
            "entropy_weight": self.entropy.get_config()["weight"],
            "split_initializer": keras.initializers.serialize(self.split_initializer),
            "leaf_initializer": keras.initializers.serialize(self.leaf_initializer),
        }
