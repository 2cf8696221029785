"""Top-k: the k largest logits, noise in training, the lower index at ties."""

import warnings

import keras
import numpy as np
import pytest
from helpers import (
    BACKEND,
    assert_gradient,
    cases,
    double,
    double_precision,
    gradient,
    linear,
    value,
    with_value,
)
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from scipy.stats import norm

from comet_keras import TopKGate
from comet_keras.regularizers import Importance, Load


def top_k(logits, k, softmax="after"):
    """By a sort in numpy: larger logits first, then the lower index."""
    logits = np.asarray(logits, "float64")
    result = np.zeros_like(logits)
    for row, out in zip(logits, result):
        chosen = sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]
        exps = np.exp(row - row.max())
        out[chosen] = exps[chosen] / (exps[chosen].sum() if softmax == "after" else exps.sum())
    return result


@pytest.mark.filterwarnings("ignore:TopKGate")
@pytest.mark.parametrize("case", cases("gate.topk"))
def test_weights_of_the_published_cases(case):
    logits = ops.convert_to_tensor(case["inputs"]["logits"], "float32")
    gate = linear(TopKGate(logits.shape[-1], k=case["inputs"]["k"]), logits)
    np.testing.assert_allclose(
        value(gate(logits)), case["expected"]["gates"], atol=case["tolerance"]
    )


@pytest.mark.filterwarnings("ignore:TopKGate")
@pytest.mark.parametrize("case", cases("gate.noisy_topk"))
def test_noisy_selection_importance_and_load_of_the_published_cases(case):
    inputs, expected = case["inputs"], case["expected"]
    x, noise = (ops.convert_to_tensor(inputs[name], "float32") for name in ("x", "noise"))
    gate = TopKGate(np.shape(inputs["W_gate"])[1], k=inputs["k"], noisy=True)
    gate.build(x.shape)
    gate.kernel.assign(inputs["W_gate"])
    gate.noise_kernel.assign(inputs["W_noise"])
    assert gate.NOISE_EPSILON == inputs["noise_epsilon"]
    scale = ops.softplus(ops.matmul(x, gate.noise_kernel)) + gate.NOISE_EPSILON
    np.testing.assert_allclose(value(scale), expected["noise_std"], atol=case["tolerance"])
    routing = gate.select(ops.matmul(x, gate.kernel), noise * scale, scale)
    np.testing.assert_allclose(value(routing["weights"]), expected["gates"], atol=case["tolerance"])
    np.testing.assert_allclose(value(routing["load"]), expected["load_prob"], atol=case["tolerance"])
    for term, read, loss in (
        (Importance(inputs["w_importance"]), "weights", "importance_loss"),
        (Load(inputs["w_load"]), "load", "load_loss"),
    ):
        np.testing.assert_allclose(value(term(routing[read])), expected[loss], atol=case["tolerance"])


@pytest.mark.filterwarnings("ignore:TopKGate")
@given(st.data())
def test_keeps_the_k_largest_logits_and_the_lower_index_at_ties(data):
    n = data.draw(st.integers(2, 12))
    k = data.draw(st.integers(1, n))
    softmax = data.draw(st.sampled_from(["after", "before"]))
    # Few distinct values, zero among them: many ties.
    row = st.lists(st.sampled_from([-2.0, 0.0, 0.5, 3.0]), min_size=n, max_size=n)
    logits = np.array(data.draw(st.lists(row, min_size=3, max_size=3)), "float32")
    found = value(TopKGate(n, k=k, softmax=softmax).select(ops.convert_to_tensor(logits))["weights"])
    expected = top_k(logits, k, softmax)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert ((found > 0) == (expected > 0)).all()


def test_a_logit_of_zero_is_kept_like_any_other():
    gate = linear(TopKGate(3, k=2), np.zeros((1, 3)))
    zeros = value(gate(ops.zeros((2, 3))))
    assert zeros.tolist() == [[0.5, 0.5, 0]] * 2
    found = value(gate(ops.convert_to_tensor([[-1.0, 0.0, -2.0]])))
    np.testing.assert_allclose(found, top_k([[-1, 0, -2]], 2), atol=1e-6)
    assert found[0, 1] > found[0, 0] > 0


def test_softmax_before_is_not_rescaled():
    gate = linear(TopKGate(3, k=1, softmax="before"), np.zeros((1, 3)))
    found = value(gate(ops.convert_to_tensor([[1.0, 0.0, -1.0]])))
    np.testing.assert_allclose(found, [[np.e / (np.e + 1 + 1 / np.e), 0, 0]], rtol=1e-6)


def test_noise_acts_in_training_only_and_follows_the_seed():
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(64, 5)), "float32")
    gates = [linear(TopKGate(5, k=2, noisy=True, seed=seed), x) for seed in (3, 3, 4)]
    plain = linear(TopKGate(5, k=2), x)
    np.testing.assert_array_equal(value(gates[0](x)), value(plain(x)))
    draws = [value(gate(x, training=True)) for gate in gates]
    assert not np.array_equal(draws[0], value(plain(x)))
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    assert not np.array_equal(draws[0], value(gates[0](x, training=True)))
    np.testing.assert_array_equal(value(plain(x, training=True)), value(plain(x)))


def test_noise_is_normal_with_the_scale_of_its_own_kernel():
    gate = TopKGate(2, k=2, noisy=True, seed=0)
    x = ops.ones((20000, 1))
    gate.build(x.shape)
    gate.kernel.assign([[0.0, 0.0]])
    gate.noise_kernel.assign([[1.0, -2.0]])
    weights = value(gate(x, training=True))
    difference = np.log(weights[:, 0] / weights[:, 1])  # the difference of two noisy logits
    scale = np.log1p(np.exp([1.0, -2.0])) + 0.01
    np.testing.assert_allclose(difference.std(), np.hypot(*scale), rtol=0.03)
    np.testing.assert_allclose(difference.mean(), 0, atol=0.05)


def test_noise_kernel_is_a_weight_of_its_own_and_is_trained():
    assert len(TopKGate(4, k=2)(ops.ones((1, 3))).shape) == 2
    rng = np.random.default_rng(1)
    logits, noise, coefficients = (rng.normal(size=(3, 4)) for _ in range(3))
    gate = TopKGate(4, k=2, noisy=True, dtype="float64")
    gate.build((None, 4))
    names = [w.name for w in gate.trainable_variables]
    assert names == ["noise_kernel", "kernel", "bias"]
    with double_precision():
        gate = TopKGate(4, k=2, noisy=True, dtype="float64")
        gate.build((None, 4))
        x = double(logits)

        def loss():
            scale = ops.softplus(ops.matmul(x, gate.noise_kernel)) + gate.NOISE_EPSILON
            routing = gate.select(x, double(noise) * scale, scale)
            return ops.sum(routing["weights"] * double(coefficients)) + ops.sum(
                ops.square(routing["load"])
            )

        function = with_value(gate.noise_kernel, loss)
        assert np.abs(gradient(function, 0.1 * rng.normal(size=(4, 4)))).max() > 1e-3
        assert_gradient(function, 0.1 * rng.normal(size=(4, 4)))


@pytest.mark.filterwarnings("ignore:TopKGate")
@pytest.mark.parametrize("k", [1, 2, 3])
def test_load_is_the_probability_to_stay_chosen_under_fresh_noise(k):
    rng = np.random.default_rng(k)
    logits, scale = rng.normal(size=(2, 4)), rng.uniform(0.3, 2, size=(2, 4))
    noisy = logits + rng.normal(size=(2, 4)) * scale
    gate = TopKGate(4, k=k, noisy=True)
    tensors = (ops.convert_to_tensor(a, "float32") for a in (logits, noisy - logits, scale))
    found = value(gate.select(*tensors)["load"])
    for b in range(2):
        for i in range(4):
            others = np.sort(np.delete(noisy[b], i))[::-1]
            expected = norm.cdf((logits[b, i] - others[k - 1]) / scale[b, i])
            np.testing.assert_allclose(found[b, i], expected, atol=1e-5)
            # And by drawing that expert's noise anew, the others staying.
            drawn = logits[b, i] + scale[b, i] * rng.normal(size=20000)
            np.testing.assert_allclose(found[b, i], (drawn > others[k - 1]).mean(), atol=0.02)


def test_load_needs_noise_and_fewer_than_all_experts():
    for arguments in ({"k": 2}, {"k": 3, "noisy": True}):
        with pytest.raises(ValueError, match="regularizers.*load"):
            TopKGate(3, regularizers=[Load(0.1)], **arguments)
    gate = TopKGate(3, k=2, noisy=True, regularizers=[Load(0.1)])
    gate(ops.ones((2, 4)))
    assert gate.losses == []
    gate(ops.ones((2, 4)), training=True)
    assert len(gate.losses) == 1


def router_gradient(softmax):
    rng = np.random.default_rng(0)
    with double_precision(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gate = TopKGate(4, k=1, softmax=softmax, dtype="float64")
        gate.build((None, 3))
        x = double(rng.normal(size=(6, 3)))
        outputs = double(rng.normal(size=(6, 4)))
        loss = with_value(gate.kernel, lambda: ops.sum(gate.route(x)["weights"] * outputs))
        return gradient(loss, rng.normal(size=(3, 4)))


def test_a_single_expert_trains_the_router_only_with_softmax_before():
    assert np.abs(router_gradient("before")).max() > 1e-3
    assert np.abs(router_gradient("after")).max() == 0


def test_a_single_expert_with_softmax_after_warns():
    with pytest.warns(UserWarning, match="softmax='before'"):
        TopKGate(4, k=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TopKGate(4, k=1, softmax="before")
        TopKGate(4, k=2)
        TopKGate(1, k=1)
        TopKGate(4, k=1, noisy=True, regularizers=[Load(0.1)])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_experts": 3, "k": 4}, "`k`.*k=4"),
        ({"num_experts": 3, "k": 0}, "`k`.*k=0"),
        ({"num_experts": 0}, "`num_experts`"),
        ({"num_experts": 3, "softmax": "both"}, "`softmax`.*'after', 'before'.*both"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        TopKGate(**arguments)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch runs step by step, so it compiles nothing.")
def test_ties_are_broken_alike_in_a_compiled_model():
    gate = TopKGate(4, k=2, kernel_initializer="zeros")
    inputs = keras.Input((3,))
    model = keras.Model(inputs, gate(inputs))
    model.compile(jit_compile=True)
    weights = model.predict(np.random.default_rng(0).normal(size=(5, 3)), verbose=0)
    assert weights.tolist() == [[0.5, 0.5, 0, 0]] * 5
