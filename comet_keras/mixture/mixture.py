import functools

import keras
from keras import ops, tree

from comet_keras.mixture.checks import (
    check_dense,
    check_dispatch,
    check_keys,
    check_parts,
    count_experts,
    flatten_permutation,
)
from comet_keras.mixture.combine import combine
from comet_keras.mixture.dispatch import dispatch
from comet_keras.mixture.expert_calls import ExpertCalls
from comet_keras.multiply_adds import multiply_adds


@keras.saving.register_keras_serializable("comet_keras")
class MixtureOfExperts(keras.layers.Layer):
    """Combines experts by the weights of one or several gates over common experts.

    Source: multi-gate mixtures, Ma et al., KDD 2018; with local search COMET (Ibrahim et al., KDD
    2023), sections 4 and 5.

    Args:
        experts: list of n Keras layers or models with the same output shape, or a layer that
            computes n experts at once (`DenseExperts`).
        gates: a `Gate`, or a list, tuple or dict (string keys) of gates, all over n experts.
        permutation: optional `Permutation` for all gates (the paper's way), or one a gate in the
            structure of `gates`.
        dispatch: `"auto"` (default), `"dense"` or `"sparse"`. Dense runs every expert on every row.
            Sparse runs an expert only on the rows to which any gate gives it weight, with the same
            outputs and gradients: no row is dropped. Auto takes what is cheaper for the present batch,
            judged in the graph by the zeros of its weights. See docs/performance.md.
        **kwargs: `name`, `dtype` and the rest of `keras.layers.Layer`.

    Call arguments:
        inputs: tensor `(*lead, ...)` for the experts; for gates too, unless `gate_inputs` is given.
        gate_inputs: optional inputs of the gates `(*lead, d)`: one tensor for all gates, or one a gate
            in the structure of `gates`.
        mask: optional bool tensor `(*lead)`, by default the mask that `inputs` carry. Masked positions
            count neither in loss terms nor in routing statistics; the mask is passed on.
        training: bool.
        return_details: bool. Default False. True runs every expert on every row.

    Returns:
        Combined outputs `(*lead, *rest)` in the structure of `gates`, where experts return
        `(*lead, *rest)` each and gates `(*lead, n)`. With `return_details=True` a dict with
        `"outputs"`, `"weights"` (`(*lead, n)` each, in the structure of `gates`) and
        `"expert_outputs"` `(*lead, n, *rest)`.

    Raises:
        ValueError: if the numbers of experts disagree, structures do not match, or the experts'
            output shapes differ.

    Example:

    ```python
    mixture = MixtureOfExperts(
        DenseExperts(8, 32, activation="relu"),
        gates={"click": COMETGate(8, k=2), "rating": COMETGate(8, k=2)},
        permutation=Permutation(8),
    )
    towers = mixture(keras.ops.ones((4, 16)))  # {"click": (4, 32), "rating": (4, 32)}
    ```
    """

    def __init__(self, experts, gates, permutation=None, dispatch="auto", **kwargs):
        # Gates route in float32, so inputs are not cast here: experts cast their own.
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.experts = list(experts) if isinstance(experts, (list, tuple)) else experts
        self.num_experts = count_experts(self.experts)
        # Flat, since Keras saves no layer from a list within a list.
        self.gate_layers = tree.flatten(gates)
        self._pack = functools.partial(tree.pack_sequence_as, gates)
        check_keys(gates)
        self._paths = _get_paths(gates)
        self.permutation_layers = flatten_permutation(permutation, gates)
        check_parts(self.gate_layers, self.permutation_layers, self.num_experts)
        self.dispatch = check_dispatch(dispatch, self.experts)
        self._cost = None

    @property
    def gates(self):
        """The gates, in the structure they were given in."""
        return self._pack(list(self.gate_layers))

    @property
    def permutation(self):
        """The permutation as it was given: None, a layer, or one a gate."""
        if len(self.permutation_layers) > 1:
            return self._pack(list(self.permutation_layers))
        return self.permutation_layers[0] if self.permutation_layers else None

    def labelled_gates(self):
        """Pairs of label and gate: the path in the structure, `""` for a single gate."""
        labels = ("_".join(str(key) for key in path) for path in self._paths)
        return list(zip(labels, self.gate_layers))

    def _for_each_gate(self, gate_inputs, inputs):
        """The leaves of `gate_inputs`, one a gate; `inputs` when there are none."""
        if gate_inputs is None:
            return [inputs] * len(self.gate_layers)
        paths, leaves = _get_paths(gate_inputs), tree.flatten(gate_inputs)
        if paths == ((),):
            return leaves * len(self.gate_layers)
        if paths != self._paths:
            raise ValueError(
                "`gate_inputs` must be one tensor, or one a gate in the structure of `gates`. "
                f"Received tensors at {list(paths)} for gates at {list(self._paths)}."
            )
        return leaves

    def build(self, inputs_shape, gate_inputs_shape=None):
        for expert in self._expert_layers():
            _build_expert(expert, inputs_shape)
        shapes = self._gate_shapes(inputs_shape, gate_inputs_shape)
        for gate, shape in zip(self.gate_layers, shapes):
            if not gate.built:
                gate.build(shape)
        for permutation in self.permutation_layers:
            if not permutation.built:
                permutation.build((None, self.num_experts))
        self._get_shapes(inputs_shape, shapes)
        self.built = True

    def _gate_shapes(self, inputs_shape, gate_inputs_shape):
        """Input shapes, one a gate."""
        specs = _map_shapes(keras.KerasTensor, gate_inputs_shape)
        return [x.shape for x in self._for_each_gate(specs, keras.KerasTensor(inputs_shape))]

    def _expert_layers(self):
        return self.experts if isinstance(self.experts, list) else [self.experts]

    def _get_shapes(self, inputs_shape, gate_shapes):
        """Shapes of one gate's weights and of all experts' outputs; checks that they fit."""
        weights = {tuple(g.compute_output_shape(s)) for g, s in zip(self.gate_layers, gate_shapes)}
        ranks = {len(shape) for shape in weights}
        if len(ranks) > 1:
            raise ValueError(f"All gates must route the same positions. Weights: {sorted(weights)}")
        lead = ranks.pop() - 1
        outputs = [_get_output_shape(e, inputs_shape) for e in self._expert_layers()]
        if len(set(outputs)) > 1:
            listing = "\n".join(
                f"  {expert.name}: {shape}" for expert, shape in zip(self.experts, outputs)
            )
            raise ValueError(f"All `experts` must have the same output shape. Received:\n{listing}")
        output = outputs[0]
        if isinstance(self.experts, list):
            output = (*output[:lead], self.num_experts, *output[lead:])
        weights = weights.pop()
        fits = len(output) > lead and output[lead] == self.num_experts
        if not fits or any(
            a != b for a, b in zip(output[:lead], weights) if a is not None and b is not None
        ):
            raise ValueError(
                f"Gates give weights of shape {weights}, which do not fit the experts' outputs of shape "
                f"{outputs[0]}: both must start with the same {lead} dimension(s)."
            )
        return weights, output

    def call(
        self,
        inputs,
        gate_inputs=None,
        mask=None,
        training=False,
        return_details=False,
        inputs_mask=None,
    ):
        check_dense(inputs)
        # Keras hands in the mask of `inputs` by this name when there are gate inputs.
        mask = inputs_mask if mask is None else mask
        weights = self._route(self._for_each_gate(gate_inputs, inputs), mask, training)
        lead = len(weights.shape) - 2
        experts = self._expert_calls(inputs, lead)
        if not return_details:
            used = [gate.k for gate in self.gate_layers]
            outputs = dispatch(experts, inputs, weights, self.dispatch, used, training)
            return self._split(outputs, lead)
        expert_outputs = experts.on_every_row(inputs)
        return {
            "outputs": self._split(combine(expert_outputs, weights), lead),
            "weights": self._split(weights, lead),
            "expert_outputs": expert_outputs,
        }

    def _expert_calls(self, inputs, lead):
        first = self._expert_layers()[0]
        shape = _get_output_shape(first, inputs.shape)
        shape = shape[lead:] if isinstance(self.experts, list) else shape[lead + 1 :]
        if self._cost is None and self.dispatch == "auto":
            # Of one row: positions of a sequence are rows of their own.
            row = (None, *[1] * (lead - 1), *inputs.shape[lead:])
            cost = multiply_adds(first, row)
            self._cost = cost if isinstance(self.experts, list) else cost / self.num_experts
        return ExpertCalls(
            self.experts, self.num_experts, shape, lead, self._cost, self.compute_dtype, self
        )

    def _route(self, gate_inputs, mask, training):
        """The weights that reach the experts: `(*lead, gates, n)`."""
        lead = len(self.gate_layers[0].compute_output_shape(gate_inputs[0].shape)) - 1
        if mask is not None and len(mask.shape) != lead:
            mask = None  # of what experts read, not of routed positions
        weights = [
            gate(x, mask=mask, training=training, observe=False)
            for gate, x in zip(self.gate_layers, gate_inputs)
        ]
        if len(self.permutation_layers) > 1:
            weights = [p(w, training=training) for p, w in zip(self.permutation_layers, weights)]
        weights = ops.stack(weights, axis=-2)
        if len(self.permutation_layers) == 1:
            weights = self.permutation_layers[0](weights, training=training)
        for i, gate in enumerate(self.gate_layers):
            gate.observe(weights[..., i, :], mask, training)
        return ops.cast(weights, self.compute_dtype)

    def _split(self, values, axis):
        """Takes `(*lead, gates, ...)` apart into the structure of `gates`."""
        # Not by slices, whose gradients write zeros for all other gates.
        return self._pack(list(ops.unstack(values, len(self.gate_layers), axis)))

    def compute_output_spec(
        self,
        inputs,
        gate_inputs=None,
        mask=None,
        training=False,
        return_details=False,
        inputs_mask=None,
    ):
        gate_shapes = [x.shape for x in self._for_each_gate(gate_inputs, inputs)]
        weights, expert_outputs = self._get_shapes(inputs.shape, gate_shapes)
        lead = len(weights) - 1

        def each_gate(shape):
            tensors = [keras.KerasTensor(shape, self.compute_dtype) for _ in self.gate_layers]
            return self._pack(tensors)

        outputs = each_gate((*expert_outputs[:lead], *expert_outputs[lead + 1 :]))
        if not return_details:
            return outputs
        return {
            "outputs": outputs,
            "weights": each_gate(weights),
            "expert_outputs": keras.KerasTensor(expert_outputs, self.compute_dtype),
        }

    def compute_output_shape(self, inputs_shape, gate_inputs_shape=None):
        gate_shapes = self._gate_shapes(inputs_shape, gate_inputs_shape)
        weights, outputs = self._get_shapes(inputs_shape, gate_shapes)
        lead = len(weights) - 1
        shape = (*outputs[:lead], *outputs[lead + 1 :])
        return self._pack([shape] * len(self.gate_layers))

    def compute_mask(self, inputs, previous_mask=None):
        # Keras pairs masks and returned tensors in order: enough of them for all details.
        return None if previous_mask is None else [previous_mask] * (2 * len(self.gate_layers) + 1)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        config = super().get_config()
        config.pop("autocast", None)
        return {
            **config,
            "experts": serialize(
                list(self.experts) if isinstance(self.experts, list) else self.experts
            ),
            "gates": serialize(self.gates),
            "permutation": serialize(self.permutation),
            "dispatch": self.dispatch,
        }

    @classmethod
    def from_config(cls, config):
        parts = {
            name: keras.saving.deserialize_keras_object(config[name])
            for name in ("experts", "gates", "permutation")
        }
        return cls(**{**config, **parts})


def _build_expert(expert, shape):
    if expert.built:
        return
    if type(expert).build is keras.layers.Layer.build:
        expert(keras.KerasTensor(shape, expert.input_dtype))  # builds its sub-layers on the way
    else:
        expert.build(shape)


def _get_output_shape(expert, shape):
    try:
        return tuple(expert.compute_output_shape(shape))
    except NotImplementedError:
        return tuple(expert.compute_output_spec(keras.KerasTensor(shape, expert.input_dtype)).shape)


def _get_paths(structure):
    return tuple(tuple(path) for path, _ in tree.flatten_with_path(structure))


def _map_shapes(function, shapes):
    """`function` of every shape in a structure of shapes, or None."""
    if shapes is None:
        return None
    if isinstance(shapes, dict):
        return {key: _map_shapes(function, value) for key, value in shapes.items()}
    if all(size is None or isinstance(size, int) for size in shapes):
        return function(tuple(shapes))
    return [_map_shapes(function, value) for value in shapes]
