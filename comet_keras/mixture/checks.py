"""Checks of what a mixture is given, with errors that name the argument."""

import keras
from keras import tree

from comet_keras.gates import Gate
from comet_keras.mixture.expert_calls import takes_groups
from comet_keras.permutation import Permutation
from comet_keras.validation import one_of


def count_experts(experts):
    if isinstance(experts, list):
        for expert in experts:
            if not isinstance(expert, keras.layers.Layer):
                raise ValueError(f"`experts` must hold Keras layers. Received: {expert!r}")
        if not experts:
            raise ValueError("`experts` must hold at least one layer.")
        if len({id(expert) for expert in experts}) < len(experts):
            raise ValueError("`experts` holds the same layer more than once.")
        return len(experts)
    if not hasattr(experts, "num_experts"):
        raise ValueError(
            "`experts` must be a list of Keras layers, or a layer of stacked experts such as "
            f"DenseExperts. Received: {experts!r}"
        )
    return experts.num_experts


def check_dense(inputs):
    if hasattr(inputs, "row_splits"):
        raise ValueError(
            "`inputs` must be a dense tensor. Received a ragged one: densify it with "
            "`inputs.to_tensor()` and pass `mask` for the positions that exist."
        )


def check_keys(gates):
    if isinstance(gates, dict):
        for key, value in gates.items():
            if not isinstance(key, str):
                raise ValueError(f"`gates`: the keys of a dict must be strings. Received: {key!r}")
            check_keys(value)
    elif isinstance(gates, (list, tuple)):
        for value in gates:
            check_keys(value)


def flatten_permutation(permutation, gates):
    if permutation is None:
        return []
    layers = tree.flatten(permutation)
    if tree.is_nested(permutation):
        try:
            tree.assert_same_structure(permutation, gates)
        except (ValueError, TypeError) as error:
            raise ValueError(
                "`permutation` must be one Permutation, or one a gate in the structure of `gates`. "
                f"{error}"
            ) from None
    return layers


def check_parts(gates, permutations, num_experts):
    if not gates:
        raise ValueError("`gates` must hold at least one gate.")
    for name, layers, kind in (("gates", gates, Gate), ("permutation", permutations, Permutation)):
        for layer in layers:
            if not isinstance(layer, kind):
                raise ValueError(f"`{name}` must be a {kind.__name__}. Received: {layer!r}")
            if layer.num_experts != num_experts:
                raise ValueError(
                    f"`{name}`: {layer.name!r} has num_experts={layer.num_experts}, but there are "
                    f"{num_experts} experts."
                )
        if len({id(layer) for layer in layers}) < len(layers):
            raise ValueError(f"`{name}` holds the same layer more than once.")


def check_dispatch(dispatch, experts):
    one_of("dispatch", dispatch, ("auto", "dense", "sparse"))
    if dispatch == "sparse" and not isinstance(experts, list) and not takes_groups(experts):
        raise ValueError(
            f"`dispatch`: 'sparse' needs stacked experts whose `call` takes `sizes` and `owners`, as that "
            f"of DenseExperts does. {type(experts).__name__} does not; use 'auto' or 'dense'."
        )
    return dispatch
