"""The cost of inference against loops over rows, gates and experts in numpy."""

import json

import keras
import numpy as np
import pytest
from helpers import BACKEND, cases, linear, value

from comet_keras import (
    DenseExperts,
    HashGate,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
    WeightedSum,
    models,
)
from comet_keras.reports import flops
from comet_keras.reports.table6 import table6_flops

layers = keras.layers
ROWS = 23


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def chosen(gate, x, permutation=None):
    """Which experts a gate gives weight, `(rows, n)`, by the gate alone."""
    weights = value(gate(x))
    return (weights if permutation is None else weights @ permutation.hard_matrix().T) != 0


def shuffled(n):
    permutation = Permutation(n)
    permutation.build((None, n))
    permutation.assignment.assign(np.random.default_rng(3).permutation(n))
    return permutation


@pytest.mark.parametrize("permuted", [False, True])
def test_two_gates_with_overlapping_choices(permuted):
    gates = {"a": TopKGate(6, k=2), "b": TopKGate(6, k=3)}
    permutation = shuffled(6) if permuted else None
    inputs = keras.Input((4,))
    hidden = layers.Dense(5)(inputs)
    towers = MixtureOfExperts(DenseExperts(6, (7, 3)), gates, permutation, name="mixture")(hidden)
    model = keras.Model(inputs, {task: layers.Dense(2)(tower) for task, tower in towers.items()})
    x = normal(ROWS, 4)
    cost = flops(model, x, batch_size=5)

    seen = value(keras.Model(inputs, hidden)(x))
    used = [chosen(gate, seen, permutation) for gate in gates.values()]
    union = sum(len(set(np.flatnonzero(a)) | set(np.flatnonzero(b))) for a, b in zip(*used))
    assert 3 * ROWS < union < 5 * ROWS
    expert = 5 * 7 + 7 * 3
    shared = 4 * 5 + 2 * (3 * 2)
    expected = {
        "gates": 2 * 5 * 6,
        "permutation": 0,
        "experts": union / ROWS * expert,
        "mixing": (2 + 3) * 3,
        "shared": shared,
    }
    assert cost.parts == pytest.approx(expected)
    assert cost.dense_parts == pytest.approx({**expected, "experts": 6 * expert, "mixing": 2 * 6 * 3})
    assert cost.total == pytest.approx(sum(expected.values()))
    assert cost.samples == ROWS
    assert cost.experts_per_sample == {"a": 2, "b": 3}
    assert cost.experts_run == pytest.approx({"mixture": union / ROWS})
    assert cost.num_experts == {"mixture": 6}


def test_a_permutation_a_gate_decides_the_overlap():
    # Both gates choose by one table; a shift by one expert makes them disjoint.
    ids = keras.Input((1,), dtype="int32")
    features = keras.Input((3,))
    permutations = [Permutation(4), Permutation(4)]
    for i, permutation in enumerate(permutations):
        permutation.build((None, 4))
        permutation.assignment.assign(np.roll(np.arange(4), i))
    gates = [HashGate(4, num_ids=9), HashGate(4, num_ids=9)]
    mixture = MixtureOfExperts(DenseExperts(4, 2), gates, permutations)
    model = keras.Model([features, ids], mixture(features, gate_inputs=ids))
    cost = flops(model, [normal(9, 3), np.arange(9)[:, None]])
    assert list(cost.experts_run.values()) == [2]
    assert cost.parts["gates"] == 0
    assert cost.parts["experts"] == 2 * 3 * 2


def test_skewed_listed_experts_of_different_size():
    image, ids = keras.Input((5, 5, 1)), keras.Input((1,), dtype="int32")
    experts = [
        keras.Sequential([layers.Conv2D(2, 3), layers.Flatten(), layers.Dense(4)]),
        keras.Sequential([layers.Flatten(), layers.Dense(4)]),
        keras.Sequential([layers.Flatten(), layers.Dense(8, activation="relu"), layers.Dense(4)]),
    ]
    gate = HashGate(3, num_ids=3, assignment="modulo")
    model = keras.Model([image, ids], MixtureOfExperts(experts, gate)(image, gate_inputs=ids))
    routed = np.array([0] * 12 + [2] * 3 + [0] * 5)  # none to the second
    cost = flops(model, [normal(20, 5, 5, 1), routed[:, None]], batch_size=6)
    sizes = [9 * 9 * 2 + 18 * 4, 25 * 4, 25 * 8 + 8 * 4]
    assert cost.parts["experts"] == pytest.approx((17 * sizes[0] + 3 * sizes[2]) / 20)
    assert cost.dense_parts["experts"] == sum(sizes)
    assert cost.parts["mixing"] == 4
    assert cost.parts["shared"] == 0


@pytest.mark.parametrize("masked", [False, True])
def test_sequences_count_every_position(masked):
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(10, 4, mask_zero=masked)(tokens)
    mixture = MixtureOfExperts([layers.Dense(3) for _ in range(5)], TopKGate(5, k=2), name="mixture")
    model = keras.Model(tokens, layers.Dense(2)(mixture(x)))
    data = np.random.default_rng(0).integers(0, 10, (8, 6))
    cost = flops(model, data)
    assert cost.parts == {
        "gates": 6 * 4 * 5,
        "permutation": 0,
        "experts": 6 * 2 * 4 * 3,
        "mixing": 6 * 2 * 3,
        "shared": 6 * 3 * 2,
    }
    assert cost.experts_run == {"mixture": 2}  # of a position


def test_weights_that_underflow_in_half_precision_reach_no_expert():
    gate = linear(SoftmaxGate(2), np.zeros((1, 2)))
    inputs = keras.Input((2,))
    mixture = MixtureOfExperts(DenseExperts(2, 3, dtype="float16"), gate, dtype="float16")
    cost = flops(keras.Model(inputs, mixture(inputs)), np.array([[20.0, 0.0], [1.0, 0.0]], "float32"))
    assert list(cost.experts_run.values()) == [1.5]


def test_a_shared_mixture_counts_at_each_call():
    a, b = keras.Input((4,)), keras.Input((4,))
    mixture = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4, k=1, softmax="before"))
    model = keras.Model([a, b], [mixture(a), mixture(b)])
    cost = flops(model, [normal(ROWS, 4), normal(ROWS, 4, seed=1)])
    assert cost.parts["experts"] == 2 * 4 * 3
    assert list(cost.experts_run.values()) == [1]


def test_parts_that_stand_alone():
    inputs = keras.Input((4,))
    weights = Permutation(3)(TopKGate(3, k=2, name="router")(inputs))
    outputs = WeightedSum()([layers.Dense(5)(inputs) for _ in range(3)], weights)
    cost = flops(keras.Model(inputs, outputs), normal(ROWS, 4))
    # All experts run here, whatever their weights.
    assert cost.parts == {"gates": 12, "permutation": 0, "experts": 0, "mixing": 15, "shared": 3 * 20}
    assert cost.experts_per_sample == {"router": 2}


def test_nested_and_subclassed_models():
    class Tower(keras.Model):
        def __init__(self):
            super().__init__()
            self.mixture = MixtureOfExperts(DenseExperts(4, 3), TopKGate(4, k=2), name="mixture")
            self.body = keras.Sequential([layers.Dense(6), layers.Dense(5)])

        def build(self, shape):
            self.body.build(shape)
            self.mixture.build((None, 5))
            self.scale = self.add_weight(shape=(3,))

        def call(self, inputs):
            both = self.body(inputs) + self.body(keras.ops.flip(inputs, axis=1))
            return self.mixture(both) * self.scale

        def compute_output_shape(self, shape):
            return (shape[0], 3)

    inputs = keras.Input((7,))
    model = keras.Model(inputs, layers.Dense(2)(Tower()(inputs)))
    cost = flops(model, normal(ROWS, 7))
    assert cost.parts == {
        "gates": 5 * 4,
        "permutation": 0,
        "experts": 2 * 5 * 3,
        "mixing": 2 * 3,
        "shared": 2 * (7 * 6 + 6 * 5) + 3 + 3 * 2,
    }


def test_a_model_without_mixture_is_all_shared():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dropout(0.5), layers.Dense(2)])
    cost = flops(model, normal(ROWS, 4))
    assert cost.total == cost.dense_total == cost.parts["shared"] == 4 * 3 + 3 * 2
    assert cost.experts_per_sample == cost.experts_run == {}
    assert "experts per sample" not in str(cost)


def small_movielens(gate, **options):
    sizes = {"num_users": 30, "num_movies": 20, "embedding_size": 8, "expert_units": 6, "head_units": 5}
    return models.movielens(gate=gate, **{"num_experts": 4, **sizes, **options})


DATA = {"user": np.arange(ROWS, dtype="int32"), "movie": np.arange(ROWS, dtype="int32") % 20}


@pytest.mark.parametrize("gate", ["comet+", "dselect_k", "hash"])
def test_the_model_is_left_as_it_was(gate):
    model = small_movielens(gate)
    model.compile("adam", "mse")
    before = model.predict(DATA, verbose=0)
    function = model.predict_function
    weights = [value(v) for v in model.variables]
    attributes = [sorted(vars(layer)) for layer in model._flatten_layers()]
    flops(model, DATA)
    assert [sorted(vars(layer)) for layer in model._flatten_layers()] == attributes
    assert model.predict_function is function
    for old, new in zip(weights, model.variables):
        np.testing.assert_array_equal(old, value(new))
    after = model.predict(DATA, verbose=0)
    for task, prediction in before.items():
        np.testing.assert_array_equal(prediction, after[task])


def test_a_failing_run_leaves_the_model_as_it_was():
    model = small_movielens("topk")
    with pytest.raises(Exception, match="movie|structure|input"):
        flops(model, {"user": DATA["user"]})
    assert not any("call" in vars(layer) for layer in model._flatten_layers())


def test_data_sets_of_features_and_of_tuples_give_what_arrays_give():
    import tensorflow as tf

    model = small_movielens("topk")
    expected = flops(model, DATA)
    targets = {"watch": np.zeros(ROWS), "rating": np.zeros(ROWS)}
    for parts in (DATA, (DATA, targets), (DATA, targets, targets)):
        assert flops(model, tf.data.Dataset.from_tensor_slices(parts).batch(7)) == expected


def test_wrong_data_is_refused():
    model = small_movielens("topk")
    for data, word in (
        ({name: ids[:0] for name, ids in DATA.items()}, "no rows"),
        ({**DATA, "movie": DATA["movie"][:3]}, r"same number of rows.*\[3, 23\]"),
        ("ratings.dat", "arrays.*Received: str"),
    ):
        with pytest.raises(ValueError, match=word):
            flops(model, data)


@pytest.mark.parametrize("case", cases("metric.flops_table6"), ids=lambda case: case["inputs"]["row"])
def test_the_rule_of_table_6(case):
    sizes = {name: size for name, size in case["inputs"].items() if name != "row"}
    found = sum(table6_flops(**sizes).values())
    assert found == pytest.approx(case["expected"]["flops"], abs=case["tolerance"])


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Large; the rule is the same on every backend.")
@pytest.mark.parametrize("gate, total", [("softmax", 2_254_881), ("topk", 412_705)])
def test_table_6_of_the_paper_s_model(gate, total):
    cost = flops(models.movielens(gate=gate), DATA, paper_table6=True)
    assert cost.total == total
    assert cost.dense_total == 2_254_881


@pytest.mark.parametrize(
    "gate, outputs", [("comet", 2 * 3), ("dselect_k+", 2 * 3), ("hash", 0), ("topk+", 4)]
)
def test_table_6_takes_the_measured_experts_and_the_gate_s_logits(gate, outputs):
    model = small_movielens(gate, gamma=0.01)
    cost = flops(model, DATA, paper_table6=True)
    measured = np.mean(list(cost.experts_per_sample.values()))
    expected = measured * (2 * 16 * 6 + 12) + 2 * (2 * 16 + 1) * outputs + (2 * 6 * 256 + 512) + 513 + 1024
    assert cost.total == pytest.approx(expected)
    assert "Table 6" in str(cost)


def test_table_6_counts_weights_of_at_least_1e_5():
    gates = [linear(SoftmaxGate(2), np.zeros((1, 2))) for _ in range(2)]
    inputs = keras.Input((2,))
    model = keras.Model(inputs, MixtureOfExperts(DenseExperts(2, 3), gates)(inputs))
    cost = flops(model, np.array([[12.0, 0.0], [11.0, 0.0]], "float32"), paper_table6=True)
    assert cost.parts["experts"] == 1.5 * (2 * 2 * 3 + 6)


def test_table_6_refuses_other_models():
    image = {"image": np.zeros((2, 12, 12, 1), "float32")}
    for model, data, word in (
        (models.multi_digits(gate="topk"), image, "one dense layer"),
        (keras.Sequential([keras.Input((4,)), layers.Dense(3)]), normal(2, 4), "one mixture"),
    ):
        with pytest.raises(ValueError, match=f"`paper_table6`.*{word}"):
            flops(model, data, paper_table6=True)


def test_the_table_and_the_dict():
    cost = flops(small_movielens("topk", expert_units=5), DATA)
    lines = str(cost).splitlines()
    assert lines[0] == "multiply-adds of one sample, mean of 23 samples"
    assert lines[2].split() == ["part", "cost", "share", "all", "experts"]
    total = next(line for line in lines if line.startswith("total"))
    assert total.split() == ["total", f"{cost.total:.0f}", "100.0%", f"{cost.dense_total:.0f}"]
    assert any(line.startswith("mixture, run of 4") for line in lines)
    figures = json.loads(json.dumps(cost.to_dict()))
    assert figures["parts"] == cost.parts and figures["total"] == cost.total
