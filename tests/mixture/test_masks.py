"""Masked positions: passed on, and without effect on loss terms and statistics."""

import keras
import numpy as np
import pytest
from helpers import value
from mixture.common import normal

from comet_keras import (
    DenseExperts,
    MixtureOfExperts,
    TopKGate,
    WeightedSum,
    regularizers,
)

IDS = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [4, 5, 6, 0]])
MASK = IDS != 0


def balanced():
    return TopKGate(4, regularizers=[regularizers.Importance(1.0), regularizers.LoadBalance(1.0)])


def embedding():
    return keras.layers.Embedding(7, 6, mask_zero=True, embeddings_initializer="normal")


def losses(mixture, *args, **kwargs):
    """Loss terms of one training call, by its gate's terms."""
    mixture(*args, training=True, **kwargs)
    return [float(value(loss)) for loss in mixture.losses]


def counted(mixture):
    return [float(value(gate.statistics.count)) for gate in mixture.gate_layers]


def mask_of(tensor):
    mask = getattr(tensor, "_keras_mask", None)
    return None if mask is None else value(mask)


def test_an_embeddings_mask_is_passed_on():
    mixture = MixtureOfExperts(DenseExperts(4, 3), {"a": TopKGate(4), "b": TopKGate(4)})
    for output in mixture(embedding()(IDS)).values():
        np.testing.assert_array_equal(mask_of(output), MASK)


def test_all_details_carry_the_mask():
    mixture = MixtureOfExperts(DenseExperts(4, 3), {"b": TopKGate(4), "a": TopKGate(4)})
    details = mixture(embedding()(IDS), return_details=True)
    for tensor in keras.tree.flatten(details):
        np.testing.assert_array_equal(mask_of(tensor), MASK)


def test_the_mask_reaches_pooling_after_the_mixture():
    inputs = keras.Input((None,), dtype="int32")
    x = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4))(embedding()(inputs))
    model = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(x))
    padded = np.pad(IDS, ((0, 0), (0, 3)))
    np.testing.assert_allclose(value(model(padded)), value(model(IDS)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", ["by the embedding", "as an argument"])
def test_padding_changes_neither_loss_nor_statistics(given):
    table = embedding()
    mixture = MixtureOfExperts(DenseExperts(4, 3), balanced())
    trimmed = losses(mixture, value(table(IDS))[MASK])
    usage = value(mixture.gate_layers[0].statistics.usage)
    mixture.gate_layers[0].statistics.reset()
    if given == "by the embedding":
        padded = losses(mixture, table(IDS))
    else:
        padded = losses(mixture, value(table(IDS)), mask=MASK)
    np.testing.assert_allclose(padded, trimmed, rtol=1e-5)
    np.testing.assert_allclose(value(mixture.gate_layers[0].statistics.usage), usage, rtol=1e-5)
    assert counted(mixture) == [MASK.sum()]


def test_padding_is_left_out_when_gates_have_inputs_of_their_own():
    mixture = MixtureOfExperts(DenseExperts(4, 3), balanced())
    own = normal(3, 4, 2)
    x = embedding()(IDS)
    expected = losses(mixture, value(x)[MASK], gate_inputs=own[MASK])
    mixture.gate_layers[0].statistics.reset()
    np.testing.assert_allclose(losses(mixture, x, gate_inputs=own), expected, rtol=1e-5)
    assert counted(mixture) == [MASK.sum()]


def test_an_argument_goes_before_the_mask_of_the_inputs():
    mixture = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4))
    own = np.array([[True, False, False, False]] * 3)
    output = mixture(embedding()(IDS), gate_inputs=normal(3, 4, 2), mask=own, training=True)
    assert counted(mixture) == [3]
    np.testing.assert_array_equal(mask_of(output), own)


def test_a_batch_of_padding_alone_costs_nothing():
    mixture = MixtureOfExperts(DenseExperts(4, 3), balanced())
    found = losses(mixture, normal(2, 3, 6), mask=np.zeros((2, 3), bool))
    np.testing.assert_array_equal(found, [0.0, 0.0])
    assert counted(mixture) == [0]


def test_the_mask_of_a_sequence_does_not_disturb_gates_on_rows():
    mixture = MixtureOfExperts([keras.layers.Dense(3) for _ in range(4)], TopKGate(4))
    x = embedding()(IDS)
    output = mixture(x, gate_inputs=normal(3, 2), training=True)
    assert counted(mixture) == [3]
    np.testing.assert_array_equal(mask_of(output), MASK)


def test_time_distributed_keeps_the_mask_and_leaves_out_padding():
    inputs = keras.Input((4,), dtype="int32")
    mixture = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4))
    model = keras.Model(inputs, keras.layers.TimeDistributed(mixture)(embedding()(inputs)))
    np.testing.assert_array_equal(mask_of(model(IDS, training=True)), MASK)
    assert counted(mixture) == [MASK.sum()]
    assert int(value(mixture.gate_layers[0].step)) == 1


def test_masks_of_padded_rows_do_not_change_the_others():
    mixture = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4))
    x = normal(3, 4, 6)
    np.testing.assert_array_equal(value(mixture(x, mask=MASK)), value(mixture(x)))


def test_weighted_sum_passes_the_mask_of_its_outputs_on():
    x = embedding()(IDS)
    outputs = [keras.layers.Dense(3)(x) for _ in range(4)]
    np.testing.assert_array_equal(mask_of(WeightedSum()(outputs, TopKGate(4)(x))), MASK)
    stacked = DenseExperts(4, 3)(x)
    np.testing.assert_array_equal(mask_of(WeightedSum()(stacked, TopKGate(4)(x))), MASK)
