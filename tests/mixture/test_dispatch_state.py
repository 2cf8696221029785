"""What experts do beside returning values (dropout, moving averages, loss terms, steps) survives dispatch."""

import keras
import numpy as np
import pytest
from helpers import BACKEND, value
from keras import ops
from mixture.common import normal
from mixture.test_dispatch import GivenWeights

from comet_keras import DenseExperts, MixtureOfExperts, TopKGate

ROWS, WIDTH, UNITS = 64, 64, 1024

# Each row to one of four experts: so much work that `auto` runs experts on their own rows only.
OWNER = np.repeat([0, 1, 2, 3], [10, 15, 20, 19])
ONE_HOT = np.eye(4, dtype="float32")[OWNER]

each_mode = pytest.mark.parametrize("mode", ["auto", "sparse"])
# Whether a training step is compiled, and that for fixed sizes: always on JAX, on request on TensorFlow.
COMPILERS = [False, True] if BACKEND == "tensorflow" else ["auto"]
each_compiler = pytest.mark.parametrize("jit_compile", COMPILERS)
each_way = pytest.mark.parametrize(
    ("mode", "jit_compile"), [("auto", jit) for jit in COMPILERS] + [("sparse", COMPILERS[0])]
)


def has_fixed_sizes(jit_compile):
    return BACKEND == "jax" or jit_compile is True


class Recorder(keras.layers.Layer):
    """Passes its inputs on, and keeps the last training batch."""

    def build(self, input_shape):
        self.seen = self.add_weight(name="seen", shape=(ROWS, input_shape[-1]), trainable=False)
        self.built = True

    def call(self, inputs, training=False):
        if training:
            self.seen.assign(inputs)
        return inputs

    def compute_output_shape(self, input_shape):
        return input_shape


class Trained:
    """A model of one mixture under given weights, trained with a learning rate of 0 by default."""

    def __init__(self, experts, mode, jit_compile=COMPILERS[0], learning_rate=0.0, loss="mse"):
        x, weights = keras.Input((WIDTH,)), keras.Input((4,))
        self.mixture = MixtureOfExperts(experts, GivenWeights(4, 1), dispatch=mode)
        self.recorder = Recorder()
        outputs = self.recorder(self.mixture(x, gate_inputs=weights))
        self.model = keras.Model([x, weights], outputs)
        self.model.compile(
            keras.optimizers.SGD(learning_rate), loss=loss, jit_compile=jit_compile
        )
        self.labels = None if loss is None else np.zeros((ROWS, outputs.shape[-1]), "float32")

    def step(self, x, weights=ONE_HOT):
        """One training step by `fit`: the loss, and the mixture's outputs in it."""
        history = self.model.fit(
            [x, weights], self.labels, batch_size=ROWS, shuffle=False, verbose=0
        ).history
        return history["loss"][0], value(self.recorder.seen)

    def predict(self, x, weights=ONE_HOT):
        return self.model.predict([x, weights], batch_size=ROWS, verbose=0)


# Dropout


def stacked_ones():
    return DenseExperts(
        4, UNITS, dropout=0.5, kernel_initializer="zeros", bias_initializer="ones"
    )


def listed_ones():
    def expert():
        dense = keras.layers.Dense(UNITS, kernel_initializer="zeros", bias_initializer="ones")
        return keras.Sequential([dense, keras.layers.Dropout(0.5)])

    return [expert() for _ in range(4)]


def assert_draws(trained, x):
    first, second = trained.step(x)[1], trained.step(x)[1]
    for outputs in (first, second):
        np.testing.assert_array_equal(np.unique(outputs), [0.0, 2.0])
        assert (outputs == 0).mean() == pytest.approx(0.5, abs=0.02)
        assert len(np.unique(outputs, axis=0)) == ROWS
    assert (first != second).mean() == pytest.approx(0.5, abs=0.02)
    np.testing.assert_array_equal(trained.predict(x), 1.0)


@each_way
def test_dropout_of_stacked_experts_draws_for_each_row_and_step_and_not_in_inference(mode, jit_compile):
    """Experts that return 1 return 0 or 2 under dropout of a half."""
    assert_draws(Trained(stacked_ones(), mode, jit_compile), normal(ROWS, WIDTH))


@each_mode
def test_dropout_of_listed_experts_likewise(mode):
    assert_draws(Trained(listed_ones(), mode), normal(ROWS, WIDTH))


# Batch normalization


def normalized_experts():
    def expert(i):
        dense = keras.layers.Dense(UNITS, kernel_initializer=keras.initializers.RandomNormal(seed=i))
        return keras.Sequential([dense, keras.layers.BatchNormalization()])

    return [expert(i) for i in range(4)]


def test_auto_normalizes_over_all_rows_in_training_as_dense_does():
    x, found = normal(ROWS, WIDTH), {}
    for mode in ("dense", "auto"):
        trained = Trained(normalized_experts(), mode)
        outputs = trained.step(x)[1]
        norms = [expert.layers[-1] for expert in trained.mixture.experts]
        averages = [value(v) for norm in norms for v in (norm.moving_mean, norm.moving_variance)]
        found[mode] = [outputs, *averages, trained.predict(x)]
    for auto, dense in zip(found["auto"], found["dense"]):
        np.testing.assert_allclose(auto, dense, rtol=1e-5, atol=1e-5)


@each_compiler
def test_sparse_normalizes_over_an_experts_own_rows(jit_compile):
    """In fixed sizes, where fill would count, over all rows as under dense."""
    trained = Trained(
        [keras.layers.BatchNormalization(momentum=0.9) for _ in range(4)], "sparse", jit_compile
    )
    x = normal(ROWS, WIDTH)
    _, outputs = trained.step(x)
    for i, norm in enumerate(trained.mixture.experts):
        seen = x if has_fixed_sizes(jit_compile) else x[OWNER == i]
        mean, variance = seen.mean(0), seen.var(0)
        np.testing.assert_allclose(value(norm.moving_mean), 0.1 * mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(value(norm.moving_variance), 0.9 + 0.1 * variance, rtol=1e-4)
        normed = (x[OWNER == i] - mean) / np.sqrt(variance + 1e-3)
        np.testing.assert_allclose(outputs[OWNER == i], normed, rtol=1e-3, atol=1e-4)


# Loss terms


class AddsLoss(keras.layers.Layer):
    """A dense expert that adds to the loss the sum of its inputs' squares."""

    def build(self, input_shape):
        self.dense = keras.layers.Dense(UNITS)
        self.dense.build(input_shape)
        self.built = True

    def call(self, inputs):
        self.add_loss(ops.sum(inputs**2))
        return self.dense(inputs)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], UNITS)


def active_experts():
    return [
        keras.layers.Dense(
            UNITS, use_bias=False, activity_regularizer=keras.regularizers.L2(0.01)
        )
        for _ in range(4)
    ]


def squares(trained, rows):
    """Activity penalties by hand, which Keras divides by the rows given, here `rows[i]` for expert i."""
    kernels = [value(expert.kernel) for expert in trained.mixture.experts]
    return sum(0.01 * np.sum((x @ kernel) ** 2) / len(x) for x, kernel in zip(rows, kernels))


def test_under_auto_activity_is_regularized_as_under_dense():
    """Over all rows: a penalty that depends on the form would jump where the form changes."""
    x = normal(ROWS, WIDTH)
    trained = Trained(active_experts(), "auto", loss=None)
    assert trained.step(x)[0] == pytest.approx(squares(trained, [x] * 4), rel=1e-4)


@each_compiler
def test_under_sparse_activity_is_regularized_over_an_experts_own_rows(jit_compile):
    """In fixed sizes, where fill would count, over all rows as under dense."""
    x = normal(ROWS, WIDTH)
    trained = Trained(active_experts(), "sparse", jit_compile, loss=None)
    seen = [x if has_fixed_sizes(jit_compile) else x[OWNER == i] for i in range(4)]
    assert trained.step(x)[0] == pytest.approx(squares(trained, seen), rel=1e-4)


@each_way
def test_loss_terms_that_an_expert_adds_itself_reach_the_loss(mode, jit_compile):
    """Of the rows it runs on: here all squares once, not four times as under dense."""
    trained, x = Trained([AddsLoss() for _ in range(4)], mode, jit_compile), normal(ROWS, WIDTH)
    loss, outputs = trained.step(x)
    assert loss == pytest.approx(np.mean(outputs**2) + np.sum(x**2), rel=1e-4)


@each_mode
def test_loss_terms_of_a_plain_call_are_in_model_losses(mode):
    trained = Trained([AddsLoss() for _ in range(4)], mode)
    x = normal(ROWS, WIDTH)
    for _ in range(2):  # and are those of the last call only
        trained.model([x, ONE_HOT], training=True)
        assert sum(map(float, trained.model.losses)) == pytest.approx(np.sum(x**2), rel=1e-4)


def test_gradients_of_loss_terms_train_the_experts():
    """The mean over rows X of c |x W|^2 moves W by -2 c r X'X W / rows."""
    trained = Trained(active_experts(), "sparse", learning_rate=0.1, loss=None)
    x = normal(ROWS, WIDTH)
    before = [value(expert.kernel).astype("float64") for expert in trained.mixture.experts]
    trained.step(x)
    for i, expert in enumerate(trained.mixture.experts):
        seen = (x if has_fixed_sizes(COMPILERS[0]) else x[OWNER == i]).astype("float64")
        expected = before[i] - 0.1 * 0.02 * seen.T @ (seen @ before[i]) / len(seen)
        np.testing.assert_allclose(value(expert.kernel), expected, rtol=1e-4, atol=1e-5)


# Mixtures in mixtures


def nested(mode):
    """Two mixtures and two plain experts."""

    def mixture(i):
        gate = TopKGate(4, k=2, kernel_initializer=keras.initializers.RandomNormal(seed=i))
        kernels = keras.initializers.RandomNormal(seed=10 + i)
        experts = DenseExperts(4, UNITS, kernel_initializer=kernels)
        return MixtureOfExperts(experts, gate, dispatch=mode)

    return [mixture(0), mixture(1), keras.layers.Dense(UNITS), keras.layers.Dense(UNITS)]


@pytest.mark.slow
def test_a_mixture_may_be_an_expert_and_counts_each_step_once():
    trained, x = Trained(nested("sparse"), "auto"), normal(ROWS, WIDTH)
    outputs = [trained.step(x)[1] for _ in range(3)][-1]
    for i, inner in enumerate(trained.mixture.experts[:2]):
        assert int(value(inner.gates.step)) == 3
        weights = value(inner.gates(x[OWNER == i]))
        products = np.einsum("rd,ndu->rnu", x[OWNER == i], value(inner.experts.kernels[0]))
        expected = np.einsum("rn,rnu->ru", weights, products)
        np.testing.assert_allclose(outputs[OWNER == i], expected, rtol=1e-4, atol=1e-5)


# Frozen experts


@each_mode
def test_a_frozen_expert_stays_and_the_others_learn(mode):
    experts = [keras.layers.Dense(UNITS) for _ in range(4)]
    experts[1].trainable = False
    trained = Trained(experts, mode, learning_rate=0.1)
    before = [value(expert.kernel) for expert in experts]
    _, outputs = trained.step(normal(ROWS, WIDTH))
    moved = [bool((value(e.kernel) != kernel).any()) for e, kernel in zip(experts, before)]
    assert moved == [True, False, True, True]
    own = normal(ROWS, WIDTH)[OWNER == 1]
    np.testing.assert_allclose(outputs[OWNER == 1], own @ before[1], rtol=1e-4, atol=1e-4)


@each_mode
def test_frozen_stacked_experts_stay_and_pass_gradients_to_the_layers_below(mode):
    experts = DenseExperts(4, UNITS, trainable=False)
    below = keras.layers.Dense(WIDTH)
    x, weights = keras.Input((WIDTH,)), keras.Input((4,))
    outputs = MixtureOfExperts(experts, GivenWeights(4, 1), dispatch=mode)(
        below(x), gate_inputs=weights
    )
    model = keras.Model([x, weights], outputs)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    before = [value(experts.kernels[0]), value(below.kernel)]
    model.fit([normal(ROWS, WIDTH), ONE_HOT], np.ones((ROWS, UNITS)), batch_size=ROWS, verbose=0)
    np.testing.assert_array_equal(value(experts.kernels[0]), before[0])
    assert (value(below.kernel) != before[1]).mean() > 0.9
