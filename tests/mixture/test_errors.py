"""Wrong arguments and inputs: the message names the argument and what was given."""

import keras
import numpy as np
import pytest
from helpers import BACKEND
from keras import ops

from comet_keras import DenseExperts, MixtureOfExperts, Permutation, SoftmaxGate


def dense(n=3, units=2):
    return [keras.layers.Dense(units) for _ in range(n)]


def gate(n=3):
    return SoftmaxGate(n)


SHARED = keras.layers.Dense(2)
SHARED_GATE = SoftmaxGate(3)
SHARED_PERMUTATION = Permutation(3)

WRONG = {
    "no expert": (lambda: ([], gate()), "`experts` must hold at least one"),
    "an expert that is no layer": (lambda: ([keras.layers.Dense(2), 7], gate(2)), "`experts`.*7"),
    "an expert class": (lambda: ([keras.layers.Dense] * 3, gate()), "`experts` must hold Keras layers"),
    "the same expert twice": (lambda: ([SHARED, SHARED], gate(2)), "`experts`.*more than once"),
    "one layer that is no stack": (lambda: (keras.layers.Dense(2), gate()), "`experts` must be a list"),
    "experts in a dict": (lambda: ({"a": keras.layers.Dense(2)}, gate(1)), "`experts` must be a list"),
    "no gate": (lambda: (dense(), []), "`gates` must hold at least one"),
    "None for a gate": (lambda: (dense(), None), "`gates` must be a Gate.*None"),
    "a gate that is a layer": (lambda: (dense(), SHARED), "`gates` must be a Gate"),
    "a gate's name": (lambda: (dense(), "comet"), "`gates` must be a Gate.*comet"),
    "a gate over fewer experts": (
        lambda: (dense(), {"a": gate(), "b": gate(2)}),
        "`gates`.*num_experts=2.*3 experts",
    ),
    "a gate over more than stacked": (
        lambda: (DenseExperts(3, 2), gate(4)),
        "`gates`.*num_experts=4.*3 experts",
    ),
    "the same gate twice": (lambda: (dense(), [SHARED_GATE, SHARED_GATE]), "`gates`.*more than once"),
    "int keys": (lambda: (dense(), {0: gate(), 1: gate()}), "`gates`.*keys.*strings.*0"),
    "int keys within": (lambda: (dense(), [{"a": {5: gate()}}]), "`gates`.*keys.*strings.*5"),
    "a permutation that is a gate": (
        lambda: (dense(), gate(), gate()),
        "`permutation` must be a Permutation",
    ),
    "a permutation of fewer experts": (
        lambda: (dense(), gate(), Permutation(2)),
        "`permutation`.*num_experts=2.*3 experts",
    ),
    "too few permutations": (
        lambda: (dense(), [gate(), gate(), gate()], [Permutation(3), Permutation(3)]),
        "`permutation` must be one Permutation, or one a gate",
    ),
    "permutations of other keys": (
        lambda: (dense(), {"a": gate(), "b": gate()}, {"a": Permutation(3), "c": Permutation(3)}),
        "`permutation` must be one Permutation, or one a gate",
    ),
    "the same permutation twice": (
        lambda: (dense(), [gate(), gate()], [SHARED_PERMUTATION, SHARED_PERMUTATION]),
        "`permutation`.*more than once",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_construction_refuses(case):
    make, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        MixtureOfExperts(*make())


class TestShapes:
    def test_different_output_shapes_are_listed_by_expert(self):
        experts = [keras.layers.Dense(2, name="small"), keras.layers.Dense(5, name="large")]
        mixture = MixtureOfExperts(experts, gate(2))
        with pytest.raises(ValueError, match=r"(?s)`experts`.*same output shape.*small.*2.*large.*5"):
            mixture.build((None, 4))

    def test_gates_that_route_other_positions_than_experts_answer(self):
        experts = [keras.layers.Flatten() for _ in range(3)]
        with pytest.raises(ValueError, match="Gates give weights of shape"):
            MixtureOfExperts(experts, gate()).build((None, 4, 5))

    def test_another_number_of_rows_for_the_gates(self):
        mixture = MixtureOfExperts(dense(), gate())
        with pytest.raises(ValueError, match="Gates give weights of shape"):
            mixture(np.ones((2, 4)), gate_inputs=np.ones((5, 4)))

    def test_gates_that_disagree_on_positions(self):
        mixture = MixtureOfExperts(dense(), [gate(), gate()])
        with pytest.raises(ValueError, match="All gates must route the same positions"):
            mixture.build((None, 7, 4), [(None, 7, 4), (None, 4)])

    def test_stacked_experts_without_a_known_width(self):
        with pytest.raises(ValueError, match="known last dimension"):
            MixtureOfExperts(DenseExperts(3, 2), gate()).build((None, None))


class TestGateInputs:
    X = np.ones((2, 4), "float32")

    def x(self):
        return ops.convert_to_tensor(self.X)

    def test_too_few(self):
        mixture = MixtureOfExperts(dense(), [gate(), gate(), gate()])
        with pytest.raises(ValueError, match="`gate_inputs` must be one tensor, or one a gate"):
            mixture(self.x(), gate_inputs=[self.x(), self.x()])

    def test_other_keys(self):
        mixture = MixtureOfExperts(dense(), {"a": gate(), "b": gate()})
        with pytest.raises(ValueError, match="(?s)`gate_inputs` must be one tensor.*'c'"):
            mixture(self.x(), gate_inputs={"a": self.x(), "c": self.x()})

    def test_a_list_for_a_dict(self):
        mixture = MixtureOfExperts(dense(), {"a": gate(), "b": gate()})
        with pytest.raises(ValueError, match="`gate_inputs` must be one tensor"):
            mixture(self.x(), gate_inputs=[self.x(), self.x()])

    def test_other_keys_in_a_functional_model(self):
        mixture = MixtureOfExperts(dense(), {"a": gate(), "b": gate()})
        x = keras.Input((4,))
        with pytest.raises(ValueError, match="`gate_inputs` must be one tensor"):
            mixture(x, gate_inputs={"a": x, "c": x})


@pytest.mark.skipif(BACKEND != "tensorflow", reason="ragged tensors are TensorFlow's")
def test_a_ragged_input_is_told_to_be_densified():
    import tensorflow as tf

    mixture = MixtureOfExperts(DenseExperts(3, 2), gate())
    ragged = tf.RaggedTensor.from_row_lengths(tf.ones((5, 4)), [2, 3])
    with pytest.raises(ValueError, match="ragged"):
        mixture(ragged)
