"""Which rows go to which expert.

The one contract: `dispatch(experts, inputs, weights, ...)` returns the experts' outputs combined by the
weights. It is the only place that calls experts. Its forms agree, in outputs and gradients:

- dense: every expert on every row;
- dynamic: each expert on the rows that give it weight, tensors of the size that the data asks for;
- static: the same in tensors of fixed size, for compilers that need it (JAX, XLA).
"""

import functools
import math
import warnings

from keras import ops

from comet_keras.compiler import needs_static_shapes
from comet_keras.mixture.combine import combine
from comet_keras.mixture.conditional import conditional
from comet_keras.mixture.dynamic_form import dispatch_dynamic
from comet_keras.mixture.static_form import Plan, dispatch_static

# What a form costs beside its products, in multiply-adds (measured on CPUs, see docs/performance.md).
EXPERT_OVERHEAD = 1_000_000  # starting an expert's operations on its own rows
ROW_OVERHEAD = 12  # moving one number of a row to its expert or back


def dispatch(experts, inputs, weights, mode, used_by_gates, training):
    """Combines the experts' outputs by the weights of every gate.

    Args:
        experts: `ExpertCalls`.
        inputs: tensor `(*lead, ...)`.
        weights: tensor `(*lead, gates, n)`; an exact zero is work that need not be done.
        mode: `"dense"`, `"sparse"`, or `"auto"`: the cheaper one for these weights.
        used_by_gates: list of ints, experts that a row uses at most, for each gate, once they are hard.
        training: bool.

    Returns:
        Combined outputs `(*lead, gates, *rest)`.
    """
    static = needs_static_shapes()
    lead_shape, lead = ops.shape(weights)[:-2], experts.lead
    n, per_row = experts.num_experts, sum(used_by_gates)
    uses_all = max(used_by_gates) >= n or (static and per_row >= n)
    if _is_always_dense(experts, mode, uses_all, static, training) or (
        static and not all(_is_positive(size) for size in lead_shape)
    ):
        return dispatch_dense(experts, inputs, weights)
    rows = ops.reshape(inputs, (-1, *ops.shape(inputs)[lead:]))
    by_row = ops.reshape(weights, (-1, *weights.shape[-2:]))
    used = ops.any(by_row != 0, axis=1)
    if static:
        plan = Plan(used, per_row, experts)
        work, right = plan.num_places, plan.fits
    else:
        plan, work, right = used, ops.sum(ops.cast(used, "int32")), None
    cheaper = _is_cheaper(experts, work, used, inputs) if mode == "auto" else None

    def sparse():
        form = dispatch_static if static else dispatch_dynamic
        combined = form(experts, rows, by_row, plan)
        return ops.reshape(combined, (*lead_shape, *ops.shape(combined)[1:]))

    conditions = [condition for condition in (right, cheaper) if condition is not None]
    if not conditions:
        return sparse()
    return conditional(
        experts.owner,
        experts.layers,
        functools.reduce(ops.logical_and, conditions),
        sparse,
        lambda: dispatch_dense(experts, inputs, weights),
    )


def dispatch_dense(experts, inputs, weights):
    """Runs every expert on every row. Arguments as in `dispatch`."""
    return combine(experts.on_every_row(inputs), weights)


def _is_always_dense(experts, mode, uses_all, static, training):
    """What is known before any data comes."""
    if mode == "dense" or experts.num_experts == 1 or not experts.can_group():
        return True
    if experts.mix_positions():
        _warn(experts, mode, "listed experts may need a position's neighbours in its sequence")
        return True
    if experts.mix_rows(training) and (mode == "auto" or static):
        what = "batch normalization and activity regularizers would see places that no row takes"
        _warn(experts, mode, f"in tensors of fixed size (JAX, XLA) {what}")
        return True
    return uses_all and (mode == "auto" or static)


def _warn(experts, mode, reason):
    if mode == "sparse":
        warnings.warn(
            f"{experts.owner.name!r}: dispatch='sparse' is computed densely: {reason}.", stacklevel=2
        )


def _is_positive(size):
    """Not 0, and no symbol as in the exports of JAX."""
    return size > 0 if isinstance(size, int) else ops.is_tensor(size)


def _is_cheaper(experts, work, used, inputs):
    """Whether experts on `work` rows in all cost less than each on every row: bool scalar tensor."""
    n, cost = experts.num_experts, experts.cost
    moved = ROW_OVERHEAD * (math.prod(inputs.shape[experts.lead :]) + math.prod(experts.output_shape))
    work = ops.cast(work, "float32")
    rows = ops.cast(ops.shape(used)[0], "float32")
    return work * (cost + moved) + n * EXPERT_OVERHEAD < rows * (n * cost)
