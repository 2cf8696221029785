"""DSelect-k: selectors that are binary codes of experts."""

import numpy as np
import pytest
from helpers import cases, compiled, dselect_of, exact_entropy, exact_smooth_step, value
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from comet_keras import DSelectKGate
from comet_keras.regularizers import Entropy, Reciprocal


def slow_selectors(codes, n, gamma):
    """r_ji by a loop over samples, selectors, experts and bits."""
    batch, k, m = codes.shape
    result = np.ones((batch, k, n))
    for b in range(batch):
        for j in range(k):
            for i in range(n):
                for bit in range(m):
                    h = exact_smooth_step(codes[b, j, bit], gamma)
                    is_set = (i >> (m - 1 - bit)) & 1
                    result[b, j, i] *= h if is_set else 1 - h
    return result


def slow_weights(selectors, logits):
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.einsum("bk,bkn->bn", shares, selectors)


@pytest.mark.parametrize("case", cases("gate.dselect_k"))
def test_weights_and_loss_terms_of_the_published_cases(case):
    inputs, expected = case["inputs"], case["expected"]
    n, gamma, strength = inputs["n"], inputs["gamma"], inputs["entropy_weight"]
    codes, logits = np.array(inputs["z_logits"]), np.array(inputs["w_logits"])
    static = codes.ndim == 2
    gate = DSelectKGate(n, k=codes.shape[-2], gamma=gamma, per_sample=not static)
    if static:
        gate.build((None, 1))
        gate.code_bias.assign(codes.ravel())
        gate.selector_bias.assign(logits)
        x = ops.zeros((3, 1))
        target = np.tile(expected["gates"], (3, 1))
        codes, logits = codes[None], logits[None]
    else:
        x = dselect_of(gate, codes, logits)
        target = expected["gates"]
    routing = gate.route(x)
    np.testing.assert_allclose(value(gate(x)), target, atol=case["tolerance"])
    np.testing.assert_allclose(
        value(routing["selectors"]), expected["selectors"], atol=case["tolerance"]
    )
    # The published entropy adds 1e-6 inside the logarithm; ours is exact.
    selectors = slow_selectors(codes, n, gamma)
    entropy = value(Entropy(strength)(routing["selectors"]))
    np.testing.assert_allclose(
        entropy, strength * exact_entropy(selectors).sum(-1).mean(), atol=case["tolerance"]
    )
    np.testing.assert_allclose(
        entropy, expected["entropy_batch_mean"], atol=1.1e-6 * strength * selectors[0].size
    )
    if expected["reciprocal_batch_mean"]:
        np.testing.assert_allclose(
            value(Reciprocal(1.0)(routing["selectors"])),
            expected["reciprocal_batch_mean"],
            rtol=5e-6,  # that value is without the 1e-6 in the denominator
        )
    else:
        assert all(term.name != "reciprocal" for term in gate.all_regularizers())


@given(st.data())
def test_equals_a_loop_over_experts_and_bits(data):
    n, k = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 4))
    gamma = data.draw(st.sampled_from([0.01, 1.0, 10.0]))
    gate = DSelectKGate(n, k=k, gamma=gamma)
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    codes = gamma * rng.uniform(-0.7, 0.7, size=(3, k, gate.num_bits))
    logits = rng.normal(size=(3, k))
    routing = compiled(gate.combine)(*(ops.convert_to_tensor(a, "float32") for a in (codes, logits)))
    selectors = slow_selectors(codes, n, gamma)
    np.testing.assert_allclose(value(routing["selectors"]), selectors, atol=2e-6)
    np.testing.assert_allclose(value(routing["weights"]), slow_weights(selectors, logits), atol=2e-6)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8])
def test_saturated_bits_select_the_expert_of_that_code(n):
    gate = DSelectKGate(n, k=1, gamma=0.5)
    for i in range(n):
        bits = np.array([int(bit) for bit in format(i, f"0{gate.num_bits}b")])
        for size in (0.25, 3.0):  # at the end of the soft range, and beyond
            x = ops.convert_to_tensor(np.where(bits, size, -size)[None], "float32")
            weights = value(compiled(gate.combine)(x, ops.zeros((1, 1)))["weights"])
            assert weights.tolist() == [np.eye(n)[i].tolist()]


@given(st.integers(2, 70), st.integers(1, 5), st.integers(0, 10**6))
def test_at_most_k_experts_once_the_bits_are_saturated(n, k, seed):
    rng = np.random.default_rng(seed)
    gate = DSelectKGate(n, k=k, gamma=1.0)
    signs = rng.choice([-1, 1], size=(7, k * gate.num_bits))
    codes = signs * (0.5 + rng.exponential(size=signs.shape) * rng.integers(0, 2, size=signs.shape))
    tensors = (ops.convert_to_tensor(a, "float32") for a in (codes, rng.normal(size=(7, k))))
    weights = value(compiled(gate.combine)(*tensors)["weights"])
    assert ((weights > 0).sum(-1) <= k).all()
    assert (weights.sum(-1) <= 1 + 1e-6).all()
    if 2**gate.num_bits == n:
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)


def test_unused_codes_take_weight_which_is_not_rescaled():
    gate = DSelectKGate(3, k=1)
    weights = value(compiled(gate.combine)(ops.zeros((1, 2)), ops.zeros((1, 1)))["weights"])
    np.testing.assert_allclose(weights, [[0.25] * 3])
    lost = value(compiled(gate.combine)(ops.ones((1, 2)), ops.zeros((1, 1)))["weights"])
    assert lost.tolist() == [[0, 0, 0]]


def test_a_static_gate_gives_all_samples_the_same_weights():
    gate = DSelectKGate(5, k=2, per_sample=False)
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(4, 6, 3)), "float32")
    weights = value(gate(x))
    assert weights.shape == (4, 6, 5)
    assert (weights == weights[0, 0]).all()
    assert [tuple(w.shape) for w in gate.trainable_variables] == [(6,), (2,)]


def test_reciprocal_term_is_k_when_nothing_leaks_and_absent_for_powers_of_two():
    assert [t.name for t in DSelectKGate(4, entropy_weight=0.1).all_regularizers()] == ["entropy"]
    assert [t.name for t in DSelectKGate(5, entropy_weight=0.1).all_regularizers()] == [
        "entropy",
        "reciprocal",
    ]
    gate = DSelectKGate(3, k=2)
    gate.build((None, 2))
    for variable in (gate.code_kernel, gate.code_bias):
        variable.assign(np.full(variable.shape, -3.0))  # both selectors on expert 0
    gate(ops.ones((4, 2)), training=True)
    np.testing.assert_allclose(value(gate.losses[0]), 2, rtol=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"gamma": 0}, "`gamma`.*gamma=0"),
        ({"k": 0}, "`k`"),
        ({"entropy_weight": -1}, "`weight`.*-1"),
        ({"regularizers": [Entropy(1.0, reads="logits")]}, "regularizers.*logits"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        DSelectKGate(4, **arguments)
