"""Multiply-adds against sums worked by hand."""

import keras
import numpy as np
import pytest

from comet_keras import COMETGate, DenseExperts, DSelectKGate, HashGate, SoftmaxGate, TopKGate
from comet_keras.multiply_adds import multiply_adds, num_weights

layers = keras.layers


def count(layer, shape):
    layer.build(shape)
    return multiply_adds(layer, shape)


@pytest.mark.parametrize(
    "layer, shape, expected",
    [
        (layers.Dense(3), (None, 5), 5 * 3),
        (layers.Dense(3), (None, 7, 5), 7 * 5 * 3),
        (layers.EinsumDense("abc,cd->abd", (None, 4)), (None, 7, 5), 7 * 5 * 4),
        (layers.EinsumDense("...x,xy->...y", 4), (None, 2, 7, 5), 2 * 7 * 5 * 4),
        (layers.EinsumDense("abc,cde->abde", (None, 2, 3)), (None, 7, 5), 7 * 5 * 2 * 3),
        (layers.Conv1D(4, 3), (None, 10, 2), 8 * 3 * 2 * 4),
        (layers.Conv2D(4, (3, 2), strides=2, padding="same"), (None, 9, 8, 2), 5 * 4 * 6 * 2 * 4),
        (layers.Conv2D(4, 3, groups=2), (None, 6, 6, 2), 4 * 4 * 9 * 1 * 4),
        (layers.Conv3D(2, 2), (None, 3, 4, 5, 1), 2 * 3 * 4 * 8 * 2),
        (layers.DepthwiseConv2D(3, depth_multiplier=2), (None, 6, 6, 5), 4 * 4 * 9 * 5 * 2),
        (layers.SeparableConv2D(4, 3), (None, 6, 6, 5), 4 * 4 * (9 * 5 + 5 * 4)),
        (layers.Conv2DTranspose(4, 3, strides=2), (None, 6, 6, 5), 6 * 6 * 9 * 5 * 4),
        (layers.Embedding(100, 8), (None, 7), 0),
        (layers.Dropout(0.5), (None, 7), 0),
        (layers.MaxPooling2D(), (None, 6, 6, 1), 0),
        (layers.LayerNormalization(), (None, 6), 12),
        (layers.LayerNormalization(), (None, 5, 6), 5 * 12),
        (layers.LSTM(4), (None, 5, 3), 5 * 4 * (3 * 4 + 4 * 4 + 4)),
        (DenseExperts(3, (4, 2)), (None, 5), 3 * (5 * 4 + 4 * 2)),
        (DenseExperts(3, 4), (None, 7, 5), 7 * 3 * 5 * 4),
        (SoftmaxGate(6), (None, 5), 5 * 6),
        (TopKGate(6, k=2, noisy=True), (None, 5), 5 * 6),
        (COMETGate(6, k=3), (None, 5), 5 * 3 * (5 + 6)),
        (DSelectKGate(6, k=3), (None, 7, 5), 7 * 5 * 3 * (3 + 1)),
        (DSelectKGate(6, k=3, per_sample=False), (None, 5), 0),
        (HashGate(6, num_ids=10), (None, 1), 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, keras.layers.Layer) else None,
)
def test_counts_of_single_layers(layer, shape, expected):
    assert count(layer, shape) == expected


def test_channels_first():
    layer = layers.Conv2D(4, 3, data_format="channels_first")
    assert count(layer, (None, 2, 6, 7)) == 4 * 5 * 9 * 2 * 4


def test_frozen_layers_cost_as_much():
    for layer in (layers.Dense(3), layers.LayerNormalization(), SoftmaxGate(3)):
        before = count(layer, (None, 5))
        layer.trainable = False
        assert multiply_adds(layer, (None, 5)) == before > 0
    assert num_weights(layers.BatchNormalization()) == 0
    normalization = layers.BatchNormalization()
    normalization.build((None, 5))
    assert num_weights(normalization) == 10  # scale and shift, not the moving statistics


def small_cnn():
    return keras.Sequential([layers.Conv2D(3, 3), layers.Flatten(), layers.Dense(4)])


def test_sequential_models():
    model = small_cnn()
    assert count(model, (None, 5, 6, 2)) == 3 * 4 * 9 * 2 * 3 + 36 * 4


def test_functional_models_count_each_call_with_its_own_shape():
    a, b = keras.Input((None, 5), name="a"), keras.Input((5,), name="b")
    shared = layers.Dense(3)
    inner = small_cnn()
    image = keras.Input((5, 6, 2), name="image")
    pooled = layers.GlobalAveragePooling1D()(shared(a))
    outputs = layers.Concatenate()([pooled, shared(b), inner(image)])
    model = keras.Model({"b": b, "a": a, "image": image}, layers.Dense(2)(outputs))
    nodes = [len(layer._inbound_nodes) for layer in model.layers]
    rest = 5 * 3 + (3 * 4 * 9 * 2 * 3 + 36 * 4) + 10 * 2
    shapes = {"b": (None, 5), "a": (None, 7, 5), "image": (None, 5, 6, 2)}
    assert multiply_adds(model, shapes) == 7 * 5 * 3 + rest
    assert multiply_adds(model, {**shapes, "a": (None, None, 5)}) == 5 * 3 + rest
    assert [len(layer._inbound_nodes) for layer in model.layers] == nodes
    with pytest.raises(ValueError, match="`input_shape`.*3 inputs"):
        multiply_adds(model, (None, 5))


def test_layers_of_one_s_own_use_each_weight_once_or_once_a_position():
    class Scale(layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(shape=shape[-1:])
            self.fixed = self.add_weight(shape=shape[-1:], trainable=False)

        def call(self, inputs):
            return inputs * self.scale + self.fixed

    assert count(Scale(), (None, 5)) == 5
    assert count(Scale(), (None, 7, 5)) == 35


def test_a_layer_that_is_not_built_is_refused():
    with pytest.raises(ValueError, match="`layer` must be built.*'mine'"):
        multiply_adds(layers.Dense(3, name="mine"), (None, 5))


def test_counts_are_plain_integers():
    assert type(count(layers.Conv1D(2, 1), (None, np.int64(3).item(), 1))) is int
