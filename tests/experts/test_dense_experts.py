"""Stacked experts: n multilayer perceptrons, each as if it stood alone."""

import keras
import numpy as np
import pytest
from helpers import assert_gradient, double, double_precision, value, with_value
from keras import ops

from comet_keras import DenseExperts

RNG = np.random.default_rng(0)


def one_expert(layer, i, x):
    """The output of expert i by Dense layers with the same weights."""
    for j, units in enumerate(layer.units):
        dense = keras.layers.Dense(units, activation=layer.activation, use_bias=layer.use_bias)
        dense.build(x.shape)
        dense.kernel.assign(value(layer.kernels[j])[i])
        if layer.use_bias:
            dense.bias.assign(value(layer.biases[j])[i])
        x = dense(x)
    return x


@pytest.mark.parametrize("units", [3, (3,), (6, 4, 2)])
@pytest.mark.parametrize("lead", [(5,), (1,), (0,), (2, 3)])
@pytest.mark.parametrize("use_bias", [True, False])
def test_every_expert_equals_a_stack_of_dense_layers(units, lead, use_bias):
    layer = DenseExperts(
        4, units, activation="tanh", use_bias=use_bias, bias_initializer="random_normal"
    )
    x = ops.convert_to_tensor(RNG.normal(size=(*lead, 5)), "float32")
    found = value(layer(x))
    last = layer.units[-1]
    assert found.shape == (*lead, 4, last) == tuple(layer.compute_output_shape(x.shape))
    for i in range(4):
        np.testing.assert_allclose(found[..., i, :], value(one_expert(layer, i, x)), atol=1e-5)


def test_experts_start_different_with_the_spread_of_a_single_dense_layer():
    for seed in (None, 3):
        layer = DenseExperts(
            16, (60, 50), kernel_initializer=keras.initializers.GlorotUniform(seed=seed)
        )
        layer.build((None, 40))
        for kernel, (fan_in, fan_out) in zip(layer.kernels, ((40, 60), (60, 50))):
            kernel = value(kernel)
            assert len(np.unique(kernel)) > 0.99 * kernel.size
            np.testing.assert_allclose(kernel.std(), np.sqrt(2 / (fan_in + fan_out)), rtol=0.05)
            np.testing.assert_allclose(kernel.mean(), 0, atol=0.01)
            for i in range(3):
                np.testing.assert_allclose(
                    kernel[i].std(), np.sqrt(2 / (fan_in + fan_out)), rtol=0.08
                )


def test_a_seed_reproduces_the_experts():
    kernels = []
    for _ in range(2):
        layer = DenseExperts(3, 4, kernel_initializer=keras.initializers.HeNormal(seed=5))
        layer.build((None, 2))
        kernels.append(value(layer.kernels[0]))
    np.testing.assert_array_equal(*kernels)


def test_dropout_acts_in_training_only_with_a_mask_of_each_experts_own():
    layer = DenseExperts(3, 200, dropout=0.5, kernel_initializer="ones", seed=1)
    x = ops.ones((2, 1))
    np.testing.assert_array_equal(value(layer(x)), np.ones((2, 3, 200)))
    found = value(layer(x, training=True))
    assert set(np.unique(found)) == {0, 2}
    assert abs(found.mean() - 1) < 0.15
    for i in range(3):
        assert not np.array_equal(found[:, i], found[:, (i + 1) % 3])
    assert not np.array_equal(found[0], found[1])


def test_gradients_equal_finite_differences():
    with double_precision():
        layer = DenseExperts(3, (4, 2), activation="tanh", dtype="float64")
        x = RNG.normal(size=(5, 3))
        coefficients = double(RNG.normal(size=(5, 3, 2)))

        def loss(x):
            return ops.sum(coefficients * layer(x))

        layer.build(x.shape)
        assert_gradient(loss, x)
        for variable in layer.trainable_variables:
            assert_gradient(with_value(variable, lambda: loss(double(x))), value(variable))


def test_regularizers_apply_to_the_stacked_weights():
    layer = DenseExperts(3, 2, kernel_regularizer=keras.regularizers.L2(0.5))
    layer.build((None, 4))
    np.testing.assert_allclose(
        value(sum(layer.losses)), 0.5 * (value(layer.kernels[0]) ** 2).sum(), rtol=1e-5
    )


def test_config_rebuilds_the_layer():
    layer = DenseExperts(
        3, (4, 2), activation="relu", dropout=0.1, kernel_initializer="he_normal", use_bias=False, seed=2
    )
    x = ops.convert_to_tensor(RNG.normal(size=(2, 5)), "float32")
    expected = value(layer(x))
    copy = DenseExperts.from_config(layer.get_config())
    copy(x)
    copy.set_weights(layer.get_weights())
    np.testing.assert_array_equal(value(copy(x)), expected)
    assert copy.get_config() == layer.get_config()


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_policies_compute_in_half_precision_with_float32_weights(policy):
    layer = DenseExperts(3, 2, dropout=0.5, dtype=policy)
    found = layer(ops.ones((1, 4)), training=True)
    assert keras.backend.standardize_dtype(found.dtype) == layer.compute_dtype
    assert {v.dtype for v in layer.trainable_variables} == {"float32"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_experts": 0}, "`num_experts`.*num_experts=0"),
        ({"units": 0}, "`units`.*units=0"),
        ({"units": ()}, "`units`"),
        ({"units": (4, 2.5)}, "`units`.*2.5"),
        ({"dropout": 1.0}, "`dropout`.*1.0"),
        ({"dropout": -0.1}, "`dropout`"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        DenseExperts(**{"num_experts": 2, "units": 3, **arguments})


def test_inputs_of_unknown_width_are_refused():
    with pytest.raises(ValueError, match="last dimension"):
        DenseExperts(2, 3).build((4, None))
