"""What a mixture returns: structure, values, shapes."""

import keras
import numpy as np
import pytest
from helpers import value
from keras import ops, tree
from mixture.common import (
    GATES,
    assert_equal_trees,
    brute_force,
    constant_expert,
    dense_list,
    fixed_weights,
    normal,
    one_expert_each,
)

from comet_keras import (
    DenseExperts,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
    WeightedSum,
)

STRUCTURES = {
    "one gate": lambda gate: gate(),
    "list": lambda gate: [gate(), gate()],
    "tuple": lambda gate: (gate(), gate(), gate()),
    "dict": lambda gate: {"watch": gate(), "rate": gate()},
    "nested": lambda gate: {"b": [gate(), gate()], "a": (gate(), {"z": gate(), "y": gate()})},
}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_output_has_the_structure_of_the_gates_and_the_value_of_a_loop(structure):
    gates = STRUCTURES[structure](GATES["comet"])
    mixture = MixtureOfExperts(dense_list(), gates)
    x = normal(5, 6)
    outputs = mixture(x)
    tree.assert_same_structure(outputs, gates)
    assert all(tuple(leaf.shape) == (5, 3) for leaf in tree.flatten(outputs))
    assert_equal_trees(outputs, brute_force(mixture, x))


@pytest.mark.parametrize("name", GATES)
def test_every_gate_weighs_experts_as_a_loop_does(name):
    mixture = MixtureOfExperts(DenseExperts(4, (5, 3), activation="relu"), {"a": GATES[name]()})
    x = normal(6, 4)
    assert_equal_trees(mixture(x), brute_force(mixture, x))


def test_output_belongs_to_the_gate_of_the_same_key_whatever_the_order_of_keys():
    gates = {"z": fixed_weights([0.9, 0.1]), "a": fixed_weights([0.2, 0.8])}
    mixture = MixtureOfExperts([constant_expert(0.0), constant_expert(1.0)], gates)
    outputs = mixture(normal(2, 3))
    np.testing.assert_allclose(value(outputs["z"]), np.full((2, 1), 0.1), rtol=1e-5)
    np.testing.assert_allclose(value(outputs["a"]), np.full((2, 1), 0.8), rtol=1e-5)


def test_expert_outputs_may_be_negative_and_the_sum_is_linear():
    mixture = MixtureOfExperts(
        [constant_expert(2.0), constant_expert(-3.0)], fixed_weights([0.5, 0.5])
    )
    np.testing.assert_array_equal(value(mixture(normal(4, 3))), np.full((4, 1), -0.5, "float32"))


def test_expert_outputs_may_be_zero():
    mixture = MixtureOfExperts([constant_expert(0.0), constant_expert(0.0)], SoftmaxGate(2))
    np.testing.assert_array_equal(value(mixture(normal(4, 3))), np.zeros((4, 1)))


def test_stacked_experts_equal_a_list_of_dense_layers_of_the_same_weights():
    x = normal(7, 5)
    stacked = MixtureOfExperts(DenseExperts(4, 3, activation="tanh"), SoftmaxGate(4))
    listed = MixtureOfExperts(
        [keras.layers.Dense(3, activation="tanh") for _ in range(4)], SoftmaxGate(4)
    )
    stacked.build(x.shape)
    listed.build(x.shape)
    stacked.experts.biases[0].assign(normal(4, 3, seed=3))
    for i, layer in enumerate(listed.experts):
        layer.kernel.assign(value(stacked.experts.kernels[0])[i])
        layer.bias.assign(value(stacked.experts.biases[0])[i])
    for mine, other in zip(listed.gate_layers[0].weights, stacked.gate_layers[0].weights):
        mine.assign(other)
    np.testing.assert_allclose(value(stacked(x)), value(listed(x)), rtol=1e-5, atol=1e-6)


EXPERT_OUTPUTS = {
    1: lambda: keras.Sequential([keras.layers.Dense(1), keras.layers.Reshape(())]),
    2: lambda: keras.layers.Dense(3),
    3: lambda: keras.Sequential([keras.layers.Dense(6), keras.layers.Reshape((2, 3))]),
    4: lambda: keras.Sequential([keras.layers.Dense(12), keras.layers.Reshape((2, 3, 2))]),
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("rank", EXPERT_OUTPUTS)
def test_expert_outputs_of_every_rank(rank, batch):
    experts = [EXPERT_OUTPUTS[rank]() for _ in range(3)]
    mixture = MixtureOfExperts(experts, [SoftmaxGate(3), TopKGate(3, k=2)])
    x = normal(batch, 4)
    outputs = mixture(x)
    assert all(len(leaf.shape) == rank for leaf in outputs)
    assert_equal_trees(outputs, brute_force(mixture, x))


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("rank", EXPERT_OUTPUTS)
def test_an_empty_batch_gives_an_empty_answer(rank, name):
    mixture = MixtureOfExperts([EXPERT_OUTPUTS[rank]() for _ in range(4)], GATES[name]())
    shape = tuple(mixture(normal(2, 4)).shape)
    assert tuple(mixture(normal(0, 4)).shape) == (0, *shape[1:])


@pytest.mark.parametrize("name", GATES)
def test_a_row_has_the_same_answer_in_every_batch(name):
    mixture = MixtureOfExperts(dense_list(), GATES[name](), permutation=Permutation(4))
    x = normal(7, 6)
    whole = value(mixture(x))
    rows = np.concatenate([value(mixture(x[i : i + 1])) for i in range(7)])
    np.testing.assert_allclose(rows, whole, rtol=1e-5, atol=1e-6)


class TestGateInputs:
    def test_one_tensor_serves_all_gates(self):
        mixture = MixtureOfExperts(dense_list(), {"a": SoftmaxGate(4), "b": TopKGate(4)})
        x, g = normal(5, 6), normal(5, 2, seed=1)
        assert_equal_trees(mixture(x, gate_inputs=g), brute_force(mixture, x, g))

    def test_each_gate_may_read_its_own(self):
        mixture = MixtureOfExperts(dense_list(), {"b": SoftmaxGate(4), "a": TopKGate(4)})
        x, g = normal(5, 6), {"b": normal(5, 2, seed=1), "a": normal(5, 3, seed=2)}
        assert_equal_trees(mixture(x, gate_inputs=g), brute_force(mixture, x, g))
        widths = {key: gate.kernel.shape[0] for key, gate in mixture.gates.items()}
        assert widths == {"a": 3, "b": 2}

    def test_ids_choose_experts_for_images(self):
        experts = [keras.layers.Conv2D(2, 3) for _ in range(3)]
        mixture = MixtureOfExperts(experts, one_expert_each(3))
        images, ids = normal(4, 5, 5, 1), np.array([[2], [0], [1], [2]])
        found = value(mixture(images, gate_inputs=ids))
        expected = np.stack(
            [value(experts[i](images[row : row + 1]))[0] for row, i in enumerate(ids[:, 0])]
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    def test_in_a_functional_model(self):
        x, a, b = keras.Input((6,)), keras.Input((2,)), keras.Input((3,))
        mixture = MixtureOfExperts(dense_list(), [SoftmaxGate(4), SoftmaxGate(4)])
        model = keras.Model([x, a, b], mixture(x, gate_inputs=[a, b]))
        arrays = [normal(3, 6), normal(3, 2, seed=1), normal(3, 3, seed=2)]
        expected = brute_force(mixture, arrays[0], arrays[1:])
        assert_equal_trees(model(arrays), expected)


class TestPositions:
    """Inputs (batch, time, d): every position is routed by itself."""

    @pytest.mark.parametrize("name", GATES)
    def test_equal_the_same_positions_as_rows(self, name):
        mixture = MixtureOfExperts(dense_list(), [GATES[name](), GATES[name]()])
        x = normal(2, 5, 6)
        rows = mixture(x.reshape(10, 6))
        expected = [value(leaf).reshape(2, 5, 3) for leaf in rows]
        assert_equal_trees(mixture(x), expected)

    def test_stacked_experts_too(self):
        mixture = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4))
        x = normal(2, 5, 6)
        expected = value(mixture(x.reshape(10, 6))).reshape(2, 5, 3)
        np.testing.assert_allclose(value(mixture(x)), expected, rtol=1e-5, atol=1e-6)

    def test_time_may_be_unknown(self):
        inputs = keras.Input((None, 6))
        outputs = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4))(inputs)
        assert tuple(outputs.shape) == (None, None, 3)
        model = keras.Model(inputs, outputs)
        for time in (1, 4):
            assert tuple(model(normal(2, time, 6)).shape) == (2, time, 3)

    def test_time_distributed_equals_the_layer_itself(self):
        inputs = keras.Input((4, 6))
        mixture = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4))
        model = keras.Model(inputs, keras.layers.TimeDistributed(mixture)(inputs))
        x = normal(2, 4, 6)
        np.testing.assert_allclose(value(model(x)), value(mixture(x)), rtol=1e-5, atol=1e-6)

    def test_rows_may_be_routed_as_a_whole(self):
        """Gates that read (batch, d) weigh experts that answer (batch, time, d)."""
        mixture = MixtureOfExperts([keras.layers.Dense(3) for _ in range(2)], SoftmaxGate(2))
        x, g = normal(3, 4, 5), normal(3, 2, seed=1)
        assert_equal_trees(mixture(x, gate_inputs=g), brute_force(mixture, x, g))


class TestPermutation:
    ORDER = [2, 0, 3, 1]

    def shuffled(self, order=None):
        permutation = Permutation(4)
        permutation.build((None, 4))
        permutation.assignment.assign(np.array(order or self.ORDER, "int32"))
        return permutation

    def test_expert_i_gets_the_weight_of_the_assigned_column(self):
        weights = np.array([0.1, 0.2, 0.3, 0.4])
        mixture = MixtureOfExperts(
            [constant_expert(10.0**i) for i in range(4)], fixed_weights(weights), self.shuffled()
        )
        expected = sum(w * 10.0**i for i, w in enumerate(weights[self.ORDER]))
        np.testing.assert_allclose(value(mixture(normal(2, 3))), [[expected]] * 2, rtol=1e-5)

    def test_one_permutation_serves_all_gates(self):
        gates = {"a": SoftmaxGate(4), "b": TopKGate(4)}
        mixture = MixtureOfExperts(dense_list(), gates, self.shuffled())
        x = normal(5, 6)
        assert_equal_trees(mixture(x), brute_force(mixture, x))
        assert mixture.permutation is mixture.permutation_layers[0]

    def test_each_gate_may_have_its_own(self):
        gates = {"b": SoftmaxGate(4), "a": TopKGate(4)}
        own = {"b": self.shuffled(), "a": self.shuffled([3, 2, 1, 0])}
        mixture = MixtureOfExperts(dense_list(), gates, own)
        x = normal(5, 6)
        assert_equal_trees(mixture(x), brute_force(mixture, x))
        assert mixture.permutation["b"] is own["b"] and mixture.permutation["a"] is own["a"]

    @pytest.mark.parametrize("several", [False, True])
    def test_training_uses_the_soft_matrix(self, several):
        gates = [SoftmaxGate(4), SoftmaxGate(4)]
        permutation = [Permutation(4), Permutation(4)] if several else Permutation(4)
        mixture = MixtureOfExperts(dense_list(), gates, permutation)
        x = normal(5, 6)
        mixture.build(x.shape)
        soft = [p.soft_matrix() for p in mixture.permutation_layers]
        details = mixture(x, training=True, return_details=True)
        for i, gate in enumerate(gates):
            expected = value(gate(x)) @ soft[i if several else 0].T
            np.testing.assert_allclose(value(details["weights"][i]), expected, rtol=1e-4, atol=1e-5)

    def test_a_new_one_changes_no_answer(self):
        gate, experts, x = SoftmaxGate(4), dense_list(), normal(5, 6)
        with_one = value(MixtureOfExperts(experts, gate, Permutation(4))(x))
        without = value(MixtureOfExperts(experts, gate)(x))
        np.testing.assert_array_equal(with_one, without)


class TestDetails:
    def model(self):
        inputs = keras.Input((6,))
        gates = {"b": SoftmaxGate(4), "a": TopKGate(4)}
        mixture = MixtureOfExperts(dense_list(), gates, Permutation(4))
        return keras.Model(inputs, mixture(inputs, return_details=True))

    def test_are_tensors_of_a_functional_model(self):
        details = self.model()(normal(5, 6))
        assert set(details) == {"outputs", "weights", "expert_outputs"}
        assert tuple(details["expert_outputs"].shape) == (5, 4, 3)
        for key in ("a", "b"):
            expected = np.einsum(
                "bn,bnd->bd", value(details["weights"][key]), value(details["expert_outputs"])
            )
            np.testing.assert_allclose(value(details["outputs"][key]), expected, rtol=1e-4, atol=1e-5)

    def test_symbolic_shapes_are_those_of_the_values(self):
        model = self.model()
        found = tree.map_structure(lambda x: (None, *x.shape[1:]), model(normal(5, 6)))
        expected = tree.map_structure(lambda x: tuple(x.shape), model.output)
        assert found == expected

    def test_weights_are_those_that_reach_the_experts(self):
        model = self.model()
        mixture = next(layer for layer in model.layers if isinstance(layer, MixtureOfExperts))
        mixture.permutation.assignment.assign(np.array([1, 0, 3, 2], "int32"))
        x = normal(5, 6)
        expected = value(mixture.gates["b"](x))[:, [1, 0, 3, 2]]
        np.testing.assert_allclose(value(model(x)["weights"]["b"]), expected, rtol=1e-6)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("shape", [(5, 6), (2, 4, 6)])
def test_promised_shapes_are_the_real_ones(structure, shape):
    mixture = MixtureOfExperts(DenseExperts(4, 3), STRUCTURES[structure](GATES["topk"]))
    promised = mixture.compute_output_shape(shape)
    spec = mixture.compute_output_spec(keras.KerasTensor(shape))
    outputs = mixture(normal(*shape))
    for leaf, described in zip(tree.flatten(outputs), tree.flatten(spec)):
        assert tuple(leaf.shape) == tuple(described.shape) == (*shape[:-1], 3)
        assert keras.backend.standardize_dtype(leaf.dtype) == described.dtype == "float32"
    assert promised == tree.map_structure(lambda leaf: (*shape[:-1], 3), spec)


class TestWeightedSum:
    @pytest.mark.parametrize("shape", [(5, 6), (2, 4, 6)])
    def test_equals_the_mixture(self, shape):
        gate, experts, x = TopKGate(4), dense_list(), normal(*shape)
        mixture = MixtureOfExperts(experts, gate, Permutation(4))
        expected = value(mixture(x))
        weights = mixture.permutation(gate(x))
        outputs = [expert(x) for expert in experts]
        np.testing.assert_allclose(value(WeightedSum()(outputs, weights)), expected, rtol=1e-5)
        stacked = ops.stack(outputs, axis=len(shape) - 1)
        np.testing.assert_allclose(value(WeightedSum()(stacked, weights)), expected, rtol=1e-5)

    def test_expert_outputs_of_higher_rank(self):
        outputs, weights = [normal(3, 2, 2, seed=i) for i in range(4)], normal(3, 4, seed=9)
        expected = np.einsum("bn,nbij->bij", weights, np.stack(outputs))
        found = WeightedSum()([ops.convert_to_tensor(x) for x in outputs], weights)
        np.testing.assert_allclose(value(found), expected, rtol=1e-5, atol=1e-6)

    def test_is_exact_for_negative_outputs(self):
        outputs = [np.full((2, 1), 2.0, "float32"), np.full((2, 1), -3.0, "float32")]
        found = WeightedSum()(
            [ops.convert_to_tensor(x) for x in outputs], np.full((2, 2), 0.5, "float32")
        )
        np.testing.assert_array_equal(value(found), [[-0.5], [-0.5]])

    @pytest.mark.parametrize(
        ("outputs", "weights", "message"),
        [
            ([(2, 3), (2, 3)], (2, 4), "2 expert outputs and weights of 4"),
            ([(2, 3), (2, 5)], (2, 2), "one shape"),
            ((2, 3, 5), (2, 4), "4 experts along axis 1"),
        ],
    )
    def test_shapes_that_do_not_fit_are_told(self, outputs, weights, message):
        if isinstance(outputs, list):
            outputs = [ops.ones(shape) for shape in outputs]
        else:
            outputs = ops.ones(outputs)
        with pytest.raises(ValueError, match=message):
            WeightedSum()(outputs, ops.ones(weights))
