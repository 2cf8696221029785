"""The dense gate: a softmax of linear logits."""

import numpy as np
import pytest
from helpers import cases, value
from keras import ops

from comet_keras import SoftmaxGate


@pytest.mark.parametrize("case", cases("gate.softmax"))
def test_weights_and_mixture_of_the_published_cases(case):
    inputs, expected = case["inputs"], case["expected"]
    x = ops.convert_to_tensor(inputs["x"], "float32")
    gate = SoftmaxGate(np.shape(inputs["W"])[1])
    gate.build(x.shape)
    gate.kernel.assign(inputs["W"])
    gate.bias.assign(inputs["b"])
    weights = value(gate(x))
    np.testing.assert_allclose(weights, expected["g"], atol=case["tolerance"])
    mixture = np.einsum("bn,bnd->bd", weights, inputs["expert_outputs"])
    np.testing.assert_allclose(mixture, expected["y"], atol=2e-6)


def test_huge_logits_give_finite_weights():
    gate = SoftmaxGate(3)
    x = ops.convert_to_tensor([[1e4, -1e4, 0.0]], "float32")
    gate.build(x.shape)
    gate.kernel.assign(1e4 * np.eye(3))
    assert value(gate(x)).tolist() == [[1, 0, 0]]


def test_has_a_glorot_kernel_and_a_zero_bias():
    gate = SoftmaxGate(4)
    gate.build((None, 8))
    assert [tuple(w.shape) for w in gate.trainable_variables] == [(8, 4), (4,)]
    assert 0 < np.abs(value(gate.kernel)).max() <= np.sqrt(6 / 12)
    assert not value(gate.bias).any()
