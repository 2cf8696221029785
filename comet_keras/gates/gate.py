import keras
from keras import ops

from comet_keras.metrics.statistics import RoutingStatistics, is_gathering
from comet_keras.regularizers import GateRegularizer
from comet_keras.step_counter import add_step_counter, advance, first_call_in_step
from comet_keras.validation import positive_int


class Gate(keras.layers.Layer):
    """Base class of all gates: from inputs `(..., d)` to expert weights `(..., n)`.

    Weights are non-negative and sum to 1 over the last axis (DSelect-k with unused codes
    excepted); experts that are not selected get exact zeros. Routing is computed in float32
    whatever the layer's policy (in float64 under float64) and cast at the end.

    A new router implements `route`, and adds its weights in `build` with `add_router_weight`:

    ```python
    @keras.saving.register_keras_serializable("my_package")
    class CosineGate(Gate):
        def build(self, input_shape):
            self.kernel = self.add_router_weight("kernel", (input_shape[-1], self.num_experts))
            super().build(input_shape)

        def route(self, inputs, training=False):
            directions = ops.normalize(self.kernel, axis=0)
            logits = ops.matmul(ops.normalize(inputs, axis=-1), directions)
            return {"logits": logits, "weights": ops.softmax(10 * logits)}
    ```

    Loss terms, masks, statistics, precision and saving are then done by this class.

    Args:
        num_experts: int >= 1, n.
        k: int >= 1, experts a sample uses at most once the gate is hard.
        regularizers: sequence of `comet_keras.regularizers` terms, each added to the loss in
            training.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(..., d)`, at least 2-D.
        mask: optional bool tensor `(...)`. Masked positions get weights too, and count neither
            in loss terms nor in statistics.
        training: bool.
        observe: bool, whether this call enters the routing statistics. A mixture turns it off
            and hands in the permuted weights with `observe` itself.

    Returns:
        Float tensor `(..., n)` in the layer's compute dtype.
    """

    #: What `route` returns beside `"weights"` and can be regularized.
    provides = ("weights", "logits")

    def __init__(self, num_experts, k=None, regularizers=(), **kwargs):
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_experts = positive_int("num_experts", num_experts)
        self.k = self.num_experts if k is None else positive_int("k", k)
        self.regularizers = _get_regularizers(regularizers)
        self.statistics = None
        self._check_regularizers()

    @property
    def router_dtype(self):
        """`"float64"` under float64 policies, else `"float32"`."""
        return "float64" if self.compute_dtype == "float64" else "float32"

    def add_router_weight(self, name, shape, initializer="glorot_uniform", **kwargs):
        """Adds a weight in the router's precision. Arguments as in `add_weight`."""
        kwargs.setdefault("dtype", self.router_dtype)
        return self.add_weight(
            name=name, shape=shape, initializer=initializer, autocast=False, **kwargs
        )

    def all_regularizers(self):
        """The loss terms in force: `regularizers` and those of a subclass's own arguments."""
        return [term for term in self.regularizers if term.weight]

    def build(self, input_shape):
        self.step = add_step_counter(self)
        self.statistics = RoutingStatistics(
            self, self.num_experts, [term.name for term in self.all_regularizers()]
        )
        self.built = True

    def prepare(self, inputs):
        """Casts inputs to the router's precision."""
        return ops.cast(inputs, self.router_dtype)

    def route(self, inputs, training=False):
        """The router itself.

        Args:
            inputs: tensor `(..., d)` in the router's precision.
            training: bool.

        Returns:
            Dict of tensors: `"weights"` `(..., n)`, and what regularizers may read, such as
            `"logits"` `(..., n)`.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `route(inputs, training)`.")

    def call(self, inputs, mask=None, training=False, observe=True):
        routing = self.route(self.prepare(inputs), training=bool(training))
        if training:
            self._add_penalties(routing, mask)
            if first_call_in_step(self):
                advance(self.step, routing["weights"])
        weights = routing["weights"]
        if observe:
            self.observe(weights, mask, training)
        return ops.cast(weights, self.compute_dtype)

    def observe(self, weights, mask=None, training=False):
        """Takes `weights (..., n)` into the routing statistics where they are gathered."""
        if is_gathering(training):
            self.statistics.observe(weights, mask)

    def _add_penalties(self, routing, mask):
        values = []
        for term in self.all_regularizers():
            if term.reads in routing:
                value = term(routing[term.reads], mask=mask, step=self.step)
                # Keras sums losses of its float type, under any policy.
                value = ops.cast(value, keras.config.floatx())
                self.add_loss(value)
            else:
                value = ops.zeros((), "float32")
            values.append(value)
        if values:
            self.statistics.observe_penalties(values)

    def _check_regularizers(self):
        for term in self.regularizers:
            if term.reads not in self.provides:
                raise ValueError(
                    f"`regularizers`: {type(term).__name__} reads {term.reads!r}, which "
                    f"{type(self).__name__} does not provide here. It provides: "
                    f"{', '.join(self.provides)}"
                )

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.num_experts)

    def get_config(self):
        config = super().get_config()
        config.pop("autocast", None)
        return {
            **config,
            "num_experts": self.num_experts,
            "k": self.k,
            "regularizers": [
                keras.saving.serialize_keras_object(term) for term in self.regularizers
            ],
        }


def _get_regularizers(regularizers):
    if isinstance(regularizers, GateRegularizer):
        regularizers = [regularizers]
    terms = []
    for term in regularizers or ():
        if isinstance(term, dict):
            term = keras.saving.deserialize_keras_object(term)
        if not isinstance(term, GateRegularizer):
            raise ValueError(
                "`regularizers` must hold terms of comet_keras.regularizers. "
                f"Received: {term!r}"
            )
        terms.append(term)
    check_names(terms)
    return tuple(terms)


def check_names(terms):
    """Refuses two terms of one name, also where one comes from an argument such as `entropy_weight`."""
    names = [term.name for term in terms]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"`regularizers`: this gate has the term {name!r} more than once.")
