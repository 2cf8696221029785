"""Any list of Keras layers with the same output shape can be the experts."""

import keras
import numpy as np
import pytest
from helpers import value
from mixture.common import assert_equal_trees, brute_force, normal

from comet_keras import (
    DenseExperts,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
)


@keras.saving.register_keras_serializable("tests_mixture")
class LayerWithoutBuild(keras.layers.Layer):
    """As users write them: sub-layers in `__init__`, no `build`, no `compute_output_shape`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = keras.layers.Dense(4, activation="relu")
        self.out = keras.layers.Dense(3)

    def call(self, inputs):
        return self.out(self.hidden(inputs))


@keras.saving.register_keras_serializable("tests_mixture")
class ModelByCall(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.out = keras.layers.Dense(3)

    def call(self, inputs):
        return self.out(inputs)


def functional(width=6):
    inputs = keras.Input((width,))
    hidden = keras.layers.Dense(4, activation="relu")(inputs)
    skip = keras.layers.Dense(4)(inputs)
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Add()([hidden, skip])))


KINDS = {
    "Dense": lambda: keras.layers.Dense(3),
    "MLP": lambda: keras.Sequential(
        [keras.layers.Dense(5, activation="relu"), keras.layers.Dropout(0.5), keras.layers.Dense(3)]
    ),
    "built Sequential": lambda: keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)]),
    "functional model": functional,
    "nested functional model": lambda: keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(6), functional()]
    ),
    "layer without build": LayerWithoutBuild,
    "model by call": ModelByCall,
}


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_expert_gives_the_value_of_a_loop(kind):
    mixture = MixtureOfExperts([KINDS[kind]() for _ in range(4)], TopKGate(4), Permutation(4))
    x = normal(5, 6)
    assert_equal_trees(mixture(x), brute_force(mixture, x))


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_expert_has_all_its_weights_after_build(kind):
    mixture = MixtureOfExperts([KINDS[kind]() for _ in range(2)], SoftmaxGate(2))
    mixture.build((None, 6))
    built = len(mixture.weights)
    mixture(normal(3, 6))
    assert len(mixture.weights) == built > len(mixture.gate_layers[0].weights)


@pytest.mark.parametrize("kind", ["layer without build", "model by call", "nested functional model"])
def test_kind_of_expert_is_saved_and_loaded(kind, tmp_path):
    inputs = keras.Input((6,))
    mixture = MixtureOfExperts([KINDS[kind]() for _ in range(3)], SoftmaxGate(3))
    model = keras.Model(inputs, mixture(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x = normal(5, 6)
    np.testing.assert_array_equal(value(loaded(x)), value(model(x)))


def test_different_kinds_may_stand_side_by_side():
    experts = [KINDS[kind]() for kind in ("Dense", "MLP", "functional model")]
    mixture = MixtureOfExperts(experts, SoftmaxGate(3))
    x = normal(5, 6)
    assert_equal_trees(mixture(x), brute_force(mixture, x))


def test_convolutions_on_images_with_gates_on_flat_images():
    def cnn():
        return keras.Sequential(
            [
                keras.layers.Conv2D(2, 3, activation="relu"),
                keras.layers.MaxPooling2D(),
                keras.layers.Flatten(),
                keras.layers.Dense(3),
            ]
        )

    images = keras.Input((8, 8, 1))
    mixture = MixtureOfExperts([cnn() for _ in range(3)], {"a": TopKGate(3), "b": TopKGate(3)})
    outputs = mixture(images, gate_inputs=keras.layers.Flatten()(images))
    model = keras.Model(images, outputs)
    x = normal(4, 8, 8, 1)
    assert_equal_trees(model(x), brute_force(mixture, x, x.reshape(4, -1)))


def test_embeddings_of_ids_with_gates_on_features():
    mixture = MixtureOfExperts([keras.layers.Embedding(9, 3) for _ in range(2)], SoftmaxGate(2))
    ids, features = np.array([1, 5, 8]), normal(3, 4)
    assert_equal_trees(mixture(ids, gate_inputs=features), brute_force(mixture, ids, features))


def test_mixtures_nest():
    inner = [MixtureOfExperts(DenseExperts(2, 3), SoftmaxGate(2)) for _ in range(2)]
    outer = MixtureOfExperts(inner, TopKGate(2))
    x = normal(4, 6)
    assert_equal_trees(outer(x), brute_force(outer, x))


def test_dropout_of_experts_runs_in_training_only():
    mixture = MixtureOfExperts(DenseExperts(2, 8, dropout=0.9), SoftmaxGate(2))
    x = normal(16, 6)
    np.testing.assert_array_equal(value(mixture(x)), value(mixture(x)))
    assert (value(mixture(x, training=True)) == 0).any()


def test_every_expert_starts_with_values_of_its_own():
    shared = keras.initializers.GlorotUniform(seed=1)
    mixture = MixtureOfExperts(DenseExperts(8, 4, kernel_initializer=shared), SoftmaxGate(8))
    mixture.build((None, 6))
    kernels = value(mixture.experts.kernels[0])
    for i in range(8):
        for j in range(i):
            assert np.abs(kernels[i] - kernels[j]).max() > 1e-3
