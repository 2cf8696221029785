"""Counting what layers do while a model runs."""

import contextlib
import functools
import math

import keras
import numpy as np
from keras import tree

from comet_keras.gates import Gate
from comet_keras.mixture import MixtureOfExperts, WeightedSum
from comet_keras.multiply_adds import multiply_adds
from comet_keras.permutation import Permutation
from comet_keras.reports.gate_record import GateRecord

PARTS = ("gates", "permutation", "experts", "mixing", "shared")


class InferenceTally:
    """Sums the multiply-adds of a model's calls, part by part.

    Args:
        model: `keras.Model`.

    Attributes:
        mixtures: dict from id to the `GateRecord` of a mixture.
        gates: the same of gates that stand alone.
        parts, dense_parts: dict from part to the sum over all calls; dense: if all experts ran on all
            rows.
    """

    def __init__(self, model):
        layers, self._containers = _units(model)
        self._layers = layers
        self.mixtures = {
            id(x): GateRecord(x, len(x.gate_layers)) for x in layers if isinstance(x, MixtureOfExperts)
        }
        self.gates = {id(x): GateRecord(x, 1) for x in layers if isinstance(x, Gate)}
        self.parts, self.dense_parts = dict.fromkeys(PARTS, 0), dict.fromkeys(PARTS, 0)
        self._busy = False
        self._cost = functools.lru_cache(maxsize=None)(multiply_adds)

    def mean_parts(self, samples):
        """`parts` and `dense_parts` of one sample."""
        # Weights that a model of one's own holds beside its layers', each taken to be used once.
        own = sum(math.prod(v.shape) for x in self._containers for v in x._trainable_variables)
        sums = self.parts, self.dense_parts
        means = [{name: count / samples for name, count in parts.items()} for parts in sums]
        for parts in means:
            parts["shared"] += own
        return means

    def experts_by_gate(self):
        """Dict from a gate's id to the mean number of experts it gives weight; of gates that ran."""
        means = {}
        for record in self.mixtures.values():
            if record.positions:
                pairs = zip(record.layer.gate_layers, record.used / record.positions)
                means.update((id(gate), float(mean)) for gate, mean in pairs)
        for record in self.gates.values():
            if record.positions:
                means[id(record.layer)] = record.experts_run
        return means

    @contextlib.contextmanager
    def listening(self):
        """Scope in which calls of the model's layers are counted."""
        # On the instances alone, past Keras' tracking of attributes, so that nothing of it stays.
        before = [(vars(layer), vars(layer).get("call")) for layer in self._layers]
        try:
            for layer in self._layers:
                vars(layer)["call"] = self._heard(layer, layer.call)
            yield
        finally:
            for attributes, call in before:
                attributes.pop("call", None)
                if call is not None:
                    attributes["call"] = call

    def _heard(self, layer, call):
        run = self._run_mixture if isinstance(layer, MixtureOfExperts) else self._run_layer

        @functools.wraps(call)
        def heard(*args, **kwargs):
            if self._busy:  # within a layer that is counted as a whole
                return call(*args, **kwargs)
            self._busy = True
            try:
                return run(layer, call, args, kwargs)
            finally:
                self._busy = False

        return heard

    def _run_layer(self, layer, call, args, kwargs):
        outputs = call(*args, **kwargs)
        tensors = [x for x in tree.flatten((args, kwargs)) if hasattr(x, "shape")]
        if isinstance(layer, Gate):
            self.gates[id(layer)].observe([outputs])
        if isinstance(layer, WeightedSum):
            # Outputs are the first arguments, weights the last.
            cost = tensors[-1].shape[-1] * math.prod(outputs.shape[1:])
        else:
            cost = self._cost(layer, _row_shape(tensors[0]))
        self._add(_part(layer), int(tensors[0].shape[0]) * cost)
        return outputs

    def _run_mixture(self, mixture, call, args, kwargs):
        details = call(*args, **{**kwargs, "return_details": True})
        inputs = args[0] if args else kwargs["inputs"]
        self._count_mixture(mixture, tuple(inputs.shape), details)
        return details if kwargs.get("return_details") else details["outputs"]

    def _count_mixture(self, mixture, inputs_shape, details):
        weights = tree.flatten(details["weights"])
        lead = len(weights[0].shape) - 1
        record = self.mixtures[id(mixture)]
        # How often each expert runs, and weights of all gates that are not zero.
        runs, pairs = record.observe(weights)
        rows, places = int(inputs_shape[0]), math.prod(weights[0].shape[1:-1])
        for gate in mixture.gate_layers:
            # Kernels are used once a position, whatever the width of what they read.
            self._add("gates", rows * self._cost(gate, _row_shape(weights[0])))
        costs = self._expert_costs(mixture, (None, *inputs_shape[1:]), places)
        self._add("experts", float(runs @ costs), rows * places * float(costs.sum()))
        width = math.prod(details["expert_outputs"].shape[lead + 1 :])
        every = rows * places * len(weights) * mixture.num_experts
        self._add("mixing", pairs * width, every * width)

    def _expert_costs(self, mixture, shape, places):
        """What each expert costs on one position: `(n,)`."""
        if isinstance(mixture.experts, list):
            costs = [self._cost(expert, shape) for expert in mixture.experts]
        else:
            n = mixture.num_experts
            costs = [self._cost(mixture.experts, shape) / n] * n
        return np.asarray(costs, "float64") / max(places, 1)

    def _add(self, part, count, dense=None):
        self.parts[part] += count
        self.dense_parts[part] += count if dense is None else dense


def _units(model):
    """The layers that are counted as a whole, and the models and layers that hold them."""
    units, containers = {}, {}

    def visit(layer):
        parts = list(layer._flatten_layers(include_self=False, recursive=False))
        inside = layer._flatten_layers(include_self=False)
        routes = any(isinstance(x, (MixtureOfExperts, Gate)) for x in inside)
        if isinstance(layer, keras.Model) or routes and not isinstance(layer, MixtureOfExperts):
            containers[id(layer)] = layer
            for part in parts:
                visit(part)
        else:
            units[id(layer)] = layer

    visit(model)
    return list(units.values()), list(containers.values())


def _part(layer):
    kinds = {Gate: "gates", Permutation: "permutation", WeightedSum: "mixing"}
    return next((part for kind, part in kinds.items() if isinstance(layer, kind)), "shared")


def _row_shape(tensor):
    """A tensor's shape, with None for the rows."""
    return (None, *tensor.shape[1:])
