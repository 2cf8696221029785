"""Who learns: chosen experts do, the others get exact zeros, nobody gets NaN."""

import keras
import numpy as np
import pytest
from helpers import BACKEND, gradient, value, with_value
from keras import ops
from mixture.common import GATES, dense_list, normal

from comet_keras import (
    COMETGate,
    DenseExperts,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
)


def gradients(mixture, x, **kwargs):
    """Gradients of the squared outputs by weight path, for all trainable weights."""
    mixture(x)
    call = keras.tree.flatten

    def loss():
        outputs = call(mixture(ops.convert_to_tensor(x), training=True, **kwargs))
        return sum(ops.sum(ops.square(output - 1.0)) for output in outputs)

    return {
        weight.path: gradient(with_value(weight, loss), value(weight), "float32")
        for weight in mixture.trainable_weights
    }


def hard_comet(n):
    """A COMET gate whose splits are all saturated, two leaves at most a row."""
    gate = COMETGate(n, k=2, gamma=1e-3)
    gate.split_initializer = keras.initializers.RandomNormal(seed=1)
    return gate


@pytest.mark.parametrize("make", [lambda n: TopKGate(n, k=2), hard_comet])
@pytest.mark.parametrize("stacked", [True, False])
def test_chosen_experts_learn_and_the_others_get_exact_zeros(make, stacked):
    experts = DenseExperts(8, 3) if stacked else dense_list(8)
    mixture = MixtureOfExperts(experts, make(8))
    x = normal(1, 6)
    mixture(x)
    used = value(mixture.gate_layers[0](x))[0] > 0
    assert 1 <= used.sum() <= 2
    found = gradients(mixture, x)
    if stacked:
        kernels = found[experts.kernels[0].path]
    else:
        kernels = np.stack([found[expert.kernel.path] for expert in experts])
    size = np.abs(kernels).max(axis=(1, 2))
    assert (size[used] > 0).all()
    np.testing.assert_array_equal(size[~used], 0.0)


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("batch", [1, 5])
def test_no_gradient_is_nan(name, batch):
    mixture = MixtureOfExperts(
        DenseExperts(4, (5, 3), activation="relu"), [GATES[name](), GATES[name]()], Permutation(4)
    )
    for path, found in gradients(mixture, normal(batch, 6)).items():
        assert np.isfinite(found).all(), path


@pytest.mark.parametrize("inputs", [0.0, 1e6])
def test_no_gradient_is_nan_at_extreme_inputs(inputs):
    mixture = MixtureOfExperts(DenseExperts(4, 3), [COMETGate(4), TopKGate(4), SoftmaxGate(4)])
    for path, found in gradients(mixture, np.full((3, 6), inputs, "float32")).items():
        assert np.isfinite(found).all(), path


def test_the_router_learns():
    mixture = MixtureOfExperts(dense_list(), TopKGate(4))
    found = gradients(mixture, normal(5, 6))
    assert np.abs(found[mixture.gate_layers[0].kernel.path]).max() > 0


def test_the_permutation_learns_in_the_first_stage_and_rests_once_hard():
    mixture = MixtureOfExperts(dense_list(), SoftmaxGate(4), Permutation(4))
    x = normal(5, 6)
    mixture.build(x.shape)
    logits = mixture.permutation.logits.path
    assert np.abs(gradients(mixture, x)[logits]).max() > 0
    mixture.permutation.harden()
    np.testing.assert_array_equal(gradients(mixture, x)[logits], 0.0)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="`None` gradients are TensorFlow's")
def test_no_gradient_is_none():
    import tensorflow as tf

    mixture = MixtureOfExperts(dense_list(8), [TopKGate(8), COMETGate(8)], Permutation(8))
    x = normal(2, 6)
    mixture(x)
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(y) for y in mixture(x, training=True)) + sum(mixture.losses)
    variables = [weight.value for weight in mixture.trainable_weights]
    assert all(found is not None for found in tape.gradient(loss, variables))
