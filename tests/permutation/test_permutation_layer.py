"""The permutation layer: soft in the first stage, a fixed permutation after it."""

import itertools

import keras
import numpy as np
import pytest
from helpers import (
    assert_gradient,
    cases,
    compiled,
    double,
    double_precision,
    exact_entropy,
    gradient,
    random_weights,
    slow_sinkhorn,
    value,
    with_value,
)
from keras import ops

from comet_keras import Permutation, SoftmaxGate

pytestmark = pytest.mark.filterwarnings("ignore:Permutation .* is trained without a first stage")
RNG = np.random.default_rng(0)


def built(n, **arguments):
    layer = Permutation(n, **arguments)
    layer.build((None, n))
    return layer


def brute_force(utilities):
    """Of all permutations, the one of largest total."""
    n = len(utilities)
    return max(itertools.permutations(range(n)), key=lambda p: utilities[range(n), p].sum())


def test_is_the_identity_before_any_training():
    layer = Permutation(5)
    weights = random_weights(RNG, 4, 3, 5).astype("float32")
    np.testing.assert_array_equal(value(layer(ops.convert_to_tensor(weights))), weights)
    np.testing.assert_array_equal(layer.hard_matrix(), np.eye(5))


def test_expert_i_receives_the_weight_of_column_assignment_i():
    layer = built(3)
    layer.assignment.assign([2, 0, 1])
    matrix = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(layer.hard_matrix(), matrix)
    weights = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]], "float32")
    found = value(layer(ops.convert_to_tensor(weights)))
    np.testing.assert_array_equal(found, weights @ matrix.T)  # P g, not P^T g
    assert np.abs(found - weights @ matrix).max() > 0.1


@pytest.mark.parametrize("warm", [False, True])
def test_training_applies_the_soft_matrix_as_p_g(warm):
    logits = RNG.uniform(-0.05, 0.05, size=(4, 4)).astype("float32")
    layer = built(4, warm_start=warm, temperature=(0.02, 0.01), rounds=(6, 9))
    layer.logits.assign(logits)
    soft, _ = slow_sinkhorn(logits, 0.02, 6)
    assert np.abs(soft - soft.T).max() > 0.1
    np.testing.assert_allclose(layer.soft_matrix(), soft, atol=1e-5)
    weights = random_weights(RNG, 2, 3, 4).astype("float32")
    found = value(layer(ops.convert_to_tensor(weights), training=True))
    np.testing.assert_allclose(found, weights @ soft.T, atol=1e-5)
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("case", cases("perm.sinkhorn"))
def test_round_finds_the_assignment_of_the_published_cases(case):
    layer = built(len(case["inputs"]["U"]))
    layer.logits.assign(np.array(case["inputs"]["U"], "float32"))
    layer.round()
    if case["expected"]["assignment"] is not None:
        assert value(layer.assignment).tolist() == case["expected"]["assignment"]
    assert sorted(value(layer.assignment)) == list(range(layer.num_experts))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_round_finds_the_best_of_all_permutations(n):
    for seed in range(4):
        utilities = np.random.default_rng(seed).uniform(-0.05, 0.05, size=(n, n)).astype("float32")
        layer = built(n)
        layer.logits.assign(utilities)
        report = layer.round()
        assert tuple(value(layer.assignment)) == brute_force(utilities)
        soft = layer.soft_matrix()
        np.testing.assert_allclose(report["distance"], np.linalg.norm(soft - layer.hard_matrix()))
        np.testing.assert_allclose(report["row_deviation"], np.abs(soft.sum(1) - 1).max())


def test_inference_follows_the_rounded_permutation_and_stays_sparse():
    layer = built(6)
    layer.round()
    weights = np.eye(6, dtype="float32")[[3, 1]]
    found = value(layer(ops.convert_to_tensor(weights)))
    np.testing.assert_array_equal(found, weights[:, value(layer.assignment)])
    assert set(np.unique(found)) == {0, 1}


def test_diverged_logits_are_told_and_keep_the_assignment():
    layer = built(3)
    layer.assignment.assign([2, 0, 1])
    layer.logits.assign(np.full((3, 3), np.nan))
    with pytest.warns(UserWarning, match="not finite.*diverged"):
        report = layer.round()
    assert np.isnan(report["distance"]) and np.isnan(report["row_deviation"])
    assert value(layer.assignment).tolist() == [2, 0, 1]


def test_entropy_term_is_that_of_s_and_of_s_with_normalised_rows():
    for zeta in (1e-4, 0.5):
        layer = built(4, entropy_weight=zeta, temperature=(0.02, 0.01), rounds=(2, 2))
        soft, _ = slow_sinkhorn(value(layer.logits), 0.02, 2)
        rows = soft / soft.sum(1, keepdims=True)
        expected = zeta * (exact_entropy(soft).sum() + exact_entropy(rows).sum())
        x = ops.ones((3, 4)) / 4
        layer(x, training=True)
        np.testing.assert_allclose(float(value(sum(layer.losses))), expected, rtol=1e-4)
        layer(x)
        assert layer.losses == []


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("step", [0, 5, 10])
def test_gradients_of_logits_and_weights_equal_finite_differences(warm, step):
    rng = np.random.default_rng(step)
    with double_precision():
        layer = built(
            4, warm_start=warm, temperature=(0.1, 0.02), rounds=(2, 12), dtype="float64"
        )
        layer.step.assign(step)
        layer.stage_steps.assign(10)
        layer.potentials.assign(rng.uniform(-0.02, 0.02, size=4))
        coefficients = double(rng.normal(size=(5, 4)))
        weights = double(random_weights(rng, 5, 4))

        def loss(weights):
            return ops.sum(coefficients * layer(weights, training=True))

        def loss_at_fixed_state(weights):
            with keras.StatelessScope([]):
                return loss(weights)

        assert_gradient(loss_at_fixed_state, value(weights))
        function = with_value(layer.logits, lambda: loss(weights))
        assert np.abs(gradient(function, value(layer.logits))).max() > 1e-3
        assert_gradient(function, value(layer.logits), step=1e-6, tolerance=1e-5)
        assert int(value(layer.step)) == step


@pytest.mark.parametrize("warm", [False, True])
def test_gradient_of_the_entropy_term_equals_finite_differences(warm):
    with double_precision():
        layer = built(
            4, warm_start=warm, temperature=(0.05, 0.05), rounds=(3, 3), dtype="float64"
        )

        def term(logits):
            return layer._entropy(layer._soft_matrix(logits)[0])

        assert_gradient(term, value(layer.logits), step=1e-6, tolerance=1e-5)


def drift(warm, temperature, steps=300, n=16):
    """Row deviations along a first stage, while U drifts as under a small learning rate."""
    rng = np.random.default_rng(1)
    layer = built(n, warm_start=warm, temperature=temperature)
    layer.stage_steps.assign(steps)
    logits = rng.uniform(-0.05, 0.05, size=(n, n))
    eye = ops.eye(n)  # of which P g is the transpose of S
    run = compiled(lambda logits, state: layer.stateless_call([logits], state, eye, training=True))
    state = [v.value for v in layer.non_trainable_variables]
    deviations = []
    for step in range(steps):
        logits = logits + 1e-4 * rng.normal(size=(n, n))
        soft, state = run(ops.convert_to_tensor(logits, "float32"), state)
        deviations.append(np.abs(value(soft).sum(0) - 1).max())
    layer.logits.assign(logits)
    for variable, final in zip(layer.non_trainable_variables, state):
        variable.assign(final)
    return np.array(deviations), layer


@pytest.mark.parametrize("temperature", [(3e-2, 3e-6), (1e-3, 1e-7)])  # the default and the paper's
def test_a_warm_start_stays_doubly_stochastic_along_the_schedule(temperature):
    warm, layer = drift(True, temperature)
    # But for the first rounds, and single steps in which U changes its best permutation.
    assert (warm < 0.02).mean() > 0.95
    assert (warm[200:] < 0.02).all()
    report = layer.harden()
    assert report["distance"] < 0.05 and report["row_deviation"] < 0.02


def test_a_cold_start_has_too_few_rounds_for_the_temperatures_of_the_paper():
    cold, _ = drift(False, (1e-3, 1e-7))
    assert (cold > 0.1).mean() > 0.95


def test_by_default_every_expert_is_at_every_place_at_first():
    for seed in range(5):
        keras.utils.set_random_seed(seed)
        soft = built(16).soft_matrix()
        assert 0.001 < soft.min() < soft.max() < 0.5


def test_two_calls_in_one_pass_use_one_matrix_and_count_one_step():
    layer = Permutation(4, temperature=(0.01, 0.001), rounds=(2, 2))
    inputs = [keras.Input((4,)), keras.Input((4,))]
    model = keras.Model(inputs, [layer(x) for x in inputs])
    weights = ops.convert_to_tensor(random_weights(RNG, 3, 4), "float32")
    for done in range(3):
        soft = layer.soft_matrix()
        first, second = model([weights, weights], training=True)
        np.testing.assert_allclose(value(first), value(weights) @ soft.T, atol=1e-5)
        np.testing.assert_array_equal(value(first), value(second))
        assert len(layer.losses) == 1
        assert int(value(layer.step)) == done + 1
    model([weights, weights])
    assert int(value(layer.step)) == 3


def test_fit_counts_its_steps_and_inference_counts_none():
    inputs = keras.Input((3,))
    layer = Permutation(4)
    model = keras.Model(inputs, layer(SoftmaxGate(4)(inputs)))
    model.compile("sgd", "mse")
    model.fit(np.zeros((10, 3)), np.zeros((10, 4)), batch_size=4, epochs=2, verbose=0)
    model.evaluate(np.zeros((10, 3)), np.zeros((10, 4)), verbose=0)
    model.predict(np.zeros((10, 3)), verbose=0)
    assert int(value(layer.step)) == 6


@pytest.mark.parametrize("broken", [0.3, np.inf, np.nan])
def test_once_hard_logits_have_no_effect_and_no_gradient(broken):
    layer = built(4)
    x = ops.convert_to_tensor(random_weights(RNG, 3, 4), "float32")
    layer(x, training=True)
    layer.harden()
    hard = layer.hard_matrix()
    kept = [value(v) for v in (layer.assignment, layer.potentials, layer.hardened)]
    layer.logits.assign(np.full((4, 4), broken))
    for _ in range(2):
        found = value(layer(x, training=True))
        np.testing.assert_allclose(found, value(x) @ hard.T, atol=1e-7)
        assert [float(value(loss)) for loss in layer.losses] in ([], [0.0])
    assert layer.round() == {"distance": 0.0, "row_deviation": 0.0}
    layer.harden()
    for old, variable in zip(kept, (layer.assignment, layer.potentials, layer.hardened)):
        np.testing.assert_array_equal(old, value(variable))

    def loss():
        return ops.sum(ops.square(layer(x, training=True)))

    assert not gradient(with_value(layer.logits, loss), value(layer.logits), "float32").any()
    weights_gradient = gradient(
        lambda w: ops.sum(ops.square(with_value(layer.step, lambda: layer(w, training=True))(layer.step))),
        value(x),
        "float32",
    )
    np.testing.assert_allclose(weights_gradient, 2 * value(x), atol=1e-6)


def test_the_whole_state_is_in_the_weights():
    layer = built(5)
    x = ops.convert_to_tensor(random_weights(RNG, 3, 5), "float32")
    layer(x, training=True)
    layer.harden()
    copy = Permutation.from_config(layer.get_config())
    copy.build((None, 5))
    copy.set_weights(layer.get_weights())
    for training in (False, True):
        np.testing.assert_array_equal(value(copy(x, training=training)), value(layer(x, training=training)))
    assert copy.round() == {"distance": 0.0, "row_deviation": 0.0}


def test_seeded_initializers_reproduce_and_permutations_start_different_otherwise():
    seeded = keras.initializers.RandomUniform(-0.05, 0.05, seed=3)
    first, second = (value(built(4, initializer=seeded).logits) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    first, second = (value(built(4).logits) for _ in range(2))
    assert not np.array_equal(first, second)
    assert np.abs(first).max() <= 0.05


def test_an_identity_initializer_starts_from_no_permutation():
    layer = built(5, initializer=keras.initializers.Identity(0.5))
    layer.round()
    np.testing.assert_array_equal(layer.hard_matrix(), np.eye(5))
    np.testing.assert_allclose(layer.soft_matrix(), np.eye(5), atol=1e-6)


@pytest.mark.parametrize("policy", ["float16", "mixed_float16", "mixed_bfloat16"])
def test_half_precision_permutes_in_float32(policy):
    layer = Permutation(4, dtype=policy)
    x = ops.cast(ops.convert_to_tensor(np.eye(4)[:1], "float32"), layer.compute_dtype)
    for training in (True, False):
        found = layer(x, training=training)
        assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
        assert np.isfinite(value(ops.cast(found, "float32"))).all()
    assert layer.logits.dtype == "float32" and layer.potentials.dtype == "float32"


def test_an_empty_batch_passes():
    for training in (False, True):
        assert value(Permutation(3)(ops.zeros((0, 3)), training=training)).shape == (0, 3)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_experts": 0}, "`num_experts`"),
        ({"temperature": 1e-3}, "`temperature`.*pair.*0.001"),
        ({"temperature": (1e-3, 0)}, "`temperature`"),
        ({"temperature": (1e-3, float("nan"))}, "`temperature`"),
        ({"rounds": (20,)}, "`rounds`.*pair"),
        ({"rounds": (0, 10)}, "`rounds`"),
        ({"rounds": (2.5, 10)}, "`rounds`"),
        ({"entropy_weight": -1}, "`entropy_weight`.*-1"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        Permutation(**{"num_experts": 4, **arguments})


def test_weights_of_another_number_of_experts_are_refused():
    with pytest.raises(ValueError, match=r"4 experts.*\(\.\.\., 4\).*\(2, 5\)"):
        Permutation(4)(ops.ones((2, 5)))
