"""The terms on gate weights as functions: values, gradients, masks."""

import keras
import numpy as np
import pytest
from helpers import (
    assert_gradient,
    cases,
    double_precision,
    exact_entropy,
    gradient,
    random_weights,
    value,
)
from keras import ops

from comet_keras.regularizers import (
    Entropy,
    GateRegularizer,
    Importance,
    Load,
    LoadBalance,
    Reciprocal,
    RouterZ,
)

RNG = np.random.default_rng(0)
TERMS = {
    "entropy": (lambda weight: Entropy(weight), (6, 2, 4)),
    "entropy_of_weights": (lambda weight: Entropy(weight, reads="weights"), (6, 4)),
    "importance": (lambda weight: Importance(weight), (6, 4)),
    "load": (lambda weight: Load(weight), (6, 4)),
    "load_balance": (lambda weight: LoadBalance(weight, k=2), (6, 4)),
    "reciprocal": (lambda weight: Reciprocal(weight), (6, 2, 4)),
    "router_z": (lambda weight: RouterZ(weight), (6, 4)),
}
each_term = pytest.mark.parametrize("kind", TERMS)


def of(term, x, **arguments):
    return float(value(term(ops.convert_to_tensor(np.asarray(x, "float32")), **arguments)))


@pytest.mark.parametrize("case", cases("reg.entropy"))
def test_entropy_of_the_published_cases_is_exact(case):
    p, expected = case["inputs"]["p"], case["expected"]
    for row, exact, code in zip(p, expected["exact"], expected["code"]):
        found = of(Entropy(1.0, reads="weights"), [row])
        np.testing.assert_allclose(found, exact, atol=case["tolerance"])
        np.testing.assert_allclose(found, code, atol=1.1e-6 * len(row))
        assert found >= 0
    found = of(Entropy(2.0, reads="weights"), p)
    np.testing.assert_allclose(found, 2 * np.mean(expected["exact"]), rtol=1e-6)


@pytest.mark.parametrize("case", cases("reg.importance"))
def test_importance_of_the_published_cases(case):
    term = Importance(case["inputs"]["w"])
    np.testing.assert_allclose(
        of(term, case["inputs"]["gates"]), case["expected"]["loss_population"], atol=case["tolerance"]
    )


@pytest.mark.parametrize("case", cases("reg.switch_load_balance"))
def test_load_balance_of_the_published_cases(case):
    term = LoadBalance(1.0, k=case["inputs"]["k"])
    np.testing.assert_allclose(
        of(term, case["inputs"]["probs"]), case["expected"]["loss"], atol=case["tolerance"]
    )


@pytest.mark.parametrize("case", cases("reg.router_z"))
def test_router_z_of_the_published_cases(case):
    np.testing.assert_allclose(
        of(RouterZ(1.0), case["inputs"]["logits"]), case["expected"]["loss"], rtol=case["tolerance"]
    )


def test_entropy_sums_over_selectors_and_averages_over_samples():
    v = random_weights(RNG, 5, 3, 4)
    np.testing.assert_allclose(of(Entropy(1.0), v), exact_entropy(v).sum(-1).mean(), rtol=1e-5)
    shared = random_weights(RNG, 3, 4)
    np.testing.assert_allclose(of(Entropy(1.0), shared), exact_entropy(shared).sum(), rtol=1e-5)


@each_term
def test_the_weight_is_a_factor(kind):
    make, shape = TERMS[kind]
    x = random_weights(RNG, *shape)
    assert of(make(1.0), x) != 0
    np.testing.assert_allclose(of(make(3.0), x), 3 * of(make(1.0), x), rtol=1e-6)
    assert of(make(0.0), x) == 0


@each_term
def test_masked_positions_do_not_count(kind):
    make, shape = TERMS[kind]
    x = random_weights(RNG, *shape)
    mask = np.array([True, False, True, True, False, False])
    np.testing.assert_allclose(
        of(make(1.0), x, mask=ops.convert_to_tensor(mask)), of(make(1.0), x[mask]), rtol=1e-5
    )
    pairs = x.reshape(2, 3, *shape[1:])
    np.testing.assert_allclose(
        of(make(1.0), pairs, mask=ops.convert_to_tensor(mask.reshape(2, 3))),
        of(make(1.0), x[mask]),
        rtol=1e-5,
    )


@each_term
def test_is_zero_with_a_zero_gradient_when_all_is_masked(kind):
    make, shape = TERMS[kind]
    mask = ops.convert_to_tensor(np.zeros(shape[:1], bool))
    x = random_weights(RNG, *shape)
    assert of(make(1.0), x, mask=mask) == 0
    assert not gradient(lambda t: make(1.0)(t, mask=mask), x, "float32").any()


@each_term
def test_gradients_equal_finite_differences(kind):
    make, shape = TERMS[kind]
    x = random_weights(RNG, *shape) + 0.01
    mask = np.array([True, False, True, True, True, True])
    with double_precision():
        if kind == "load_balance":
            # The shares have no gradient: finite differences see none while the order stays.
            assert np.diff(np.sort(x, axis=-1), axis=-1).min() > 1e-3
        assert_gradient(make(0.7), x)
        assert_gradient(lambda t: make(0.7)(t, mask=ops.convert_to_tensor(mask)), x)


@each_term
def test_gradients_are_finite_at_zeros_and_ones(kind):
    make, shape = TERMS[kind]
    for x in (np.eye(shape[-1])[RNG.integers(shape[-1], size=shape[:-1])], np.zeros(shape), np.ones(shape)):
        for dtype in ("float32", "float64"):
            with double_precision():
                assert np.isfinite(gradient(make(1.0), x, dtype)).all()


@pytest.mark.parametrize(
    "term, balanced",
    [
        (Importance(1.0), 0.0),
        (Load(1.0), 0.0),
        (LoadBalance(1.0), 1.0),
    ],
)
def test_balance_terms_are_smallest_when_experts_are_used_alike_and_push_that_way(term, balanced):
    uniform = np.eye(4)
    collapsed = np.full((4, 4), 0.1) + 0.6 * np.eye(4)[0]
    np.testing.assert_allclose(of(term, uniform), balanced, atol=1e-6)
    assert of(term, collapsed) > balanced + 0.5
    push = gradient(term, collapsed, "float32").mean(0)
    assert (push[0] > push[1:]).all()  # descent takes weight from the crowded expert


def test_entropy_pushes_towards_the_larger_weight():
    push = gradient(Entropy(1.0, reads="weights"), [[0.7, 0.3]], "float32")[0]
    assert push[0] < push[1]


def test_reciprocal_is_k_without_a_leak_and_grows_with_it():
    whole = np.eye(3)[None, :2]
    np.testing.assert_allclose(of(Reciprocal(1.0), whole), 2, rtol=1e-5)
    np.testing.assert_allclose(of(Reciprocal(1.0), 0.5 * whole), 4, rtol=1e-5)
    assert np.isfinite(of(Reciprocal(1.0), 0 * whole))
    assert (gradient(Reciprocal(1.0), 0.5 * whole, "float32") < 0).all()


def test_shares_of_load_balance_break_ties_by_the_lower_index():
    # Both rows count for expert 0.
    np.testing.assert_allclose(of(LoadBalance(1.0), [[0.5, 0.5], [0.5, 0.5]]), 2 * 0.5, rtol=1e-6)
    push = gradient(LoadBalance(1.0), [[0.5, 0.5], [0.5, 0.5]], "float32")
    np.testing.assert_allclose(push, [[1, 0], [1, 0]])


def test_router_z_is_finite_for_huge_logits():
    assert np.isfinite(gradient(RouterZ(1.0), [[1e4, -1e4]], "float32")).all()


@each_term
def test_half_precision_inputs_are_taken_in_float32(kind):
    make, shape = TERMS[kind]
    x = ops.cast(ops.convert_to_tensor(random_weights(RNG, *shape), "float32"), "float16")
    found = make(1.0)(x)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    np.testing.assert_allclose(value(found), of(make(1.0), value(x)), rtol=1e-6)


@each_term
def test_a_schedule_is_the_weight_of_its_step(kind):
    make, shape = TERMS[kind]
    x = random_weights(RNG, *shape)
    term = make(keras.optimizers.schedules.PolynomialDecay(1.0, 10, 0.0))
    for step in (0, 5, 10, 20):
        expected = (1 - min(step, 10) / 10) * of(make(1.0), x)
        np.testing.assert_allclose(of(term, x, step=step), expected, rtol=1e-5, atol=1e-7)


@each_term
@pytest.mark.parametrize("weight", [0.3, keras.optimizers.schedules.ExponentialDecay(1.0, 10, 0.5)])
def test_is_serializable(kind, weight):
    make, shape = TERMS[kind]
    term = make(weight)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(term))
    assert type(copy) is type(term) and copy.get_config() == term.get_config()
    assert copy.reads == term.reads
    x = random_weights(RNG, *shape)
    np.testing.assert_allclose(of(copy, x, step=3), of(term, x, step=3), rtol=1e-6)


@each_term
@pytest.mark.parametrize("weight", [-0.1, float("nan")])
def test_wrong_weights_are_refused(kind, weight):
    with pytest.raises(ValueError, match="`weight`.*at least 0"):
        TERMS[kind][0](weight)


def test_a_term_of_ones_own_needs_a_penalty_only():
    class Largest(GateRegularizer):
        name = "largest"

        def penalty(self, x, mask=None):
            return ops.max(x)

    assert of(Largest(0.5), [[0.25, 0.75]]) == 0.375
    with pytest.raises(NotImplementedError, match="penalty"):
        of(GateRegularizer(1.0), [[1.0]])
