"""The FLOPs of the COMET paper's Table 6, by the rule that fits its printed figures."""

import math

HEAD_UNITS = 256
# Fitted: one multiply and one add for each of the 256 units of the two combined outputs.
CONSTANT = 1024


def table6_flops(experts_per_sample, gate_outputs, input_dim, expert_units):
    """FLOPs of the paper's MovieLens and Books models for one sample, as its Table 6 has them.

    The paper (COMET, Ibrahim et al., KDD 2023) prints figures without a rule. The one that fits: a dense
    layer from i to o units costs `2 i o + o`, and o more for a ReLU; an embedding nothing. Experts (one
    dense layer with ReLU) count by their measured number a sample, the gates of both tasks, and the head
    of one task only (256 units with ReLU, then 1).

    Args:
        experts_per_sample: float, weights of at least 1e-5 a sample, mean over both gates.
        gate_outputs: int, logits of one gate: n for Softmax and Top-k, `k (ceil(log2 n) + 1)` for
            DSelect-k and COMET.
        input_dim: int, width of what experts and gates read.
        expert_units: int.

    Returns:
        Dict with the FLOPs of `"experts"`, `"gates"`, `"head"` and the `"constant"`.

    Example:

    >>> sum(table6_flops(2, gate_outputs=16, input_dim=256, expert_units=256).values())
    412705
    """
    head = _dense(expert_units, HEAD_UNITS) + HEAD_UNITS + _dense(HEAD_UNITS, 1)
    return {
        "experts": experts_per_sample * (_dense(input_dim, expert_units) + expert_units),
        "gates": 2 * _dense(input_dim, gate_outputs),
        "head": head,
        "constant": CONSTANT,
    }


def table6_sizes(mixture):
    """The sizes that the rule wants of a mixture, as keyword arguments of `table6_flops`.

    Raises:
        ValueError: if the mixture is not of the paper's kind.
    """
    from comet_keras.experts import DenseExperts

    experts, gates = mixture.experts, mixture.gate_layers
    outputs = {_gate_outputs(gate) for gate in gates}
    is_flat = isinstance(experts, DenseExperts) and len(experts.units) == 1
    if not is_flat or len(gates) != 2 or len(outputs) > 1:
        raise ValueError(
            "`paper_table6` needs the paper's kind of mixture: DenseExperts of one dense layer and two "
            f"gates of one size. Received: {mixture.name!r} of {type(experts).__name__} with {len(gates)} "
            f"gate(s) of {sorted(outputs)} logits"
        )
    _, width, units = experts.kernels[0].shape
    return {"gate_outputs": outputs.pop(), "input_dim": width, "expert_units": units}


def _dense(inputs, outputs):
    return 2 * inputs * outputs + outputs


def _gate_outputs(gate):
    from comet_keras.gates import COMETGate, DSelectKGate, HashGate, SoftmaxGate

    if isinstance(gate, (COMETGate, DSelectKGate)):
        return gate.k * (math.ceil(math.log2(gate.num_experts)) + 1)
    if isinstance(gate, SoftmaxGate):  # Top-k is one too
        return gate.num_experts
    if isinstance(gate, HashGate):
        return 0
    raise ValueError(f"`paper_table6` does not cover gates of type {type(gate).__name__}.")
