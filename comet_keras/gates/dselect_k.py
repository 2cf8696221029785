import math

import keras
from keras import ops

from comet_keras.gates.gate import Gate, check_names
from comet_keras.gates.smooth_step import smooth_step
from comet_keras.gates.softmax import softmax
from comet_keras.initializers import fresh
from comet_keras.regularizers import Entropy, Reciprocal
from comet_keras.validation import positive_float


@keras.saving.register_keras_serializable("comet_keras")
class DSelectKGate(Gate):
    """DSelect-k: k selectors, each a smooth binary code of the expert it picks.

    Selector j gives expert i the weight `r_ji = prod_l h(z_jl)^bit (1 - h(z_jl))^(1 - bit)` over the
    `m = ceil(log2 n)` bits of i, most significant first, h the smooth step; the gate is
    `sum_j softmax(w)_j r_j`. Dense at first, at most k experts a sample once the codes saturate.
    When n is no power of two, codes n .. 2^m - 1 belong to no expert: the weights may sum to less
    than 1 until `reciprocal_weight` has driven the selectors off them. Nothing is rescaled.
    Source: Hazimeh et al., NeurIPS 2021.

    Args:
        num_experts: int >= 1, n.
        k: int >= 1, selectors. Default 2.
        gamma: float > 0, width of the smooth step. Default 1.0.
        entropy_weight: float or schedule, lambda of the selectors' entropy. Default 0.
        reciprocal_weight: float or schedule, of the term against unused codes; without effect when n
            is a power of two. Default 1.0. Its value is k, not 0, when no weight leaks.
        per_sample: bool. True (default): codes depend on the input. False: one code for all samples
            of the task (static); inputs give the batch shape only.
        regularizers: sequence of further terms reading `"weights"` or `"selectors"`.
        code_initializer: of the codes' kernel and bias. Default uniform in (-gamma/100, gamma/100).
        selector_initializer: of the selector weights' kernel and bias. Default uniform in
            (-0.05, 0.05).
        **kwargs: as in `Gate`.

    Example:

    >>> gate = DSelectKGate(8, k=2, gamma=0.5, entropy_weight=0.1)
    >>> tuple(gate(keras.ops.ones((3, 5))).shape)
    (3, 8)
    """

    provides = ("weights", "selectors")

    def __init__(
        self,
        num_experts,
        k=2,
        gamma=1.0,
        entropy_weight=0.0,
        reciprocal_weight=1.0,
        per_sample=True,
        regularizers=(),
        code_initializer=None,
        selector_initializer=None,
        **kwargs,
    ):
        super().__init__(num_experts, k, regularizers, **kwargs)
        self.gamma = positive_float("gamma", gamma)
        self.per_sample = bool(per_sample)
        self.entropy = Entropy(entropy_weight)
        self.reciprocal = Reciprocal(reciprocal_weight)
        bound = self.gamma / 100
        self.code_initializer = keras.initializers.get(
            code_initializer or keras.initializers.RandomUniform(-bound, bound)
        )
        self.selector_initializer = keras.initializers.get(
            selector_initializer or keras.initializers.RandomUniform(-0.05, 0.05)
        )
        self.num_bits = math.ceil(math.log2(self.num_experts))
        check_names(self.all_regularizers())

    def all_regularizers(self):
        terms = [self.entropy]
        if 2**self.num_bits > self.num_experts:
            terms.append(self.reciprocal)
        return [term for term in (*terms, *self.regularizers) if term.weight]

    def build(self, input_shape):
        if self.num_bits:
            width = input_shape[-1]
            self._add_linear("code", width, self.k * self.num_bits, self.code_initializer, 0)
            self._add_linear("selector", width, self.k, self.selector_initializer, 2)
        super().build(input_shape)

    def _add_linear(self, name, width, units, initializer, copy):
        if self.per_sample:
            kernel = self.add_router_weight(
                f"{name}_kernel", (width, units), fresh(initializer, copy)
            )
            setattr(self, f"{name}_kernel", kernel)
        bias = self.add_router_weight(f"{name}_bias", (units,), fresh(initializer, copy + 1))
        setattr(self, f"{name}_bias", bias)

    def _linear(self, name, inputs):
        bias = ops.convert_to_tensor(getattr(self, f"{name}_bias"))
        if not self.per_sample:
            return bias
        return ops.matmul(inputs, getattr(self, f"{name}_kernel")) + bias

    def route(self, inputs, training=False):
        lead = ops.shape(inputs)[:-1]
        if not self.num_bits:  # one expert
            ones = ops.ones((*lead, 1), dtype=self.router_dtype)
            return {"weights": ones, "selectors": ones[..., None]}
        routing = self.combine(self._linear("code", inputs), self._linear("selector", inputs))
        if not self.per_sample:
            shape = (*lead, self.num_experts)
            routing["weights"] = ops.broadcast_to(routing["weights"], shape)
        return routing

    def combine(self, codes, selector_logits):
        """Routing from codes `(..., k * m)` and selector logits `(..., k)`."""
        lead = ops.shape(selector_logits)[:-1]
        codes = ops.reshape(codes, (*lead, self.k, self.num_bits))
        on, off = smooth_step(codes, self.gamma), smooth_step(-codes, self.gamma)
        products = ops.stack([off[..., 0], on[..., 0]], axis=-1)
        for bit in range(1, self.num_bits):
            # Doubles the codes known so far: code c goes on as 2c or 2c + 1.
            pair = [products * off[..., bit : bit + 1], products * on[..., bit : bit + 1]]
            products = ops.reshape(ops.stack(pair, axis=-1), (*lead, self.k, 2 ** (bit + 1)))
        selectors = products[..., : self.num_experts]
        weights = ops.sum(softmax(selector_logits)[..., None] * selectors, axis=-2)
        return {"weights": weights, "selectors": selectors}

    def get_config(self):
        return {
            **super().get_config(),
            "gamma": self.gamma,
            "entropy_weight": self.entropy.get_config()["weight"],
            "reciprocal_weight": self.reciprocal.get_config()["weight"],
            "per_sample": self.per_sample,
            "code_initializer": keras.initializers.serialize(self.code_initializer),
            "selector_initializer": keras.initializers.serialize(self.selector_initializer),
        }
