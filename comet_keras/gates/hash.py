import heapq

import keras
import numpy as np
from keras import ops

from comet_keras.gates.gate import Gate
from comet_keras.validation import one_of, positive_int


@keras.saving.register_keras_serializable("comet_keras")
class HashGate(Gate):
    """Routes each id to one expert by a fixed table; nothing is trained.

    The table is a non-trainable integer weight, saved with the model. Source: Roller et al.,
    NeurIPS 2021 (random and balanced hashes); COMET (Ibrahim et al., KDD 2023), section 4.4,
    hashes the user id.

    Args:
        num_experts: int >= 1, n.
        num_ids: int, ids are 0 .. num_ids - 1. Not needed with a vocabulary.
        vocabulary: optional sequence of distinct ids, integers or strings, instead. Strings enter
            a model on the TensorFlow backend; elsewhere look them up in the input pipeline with
            `keras.layers.StringLookup`.
        assignment: `"random"` (default), each id to an expert drawn uniformly; `"balanced"`, ids by
            falling frequency to the expert with the smallest total so far; `"modulo"`,
            position in the table modulo n.
        frequencies: sequence of counts, one an id, in the order of the ids or vocabulary. Needed by
            `"balanced"`; ids of frequency 0 are drawn at random.
        seed: int, of the table. Default 0.
        **kwargs: as in `Gate`.

    Call arguments:
        inputs: ids `(..., 1)`, or `(batch,)`; integers (float whole numbers are accepted) or
            strings.

    Returns:
        One-hot weights `(..., n)`. An id outside the table goes to expert `id mod n`; an integer
        outside a vocabulary likewise; a string outside a vocabulary to expert 0.

    Example:

    >>> gate = HashGate(4, num_ids=100)
    >>> tuple(gate(keras.ops.array([[3], [99], [3]])).shape)
    (3, 4)
    """

    provides = ("weights",)

    def __init__(
        self,
        num_experts,
        num_ids=None,
        vocabulary=None,
        assignment="random",
        frequencies=None,
        seed=0,
        regularizers=(),
        **kwargs,
    ):
        super().__init__(num_experts, 1, regularizers, **kwargs)
        self.vocabulary = _get_vocabulary(vocabulary)
        if (num_ids is None) == (vocabulary is None):
            raise ValueError("Give either `num_ids` or `vocabulary`.")
        self.num_ids = positive_int("num_ids", num_ids) if vocabulary is None else None
        self.assignment = one_of("assignment", assignment, ("random", "balanced", "modulo"))
        self.seed = seed
        self.frequencies = None
        if frequencies is not None:
            self.frequencies = [float(count) for count in frequencies]
            if len(self.frequencies) != self.table_size:
                raise ValueError(
                    "`frequencies` must hold a count for each id. Received: "
                    f"{len(self.frequencies)} counts for {self.table_size} ids"
                )
        elif assignment == "balanced":
            raise ValueError("assignment='balanced' needs `frequencies`.")
        self.lookup = None
        if self.takes_strings:
            self.lookup = keras.layers.StringLookup(
                vocabulary=self.vocabulary, num_oov_indices=1, oov_token=_UNKNOWN
            )

    @property
    def takes_strings(self):
        return self.vocabulary is not None and isinstance(self.vocabulary[0], str)

    @property
    def table_size(self):
        return self.num_ids if self.vocabulary is None else len(self.vocabulary)

    def build(self, input_shape):
        if len(input_shape) > 1 and input_shape[-1] != 1:
            raise ValueError(
                "HashGate takes ids of shape (batch,) or (..., 1). Received: "
                f"{tuple(input_shape)}. Add the last axis with keras.ops.expand_dims(ids, -1)."
            )
        n, seed = self.num_experts, self.seed
        if self.assignment == "random":
            table = np.random.default_rng(seed).integers(n, size=self.table_size)
        elif self.assignment == "balanced":
            table = balanced_table(self.frequencies, n, seed)
        else:
            table = np.arange(self.table_size) % n
        if self.vocabulary is not None and not self.takes_strings:
            order = np.argsort(self.vocabulary)
            table = table[order]
            self.ids = self._add_constant("ids", np.asarray(self.vocabulary)[order])
        self.table = self._add_constant("table", table)
        super().build(input_shape)

    def _add_constant(self, name, values):
        return self.add_weight(
            name=name,
            shape=values.shape,
            dtype="int32",
            initializer=lambda shape, dtype=None: ops.convert_to_tensor(values, dtype=dtype),
            trainable=False,
        )

    def prepare(self, inputs):
        if len(inputs.shape) > 1:
            inputs = ops.squeeze(inputs, axis=-1)
        dtype = keras.backend.standardize_dtype(inputs.dtype)
        if dtype == "string":
            if self.lookup is None:
                raise ValueError("HashGate received strings. Give it a `vocabulary` of strings.")
            # Index 0 stands for strings outside the vocabulary, which have no row.
            return self.lookup(inputs) - 1
        if dtype == "int64":
            return inputs  # 32 bits would wrap ids into the table
        return ops.cast(inputs, "int64" if dtype in ("uint32", "uint64") else "int32")

    def route(self, inputs, training=False):
        last = self.table_size - 1
        if self.vocabulary is not None and not self.takes_strings:
            # Searched flat: TensorFlow wants as many tables as there are leading positions.
            ids = ops.cast(self.ids, inputs.dtype)
            row = ops.searchsorted(ids, ops.reshape(inputs, (-1,)))
            row = ops.clip(ops.reshape(row, ops.shape(inputs)), 0, last)
            inside = ops.take(ids, row) == inputs
        else:
            row = ops.clip(inputs, 0, last)
            inside = row == inputs
        fallback = 0 if self.takes_strings else ops.cast(ops.mod(inputs, self.num_experts), "int32")
        expert = ops.where(inside, ops.take(self.table, row), fallback)
        return {"weights": ops.one_hot(expert, self.num_experts, dtype=self.router_dtype)}

    def compute_output_shape(self, input_shape):
        lead = input_shape[:-1] if len(input_shape) > 1 else input_shape
        return (*lead, self.num_experts)

    def get_config(self):
        config = super().get_config()
        del config["k"]
        return {
            **config,
            "num_ids": self.num_ids,
            "vocabulary": self.vocabulary,
            "assignment": self.assignment,
            "frequencies": self.frequencies,
            "seed": self.seed,
        }


def balanced_table(frequencies, num_experts, seed=0):
    """Assigns ids by falling frequency to the expert with the smallest total so far.

    Ties: the smaller id first, the smaller expert first. Ids of frequency 0 are drawn at random.

    Args:
        frequencies: `(ids,)`, non-negative counts.
        num_experts: int.
        seed: int, for the ids of frequency 0.

    Returns:
        int array `(ids,)`.
    """
    frequencies = np.asarray(frequencies, "float64")
    if frequencies.ndim != 1 or (frequencies < 0).any() or np.isnan(frequencies).any():
        raise ValueError("`frequencies` must be a flat sequence of counts of at least 0.")
    table = np.random.default_rng(seed).integers(num_experts, size=len(frequencies))
    loads = [(0.0, expert) for expert in range(num_experts)]
    for i in np.argsort(-frequencies, kind="stable"):
        if frequencies[i] == 0:
            break
        load, expert = loads[0]
        heapq.heapreplace(loads, (load + frequencies[i], expert))
        table[i] = expert
    return table


# StringLookup drops its token for unknown strings from a vocabulary, so it is one that no vocabulary has.
_UNKNOWN = "[comet_keras: unknown]"


def _get_vocabulary(vocabulary):
    if vocabulary is None:
        return None
    values = [v.item() if hasattr(v, "item") else v for v in vocabulary]
    strings = [isinstance(v, str) for v in values]
    integers = [isinstance(v, int) and not isinstance(v, bool) for v in values]
    if not values or not (all(strings) or all(integers)):
        raise ValueError("`vocabulary` must hold integers or strings, and at least one.")
    if len(set(values)) != len(values):
        raise ValueError("`vocabulary` holds an id more than once.")
    if all(integers) and not all(-(2**31) <= v < 2**31 for v in values):
        raise ValueError("`vocabulary` must hold integers of 32 bits; use strings for others.")
    return values
