"""What users do to layers beyond the plain way."""

import keras
import numpy as np
import pytest
from keras import ops

from comet_keras import (
    COMETGate,
    DenseExperts,
    HardenPermutation,
    HashGate,
    MixtureOfExperts,
    Permutation,
    RoutingMonitor,
    SoftmaxGate,
    TopKGate,
    metrics,
)
from comet_keras.regularizers import Entropy, Importance, LoadBalance, RouterZ

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 6)).astype("float32")
Y = RNG.normal(size=(64, 1)).astype("float32")


def mixture(**kwargs):
    return MixtureOfExperts(
        DenseExperts(4, 8), COMETGate(4, entropy_weight=0.1), Permutation(4), **kwargs
    )


def functional_model():
    inputs = keras.Input((6,))
    model = keras.Model(inputs, keras.layers.Dense(1)(mixture()(inputs)))
    model.compile("adam", "mse")
    return model


def weights_of(model):
    return [np.array(w) for w in model.get_weights()]


class Fail(keras.callbacks.Callback):
    def on_test_batch_end(self, batch, logs=None):
        raise RuntimeError("stopped in validation")


def test_an_exception_in_validation_leaves_no_gathering_behind():
    model = functional_model()
    with pytest.raises(RuntimeError, match="stopped in validation"):
        model.fit(X, Y, validation_split=0.25, verbose=0, callbacks=[RoutingMonitor(), Fail()])
    other = functional_model()
    before = weights_of(other)
    other.predict(X, verbose=0)
    other.evaluate(X, Y, verbose=0)
    for a, b in zip(before, weights_of(other)):
        np.testing.assert_array_equal(a, b)


def test_a_diverged_run_ends_as_its_callbacks_say():
    model = functional_model()
    bad = X.copy()
    bad[0] = np.nan
    stop = keras.callbacks.TerminateOnNaN()
    with pytest.warns(UserWarning, match="not finite"):
        history = model.fit(
            bad, Y, epochs=3, verbose=0, callbacks=[HardenPermutation(2, verbose=0), stop]
        )
    assert len(history.history["loss"]) == 1


@pytest.mark.parametrize("floatx", ["float64", "float32"])
def test_loss_terms_under_another_float_type(floatx):
    keras.config.set_floatx(floatx)
    try:
        model = functional_model()
        history = model.fit(X, Y, verbose=0, callbacks=[HardenPermutation(1, verbose=0)])
        assert np.isfinite(history.history["loss"]).all()
    finally:
        keras.config.set_floatx("float32")


def test_gates_of_equal_names_are_all_watched():
    parts = [
        keras.Sequential([keras.Input((6,)), MixtureOfExperts(DenseExperts(4, 6), TopKGate(4), name="moe")])
        for _ in range(2)
    ]
    inputs = keras.Input((6,))
    model = keras.Model(inputs, parts[1](parts[0](inputs)))
    assert list(metrics.gates_of(model)) == ["moe", "moe_2"]
    gates = {"a_b": TopKGate(4), "a": {"b": TopKGate(4)}}
    outputs = MixtureOfExperts(DenseExperts(4, 6), gates)(inputs)
    model = keras.Model(inputs, outputs)
    assert len(metrics.gates_of(model)) == 2


def test_a_model_built_by_its_first_fit_is_watched_and_hardened_without_warnings(recwarn):
    model = keras.Sequential([mixture(), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    history = model.fit(
        X, Y, epochs=2, verbose=0, callbacks=[HardenPermutation(1, verbose=0), RoutingMonitor(warn=False)]
    )
    ours = [str(w.message) for w in recwarn if "Permutation" in str(w.message) or "gate" in str(w.message)]
    assert ours == []
    permutation = model.layers[0].permutation
    assert bool(permutation.hardened.numpy()) and int(permutation.stage_steps.numpy()) == 2
    assert len(history.history["experts_per_sample"]) == 2


def test_a_frozen_permutation_stays_as_it_is():
    model = functional_model()
    model.trainable = False
    model.compile("adam", "mse")
    model.fit(X, Y, verbose=0)
    before = weights_of(model.layers[1].permutation)
    with pytest.warns(UserWarning, match="no Permutation layer that trains"):
        model.fit(X, Y, epochs=2, verbose=0, callbacks=[HardenPermutation(1)])
    for a, b in zip(before, weights_of(model.layers[1].permutation)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "term", [Importance(1.0), LoadBalance(1.0), RouterZ(1.0), Entropy(1.0, reads="weights")]
)
def test_masked_positions_may_hold_nan(term):
    gate = SoftmaxGate(4, regularizers=[term])
    x = X[:5].copy()
    gate(x, training=True)
    gate(x[1:], training=True)
    expected = float(ops.convert_to_numpy(gate.losses[0]))
    gate.statistics.reset()
    x[0] = np.nan
    gate(x, mask=np.array([False] + [True] * 4), training=True)
    np.testing.assert_allclose(float(ops.convert_to_numpy(gate.losses[0])), expected, rtol=1e-5)
    assert np.isfinite(gate.statistics.read()["experts_per_sample"])


def test_an_unmasked_nan_is_not_hidden():
    x = X[:5].copy()
    x[0] = np.nan
    gate = SoftmaxGate(4, regularizers=[Importance(1.0)])
    gate(x, training=True)
    assert np.isnan(float(ops.convert_to_numpy(gate.losses[0])))


class TestHashIds:
    @pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="strings enter TensorFlow only")
    def test_the_token_for_unknown_strings_may_be_in_the_vocabulary(self):
        gate = HashGate(4, vocabulary=["[UNK]", "a", "b"], assignment="modulo")
        weights = ops.convert_to_numpy(gate(np.array([["[UNK]"], ["a"], ["b"]])))
        np.testing.assert_array_equal(weights.argmax(-1), [0, 1, 2])

    @pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX has 32-bit integers by default")
    def test_large_ids_do_not_wrap_into_the_table(self):
        ids = np.array([[2**32 + 6], [6], [-1]], "int64")
        for gate in (
            HashGate(4, vocabulary=[5, 6, 7], assignment="modulo"),
            HashGate(4, num_ids=8, seed=3),
        ):
            experts = ops.convert_to_numpy(gate(ops.convert_to_tensor(ids))).argmax(-1)
            assert experts[0] == (2**32 + 6) % 4 and experts[2] == 3

    def test_unknown_arguments_are_refused(self):
        with pytest.raises((ValueError, TypeError), match="k"):
            HashGate(4, num_ids=3, k=3)


@pytest.mark.parametrize("value", [None, "a", float("nan"), float("inf"), [4], np.array([4]), 0, -1, True])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("num_experts", lambda v: SoftmaxGate(v)),
        ("k", lambda v: TopKGate(4, k=v)),
        ("gamma", lambda v: COMETGate(4, gamma=v)),
        ("units", lambda v: DenseExperts(4, (v,))),
        ("epochs", lambda v: HardenPermutation(v)),
        ("rounds", lambda v: Permutation(4, rounds=(v, 20))),
        ("temperature", lambda v: Permutation(4, temperature=(1e-3, v))),
    ],
)
def test_wrong_numbers_are_refused_by_name(name, make, value):
    with pytest.raises(ValueError, match=f"`{name}`"):
        make(value)


@pytest.mark.parametrize("gamma", [1e39, 1e-40])
def test_a_gamma_that_float32_cannot_divide_by_is_refused(gamma):
    with pytest.raises(ValueError, match="`gamma`"):
        COMETGate(4, gamma=gamma)


@pytest.mark.parametrize("value", ["a", [1], -1.0, float("nan"), float("inf")])
def test_wrong_weights_are_refused_by_name(value):
    with pytest.raises(ValueError, match="`weight`"):
        COMETGate(4, entropy_weight=value)
    with pytest.raises(ValueError, match="`entropy_weight`"):
        Permutation(4, entropy_weight=value)
    with pytest.raises(ValueError, match="`dropout`"):
        DenseExperts(4, 8, dropout=value)


def test_one_permutation_in_a_list_does_not_fit_two_gates():
    with pytest.raises(ValueError, match="`permutation`"):
        MixtureOfExperts(DenseExperts(4, 8), [TopKGate(4), TopKGate(4)], [Permutation(4)])


def test_statistics_take_integer_weights():
    assert float(ops.convert_to_numpy(metrics.gate_entropy(np.array([[1, 0]])))) == 0
