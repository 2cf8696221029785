"""Prediction by walking hard trees: one path a row, in place of all n leaves.

A row whose splits are saturated along its path reaches one leaf of each tree with probability 1, so that
`k p log n` multiplications give what `k p n` do.
"""

import math

import numpy as np
from keras import ops

from comet_keras.compiler import needs_static_shapes
from comet_keras.gates.smooth_step import smooth_step
from comet_keras.gates.tree import leaf_layout
from comet_keras.take_rows import take_rows

# Levels computed for all their nodes: one small product is faster than gathering nodes for each row.
TOP_LEVELS = 4


def predict(gate, inputs, all_leaves):
    """Weights of a COMET gate in prediction, by walking where its trees are hard.

    Args:
        gate: `COMETGate` over at least 16 experts.
        inputs: `(..., d)` in the router's precision.
        all_leaves: function from inputs `(rows, d)` to weights `(rows, n)`, for rows whose splits are not
            saturated.

    Returns:
        Weights `(..., n)`.
    """
    lead = ops.shape(inputs)[:-1]
    rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
    static = needs_static_shapes()

    # A look at the top of the trees tells soft trees from hard ones.
    node, at_top = walk_top(gate, rows)

    def by_walking():
        weights, saturated = walk(gate, rows, node, at_top)
        if static:
            return ops.cond(ops.all(saturated), lambda: weights, lambda: all_leaves(rows))
        (others,) = ops.nonzero(ops.logical_not(saturated))
        of_others = all_leaves(ops.take(rows, others, axis=0))
        return ops.scatter_update(weights, others[:, None], of_others)

    saturated = ops.all(at_top, axis=1)
    enough = ops.all(saturated) if static else ops.mean(ops.cast(saturated, "float32")) >= 0.5
    weights = ops.cond(enough, by_walking, lambda: all_leaves(rows))
    return ops.reshape(weights, (*lead, gate.num_experts))


def walk(gate, inputs, node, saturated):
    """Weights `(rows, n)` of a hard COMET gate.

    Args:
        gate: `COMETGate` over at least 16 experts.
        inputs: `(rows, d)` in the router's precision.
        node, saturated: `(rows, k)` each, from `walk_top`.

    Returns:
        Weights `(rows, n)`, right for the rows that are saturated on their paths; and the bool tensor
        `(rows,)` that says which are.
    """
    kernel = _by_unit(gate.split_kernel)
    bias = ops.convert_to_tensor(gate.split_bias)
    for _ in range(TOP_LEVELS, depth(gate.num_experts)):
        inside = node < gate.num_experts - 1
        unit = _unit(ops.where(inside, node, 0), gate.num_experts - 1)
        left, sure = _decide(_logits(inputs, kernel, bias, unit), gate.gamma)
        node = ops.where(inside, 2 * node + ops.where(left, 1, 2), node)
        saturated = ops.logical_and(saturated, ops.logical_or(sure, ops.logical_not(inside)))
    leaf = ops.take(_leaf_positions(gate.num_experts), node - (gate.num_experts - 1))
    alpha = _logits(
        inputs, _by_unit(gate.leaf_kernel), gate.leaf_bias, _unit(leaf, gate.num_experts)
    )
    chosen = ops.one_hot(leaf, gate.num_experts, dtype=alpha.dtype)
    weights = ops.sum(ops.softmax(alpha, axis=-1)[..., None] * chosen, axis=1)
    return weights, ops.all(saturated, axis=1)


def walk_top(gate, inputs):
    """The node that each row reaches below the top levels, and whether it is saturated so far: `(rows, k)`."""
    splits, top = gate.num_experts - 1, 2**TOP_LEVELS - 1
    shape = (inputs.shape[-1], gate.k, splits)
    kernel = ops.reshape(gate.split_kernel, shape)[:, :, :top]
    bias = ops.reshape(gate.split_bias, (gate.k, splits))[:, :top]
    logits = ops.matmul(inputs, ops.reshape(kernel, (shape[0], gate.k * top)))
    left, sure = _decide(ops.reshape(logits, (-1, gate.k, top)) + bias, gate.gamma)
    node = ops.zeros_like(ops.cast(left[..., 0], "int32"))
    saturated = ops.ones_like(left[..., 0])
    for _ in range(TOP_LEVELS):
        # Sums over 15 nodes: gathering single numbers takes longer.
        here = ops.one_hot(node, top, dtype="bool")
        goes_left = ops.any(ops.logical_and(here, left), axis=-1)
        saturated = ops.logical_and(saturated, ops.any(ops.logical_and(here, sure), axis=-1))
        node = 2 * node + ops.where(goes_left, 1, 2)
    return node, saturated


def depth(num_leaves):
    return math.ceil(math.log2(num_leaves))


def _decide(logits, gamma):
    """Whether a split goes left, and whether it is saturated."""
    left, right = smooth_step(logits, gamma), smooth_step(-logits, gamma)
    return left >= 0.5, ops.logical_or(
        ops.logical_and(left == 1, right == 0), ops.logical_and(left == 0, right == 1)
    )


def _by_unit(kernel):
    """`(d, units)` as `(units, d)`, of which rows are gathered."""
    return ops.transpose(kernel)


def _unit(index, per_tree):
    """Index among the units of all trees, of index `(rows, k)` within each tree."""
    return index + per_tree * ops.arange(index.shape[1], dtype="int32")


def _logits(inputs, kernel, bias, unit):
    """Logits `(rows, k)` of one unit for each row and tree."""
    rows = take_rows(kernel, unit)
    return ops.sum(rows * inputs[:, None, :], axis=-1) + take_rows(bias, unit)


def _leaf_positions(num_leaves):
    """For each leaf in heap order, its place from left to right."""
    heap, _ = leaf_layout(num_leaves)
    positions = np.empty(num_leaves, "int32")
    positions[np.asarray(heap) - (num_leaves - 1)] = np.arange(num_leaves)
    return ops.convert_to_tensor(positions)
