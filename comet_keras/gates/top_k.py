import math
import warnings

import keras
from keras import ops

from comet_keras.gates.softmax import SoftmaxGate, softmax
from comet_keras.initializers import fresh
from comet_keras.validation import one_of, positive_int


@keras.saving.register_keras_serializable("comet_keras")
class TopKGate(SoftmaxGate):
    """A linear router that keeps the k largest logits; equal logits: the lower index wins.

    Source: Shazeer et al., ICLR 2017, section 2.1 and appendix A; without noise the Top-k of
    COMET (Ibrahim et al., KDD 2023), section 5.

    Args:
        num_experts: int >= 1, n.
        k: int, 1 <= k <= n. Default 2.
        softmax: `"after"` (default) the selection: the kept logits' softmax, on the simplex. With
            k=1 that weight is the constant 1 and the router learns nothing from the task, which
            warns. `"before"`: the k largest of the softmax over all experts, not rescaled
            (Switch, Fedus et al. 2022), so that the weights sum to less than 1 and k=1 is
            trained.
        noisy: bool. In training, select by `x W + b + z (softplus(x W_noise) + 0.01)` with z
            standard normal. Inference is free of noise. Default False.
        seed: int or None, of the noise.
        regularizers: sequence of `comet_keras.regularizers` terms reading `"weights"`,
            `"probabilities"`, `"logits"` and, with noise and k < n, `"load"`.
        kernel_initializer, bias_initializer: default `"glorot_uniform"` and `"zeros"`.
        noise_kernel_initializer: default `"zeros"`, as Shazeer et al.
        **kwargs: as in `Gate`.

    Raises:
        ValueError: if k > num_experts.

    Example:

    >>> gate = TopKGate(8, k=2, noisy=True, regularizers=[Importance(0.1), Load(0.1)])
    >>> tuple(gate(keras.ops.ones((3, 5))).shape)
    (3, 8)
    """

    NOISE_EPSILON = 1e-2

    def __init__(
        self,
        num_experts,
        k=2,
        softmax="after",
        noisy=False,
        seed=None,
        regularizers=(),
        noise_kernel_initializer="zeros",
        **kwargs,
    ):
        k = positive_int("k", k)
        if k > positive_int("num_experts", num_experts):
            raise ValueError(
                f"`k` must be at most `num_experts`. Received: k={k}, num_experts={num_experts}"
            )
        self.softmax = one_of("softmax", softmax, ("after", "before"))
        self.noisy = bool(noisy)
        if self.noisy and k < num_experts:
            self.provides = (*SoftmaxGate.provides, "load")
        super().__init__(num_experts, regularizers, k=k, **kwargs)
        self.seed = seed
        self.noise_kernel_initializer = keras.initializers.get(noise_kernel_initializer)
        if k == 1 and num_experts > 1 and softmax == "after" and not self._load_is_regularized():
            warnings.warn(
                "TopKGate(k=1, softmax='after') has the constant weight 1, so that the task's "
                "loss does not train the router. Use softmax='before', or noisy=True with a "
                "Load regularizer.",
                stacklevel=2,
            )

    def _load_is_regularized(self):
        return any(term.reads == "load" for term in self.regularizers)

    def build(self, input_shape):
        if self.noisy:
            self.noise_kernel = self.add_router_weight(
                "noise_kernel",
                (input_shape[-1], self.num_experts),
                fresh(self.noise_kernel_initializer, 2),
            )
            self.seed_generator = keras.random.SeedGenerator(self.seed)
        super().build(input_shape)

    def route(self, inputs, training=False):
        logits = ops.matmul(inputs, self.kernel) + self.bias
        if not (self.noisy and training):
            return self.select(logits)
        scale = ops.softplus(ops.matmul(inputs, self.noise_kernel)) + self.NOISE_EPSILON
        noise = keras.random.normal(
            ops.shape(logits), dtype=self.router_dtype, seed=self.seed_generator
        )
        return self.select(logits, noise * scale, scale)

    def select(self, logits, noise=None, noise_scale=None):
        """Weights from logits, each `(..., n)`; with the load probabilities under noise."""
        noisy_logits = logits if noise is None else logits + noise
        order = _largest(noisy_logits, min(self.k + 1, self.num_experts))
        chosen = ops.one_hot(order[..., : self.k], self.num_experts, dtype=logits.dtype)
        chosen = ops.sum(chosen, axis=-2) > 0
        probabilities = softmax(noisy_logits)
        if self.softmax == "before":
            weights = ops.where(chosen, probabilities, 0.0)
        else:
            # An initial value, for the maximum of an empty batch.
            top = ops.max(noisy_logits, axis=-1, keepdims=True, initial=-float("inf"))
            kept = ops.where(chosen, ops.exp(noisy_logits - ops.stop_gradient(top)), 0.0)
            weights = kept / ops.sum(kept, axis=-1, keepdims=True)
        routing = {"weights": weights, "probabilities": probabilities, "logits": logits}
        if noise is not None and self.k < self.num_experts:
            ranked = ops.take_along_axis(noisy_logits, order, axis=-1)
            # What the others reach: the (k+1)-th for those chosen, else the k-th.
            threshold = ops.where(
                chosen, ranked[..., self.k : self.k + 1], ranked[..., self.k - 1 : self.k]
            )
            distance = (logits - threshold) / noise_scale
            routing["load"] = 0.5 * (1 + ops.erf(distance / math.sqrt(2)))
        return routing

    def get_config(self):
        return {
            **super().get_config(),
            "softmax": self.softmax,
            "noisy": self.noisy,
            "seed": self.seed,
            "noise_kernel_initializer": keras.initializers.serialize(self.noise_kernel_initializer),
        }


def _largest(logits, count):
    """Indices `(..., count)` of the largest, in their order; of equal ones the lower index first."""
    if keras.backend.backend() == "torch":  # whose top-k promises nothing about equal ones
        return ops.argsort(-logits, axis=-1)[..., :count]
    return ops.top_k(logits, count)[1]
