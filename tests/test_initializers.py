"""Fresh values for fresh things: shared initializers that still draw different values."""

import keras
import numpy as np
import pytest
from helpers import value

from comet_keras.initializers import StackedInitializer, fresh

KINDS = ["RandomUniform", "RandomNormal", "TruncatedNormal", "GlorotUniform", "HeNormal", "Orthogonal"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [None, 0, 7, "generator"])
def test_copies_of_one_initializer_draw_different_values(kind, seed):
    shared = getattr(keras.initializers, kind)(
        seed=keras.random.SeedGenerator(3) if seed == "generator" else seed
    )
    draws = [value(fresh(shared, i)((5, 4))) for i in range(4)]
    for i in range(4):
        for j in range(i):
            assert not np.allclose(draws[i], draws[j])


@pytest.mark.parametrize("kind", KINDS)
def test_copies_of_a_seeded_initializer_are_reproducible(kind):
    def draws():
        shared = getattr(keras.initializers, kind)(seed=11)
        return [value(fresh(shared, i)((5, 4))) for i in range(3)]

    np.testing.assert_array_equal(draws(), draws())


def test_the_first_copy_keeps_the_seed():
    shared = keras.initializers.GlorotUniform(seed=4)
    np.testing.assert_array_equal(value(fresh(shared)((3, 2))), value(shared((3, 2))))


@pytest.mark.parametrize("gain", [0.05, 3.0])
def test_a_copy_of_an_identity_keeps_its_gain(gain):
    np.testing.assert_allclose(value(fresh(keras.initializers.Identity(gain), 1)((3, 3))), gain * np.eye(3))


def test_accepts_names_configs_and_functions():
    assert isinstance(fresh("he_normal"), keras.initializers.HeNormal)
    config = keras.initializers.serialize(keras.initializers.Constant(3.0))
    assert value(fresh(config)((2,))).tolist() == [3, 3]

    def fives(shape, dtype=None):
        return keras.ops.full(shape, 5.0, dtype=dtype)

    assert fresh(fives) is fives


@pytest.mark.parametrize("seed", [None, 5])
def test_slices_of_a_stack_differ_and_have_the_fans_of_one_kernel(seed):
    stack = value(StackedInitializer(keras.initializers.GlorotUniform(seed=seed))((20, 30, 50)))
    single = value(keras.initializers.GlorotUniform(seed=1)((300, 500))) * np.sqrt(10)
    np.testing.assert_allclose(stack.std(), single.std(), rtol=0.05)
    assert np.abs(stack).max() <= np.sqrt(6 / 80)
    assert len(np.unique(stack.reshape(20, -1), axis=0)) == 20


def test_a_stack_takes_the_dtype_it_is_asked_for():
    drawn = StackedInitializer("zeros")((3, 2), dtype="float16")
    assert keras.backend.standardize_dtype(drawn.dtype) == "float16"
    assert value(drawn).shape == (3, 2)


def test_orthogonal_slices_are_orthogonal_each():
    for kernel in value(StackedInitializer(keras.initializers.Orthogonal(seed=0))((3, 4, 4))):
        np.testing.assert_allclose(kernel @ kernel.T, np.eye(4), atol=1e-5)
