import keras
import numpy as np
import pytest

from comet_keras import (
    DenseExperts,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
)
from comet_keras.datasets import Split
from comet_keras.reports import class_routing

ROWS, EXPERTS = 70, 4
TASKS = {"shape": "multiclass", "price": "regression"}


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 5)).astype("float32")
    labels = {"shape": rng.integers(0, 3, size=ROWS), "price": rng.normal(size=ROWS).astype("float32")}
    weights = {"shape": (rng.random(ROWS) < 0.8).astype("float32")}
    return Split({"x": x}, labels, weights)


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((5,), name="x")
    gates = {"shape": TopKGate(EXPERTS, k=2), "price": SoftmaxGate(EXPERTS)}
    towers = MixtureOfExperts(DenseExperts(EXPERTS, 2), gates, Permutation(EXPERTS), name="mixture")(inputs)
    built = keras.Model({"x": inputs}, {task: keras.layers.Dense(3)(towers[task]) for task in gates})
    built.get_layer("mixture").permutation.assignment.assign([2, 0, 3, 1])
    return built


def weights_of(model, split, task):
    """The weights that experts receive, by the mixture's own account."""
    details = model.get_layer("mixture")(split.features["x"], return_details=True)
    return keras.ops.convert_to_numpy(details["weights"][task])


def test_counts_by_class(model, split):
    before = [np.array(v) for v in model.get_weights()]
    shape, price = class_routing(model, split, TASKS, batch_size=32)
    assert (shape.gate, shape.task, shape.labels) == ("shape", "shape", ["0", "1", "2"])
    w, counted = weights_of(model, split, "shape"), split.sample_weights["shape"] > 0
    for label in range(3):
        of_class = w[counted & (split.targets["shape"] == label)]
        assert shape.rows[label] == len(of_class)
        np.testing.assert_array_equal(shape.used[label], (of_class > 0).sum(axis=0))
        np.testing.assert_array_equal(shape.chosen[label], np.bincount(of_class.argmax(axis=1), minlength=EXPERTS))
        np.testing.assert_allclose(shape.shares[label].sum(), 2)  # experts per sample
    for old, new in zip(before, model.get_weights()):
        np.testing.assert_array_equal(old, new)
    assert not any("observe" in vars(gate) for gate in model.get_layer("mixture").gate_layers)
    assert price.rows.sum() == ROWS


def test_mutual_information_is_that_of_another_library(model, split):
    metrics = pytest.importorskip("sklearn.metrics")
    shape = class_routing(model, split, TASKS)[0]
    counted = split.sample_weights["shape"] > 0
    labels, experts = split.targets["shape"][counted], weights_of(model, split, "shape")[counted].argmax(axis=1)
    expected = metrics.mutual_info_score(labels, experts) / np.log(2)
    assert shape.mutual_information == pytest.approx(expected, rel=1e-5)
    share = np.bincount(labels) / len(labels)
    assert shape.label_entropy == pytest.approx(-np.sum(share * np.log2(share)))


def test_many_values_are_cut_into_ranges_of_equal_size(model, split):
    price = class_routing(model, split, TASKS)[1]
    assert price.rows.tolist() == [ROWS // 5] * 5
    values = np.sort(split.targets["price"])
    assert price.labels[0] == f"{values[0]:g} to {values[13]:g}"
    assert price.labels[-1] == f"{values[56]:g} to {values[-1]:g}"
    assert price.shares.min() == 1  # Softmax uses every expert


def test_few_values_are_classes(model, split):
    stars = np.resize([1.0, 2.5, 5.0], ROWS)
    other = Split(split.features, {"shape": split.targets["shape"], "price": stars})
    price = class_routing(model, other, TASKS)[1]
    assert price.labels == ["1", "2.5", "5"] and price.rows.sum() == ROWS


def test_a_single_gate_is_read_by_every_task(split):
    inputs = keras.Input((5,), name="x")
    mixed = MixtureOfExperts(DenseExperts(EXPERTS, 2), TopKGate(EXPERTS, k=2))(inputs)
    model = keras.Model({"x": inputs}, mixed)
    routings = class_routing(model, split, TASKS)
    assert [(r.gate, r.task, r.title) for r in routings] == [("", "shape", "shape"), ("", "price", "price")]
    assert "I(expert; class)" in str(routings[0])
    lines = str(routings[0]).splitlines()
    assert lines[2].split() == ["class", "rows", "0", "1", "2", "3"]
    assert lines[4].split()[:2] == ["0", str(routings[0].rows[0])]


def test_what_cannot_be_shown(model, split):
    inputs = keras.Input((5,), name="x")
    with pytest.raises(ValueError, match="no gate"):
        class_routing(keras.Model({"x": inputs}, keras.layers.Dense(1)(inputs)), split, TASKS)
    with pytest.raises(ValueError, match="no rows"):
        class_routing(model, split.take(0), TASKS)
    unlabelled = Split(split.features, split.targets, {"shape": np.zeros(ROWS)})
    with pytest.raises(ValueError, match="'shape'"):
        class_routing(model, unlabelled, TASKS)
    gate = SoftmaxGate(EXPERTS)
    twice = keras.Model({"x": inputs}, gate(inputs) + gate(2 * inputs))
    with pytest.raises(ValueError, match="each row"):
        class_routing(twice, split, TASKS)
