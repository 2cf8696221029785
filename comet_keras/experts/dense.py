import keras
from keras import ops

from comet_keras.experts.split import split_rows
from comet_keras.initializers import StackedInitializer, fresh
from comet_keras.take_rows import take_rows
from comet_keras.validation import non_negative_float, positive_int


@keras.saving.register_keras_serializable("comet_keras")
class DenseExperts(keras.layers.Layer):
    """n equal multilayer perceptrons, their weights stacked `(n, in, out)`.

    Each expert is a stack of dense layers, each followed by the activation and by dropout. Every expert
    draws its own initial values with the fans of a single expert, and its own dropout mask.

    Args:
        num_experts: int >= 1, n.
        units: int, or sequence of ints, one a dense layer.
        activation: of every dense layer. Default None (linear).
        dropout: float in [0, 1), rate after every dense layer. Default 0.
        use_bias: bool. Default True.
        kernel_initializer, bias_initializer: default `"glorot_uniform"` and `"zeros"`.
        kernel_regularizer, bias_regularizer: optional, applied to the stacked weights.
        seed: int or None, of dropout.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(..., d)`.
        sizes: optional int tensor `(n,)`: `inputs` are rows `(rows, d)` sorted by expert, `sizes[i]` of
            them for expert i. TensorFlow and PyTorch.
        owners: optional int tensor `(blocks,)`: `inputs` are blocks of rows `(blocks, places, d)`, block
            j for expert `owners[j]`.
        training: bool.

    Returns:
        Float tensor `(..., n, units[-1])`: the outputs of all experts. With `sizes`, `(rows, units[-1])`,
        and with `owners`, `(blocks, places, units[-1])`: of the expert that each row belongs to.

    Example:

    >>> experts = DenseExperts(4, (16, 8), activation="relu", dropout=0.5)
    >>> tuple(experts(keras.ops.ones((2, 5))).shape)
    (2, 4, 8)
    """

    def __init__(
        self,
        num_experts,
        units,
        activation=None,
        dropout=0.0,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_experts = positive_int("num_experts", num_experts)
        self.units = tuple(
            positive_int("units", u)
            for u in (units if isinstance(units, (list, tuple)) else (units,))
        )
        if not self.units:
            raise ValueError("`units` must hold at least one layer's size.")
        if non_negative_float("dropout", dropout) >= 1:
            raise ValueError(f"`dropout` must be in [0, 1). Received: dropout={dropout!r}")
        self.activation = keras.activations.get(activation)
        self.dropout = float(dropout)
        self.use_bias = bool(use_bias)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed) if self.dropout else None

    def build(self, inputs_shape, sizes_shape=None, owners_shape=None):
        n, width = self.num_experts, inputs_shape[-1]
        if width is None:
            raise ValueError(
                f"DenseExperts needs a known last dimension. Received shape: {tuple(inputs_shape)}"
            )
        self.kernels, self.biases = [], []
        for i, units in enumerate(self.units):
            self.kernels.append(
                self.add_weight(
                    name=f"kernel_{i}",
                    shape=(n, width, units),
                    initializer=StackedInitializer(fresh(self.kernel_initializer, 1000 * i)),
                    regularizer=self.kernel_regularizer,
                )
            )
            if self.use_bias:
                self.biases.append(
                    self.add_weight(
                        name=f"bias_{i}",
                        shape=(n, units),
                        initializer=StackedInitializer(fresh(self.bias_initializer, 1000 * i + 500)),
                        regularizer=self.bias_regularizer,
                    )
                )
            width = units
        self.built = True

    def call(self, inputs, sizes=None, owners=None, training=False):
        if sizes is not None:
            return self._run_groups(inputs, sizes, training)
        if owners is not None:
            return self._run_blocks(inputs, owners, training)
        lead = ops.shape(inputs)[:-1]
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        outputs = self._run_experts([rows] * self.num_experts, training, ops.stack, ops.unstack)
        x = self._drop(ops.stack(outputs, axis=1), training)
        return ops.reshape(x, (*lead, self.num_experts, self.units[-1]))

    def _run_groups(self, rows, sizes, training):
        def split(x):
            return split_rows(x, sizes, self.num_experts)

        outputs = self._run_experts(split(rows), training, ops.concatenate, split)
        return self._drop(ops.concatenate(outputs), training)

    def _run_experts(self, inputs, training, join, split):
        """The dense layers on a list of one input an expert, up to the last dropout.

        One product an expert: faster on CPUs than a batched one, with no copy between layers. Only
        dropout joins and splits the list, so that it draws once a layer. Kernels are taken apart by one
        `unstack`: the gradient of each slice would write a full stack of zeros.
        """
        outputs = inputs
        for i, kernel in enumerate(self.kernels):
            if i and self.dropout and training:
                outputs = split(self._drop(join(outputs), training))
            outputs = [ops.matmul(x, k) for x, k in zip(outputs, _unstack(kernel))]
            if self.use_bias:
                outputs = [x + bias for x, bias in zip(outputs, _unstack(self.biases[i]))]
            outputs = [self.activation(x) for x in outputs]
        return outputs

    def _run_blocks(self, blocks, owners, training):
        x = blocks
        for i, kernel in enumerate(self.kernels):
            x = ops.matmul(x, take_rows(kernel, owners))
            if self.use_bias:
                x = x + take_rows(self.biases[i], owners)[:, None]
            x = self._drop(self.activation(x), training)
        return x

    def _drop(self, x, training):
        if not (self.dropout and training):
            return x
        return keras.random.dropout(x, self.dropout, seed=self.seed_generator)

    def compute_output_shape(self, inputs_shape, sizes_shape=None, owners_shape=None):
        if sizes_shape is not None or owners_shape is not None:
            return (*inputs_shape[:-1], self.units[-1])
        return (*inputs_shape[:-1], self.num_experts, self.units[-1])

    def get_config(self):
        return {
            **super().get_config(),
            "num_experts": self.num_experts,
            "units": list(self.units),
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
            "seed": self.seed,
        }


def _unstack(variable):
    """The experts' parts of a stacked weight; PyTorch takes apart tensors only."""
    return ops.unstack(ops.convert_to_tensor(variable))
