import ast
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import comet_keras.datasets
from comet_keras.datasets import Dataset, Split


def numbered(rows):
    """A split whose every array tells the row number."""
    numbers = np.arange(rows)
    return Split(
        {"x": numbers, "image": np.stack([numbers, -numbers], axis=1).astype("float32")},
        {"y": 2 * numbers},
        {"y": (10 * numbers).astype("float32")},
    )


def rows_of(batches):
    return [batch[0]["x"].numpy().tolist() for batch in batches]


def test_length_is_the_number_of_rows():
    assert len(numbered(7)) == 7
    assert len(numbered(0)) == 0


def test_take_keeps_all_arrays_together():
    for rows, expected in [(2, [0, 1]), ([4, 0, 4], [4, 0, 4]), (np.arange(5) > 2, [3, 4]), ([], []), (0, [])]:
        part = numbered(5).take(rows)
        assert part.features["x"].tolist() == expected
        assert part.features["image"][:, 1].tolist() == [-row for row in expected]
        assert part.targets["y"].tolist() == [2 * row for row in expected]
        assert part.sample_weights["y"].tolist() == [10 * row for row in expected]


@pytest.mark.parametrize("rows", [6, -1, 1.5, True, [5], [-6], [0.5], [[0]], [True, False]])
def test_take_refuses_rows_that_are_not_there(rows):
    with pytest.raises(ValueError, match="rows"):
        numbered(5).take(rows)


def test_target_without_weights_gets_ones():
    split = Split({"x": np.zeros(3)}, {"a": np.zeros(3), "b": np.zeros(3)}, {"a": np.zeros(3)})
    assert split.sample_weights["b"].tolist() == [1, 1, 1]
    assert split.sample_weights["b"].dtype == "float32"
    assert split.sample_weights["a"].tolist() == [0, 0, 0]


def test_given_dicts_are_left_as_they_are():
    weights = {}
    Split({"x": np.zeros(3)}, {"y": np.zeros(3)}, weights)
    assert weights == {}


@pytest.mark.parametrize(
    "parts, match",
    [
        (({"x": np.zeros(3)}, {"y": np.zeros(4)}), r"same number of rows.*'x'.*3.*'y'.*4"),
        (({"x": np.zeros(3)}, {"y": np.zeros(3)}, {"y": np.zeros(2)}), "sample_weights"),
        (({"x": np.zeros(3)}, {"y": np.zeros(3)}, {"z": np.zeros(3)}), "z"),
        (({}, {"y": np.zeros(3)}), "features"),
        (({"x": np.zeros(3)}, {}), "targets"),
        ((np.zeros(3), {"y": np.zeros(3)}), "dict of arrays"),
        (({"x": np.float32(3)}, {"y": np.zeros(3)}), "first axis"),
    ],
)
def test_parts_that_do_not_fit_are_refused(parts, match):
    with pytest.raises(ValueError, match=match):
        Split(*parts)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("rows, batch_size, sizes", [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (3, 10, [3]), (0, 4, [])])
def test_batches_hold_every_row_once_and_the_rest_comes_last(shuffle, rows, batch_size, sizes):
    batches = numbered(rows).batches(batch_size, shuffle=shuffle, seed=1)
    for _ in range(2):
        epoch = rows_of(batches)
        assert [len(batch) for batch in epoch] == sizes
        assert sorted(sum(epoch, [])) == list(range(rows))
    assert len(batches) == int(batches.cardinality()) == len(sizes)


def test_batches_keep_rows_together():
    for shuffle in (False, True):
        for features, targets, weights in numbered(23).batches(5, shuffle=shuffle, seed=0):
            numbers = features["x"].numpy()
            np.testing.assert_array_equal(features["image"].numpy(), np.stack([numbers, -numbers], axis=1))
            np.testing.assert_array_equal(targets["y"].numpy(), 2 * numbers)
            np.testing.assert_array_equal(weights["y"].numpy(), 10 * numbers)


def test_batches_keep_the_order_unless_shuffled():
    assert rows_of(numbered(5).batches(2)) == [[0, 1], [2, 3], [4]]


def test_each_epoch_has_another_order():
    batches = numbered(50).batches(8, shuffle=True, seed=0)
    epochs = [tuple(sum(rows_of(batches), [])) for _ in range(4)]
    assert len(set(epochs)) == 4
    assert tuple(range(50)) not in epochs
    repeated = sum(rows_of(batches.repeat(2)), [])
    assert repeated[:50] != repeated[50:]


def test_seed_decides_the_orders():
    def epochs(seed):
        batches = numbered(50).batches(8, shuffle=True, seed=seed)
        return [rows_of(batches), rows_of(batches)]

    assert epochs(3) == epochs(3)
    assert epochs(3) != epochs(4)
    assert epochs(None) != epochs(None)


def test_shuffled_orders_are_uniform():
    # 3 rows have 6 orders: of 600 epochs each order gets 100, give or take 9 (its standard deviation).
    orders = {}
    batches = numbered(3).batches(3, shuffle=True, seed=0).repeat(600)
    for order in map(tuple, rows_of(batches)):
        orders[order] = orders.get(order, 0) + 1
    assert len(orders) == 6
    assert all(60 < count < 140 for count in orders.values())


@settings(max_examples=8, deadline=None)
@given(rows=st.integers(1, 40), batch_size=st.integers(1, 50), seed=st.integers(0, 2**31 - 1))
def test_any_size_and_seed_shuffles_every_row_once(rows, batch_size, seed):
    epoch = rows_of(numbered(rows).batches(batch_size, shuffle=True, seed=seed))
    assert sorted(sum(epoch, [])) == list(range(rows))
    assert len(epoch) == -(-rows // batch_size)


@pytest.mark.parametrize("batch_size", [0, -1, 1.5])
def test_impossible_batch_size_is_refused(batch_size):
    with pytest.raises(ValueError, match="batch_size"):
        numbered(5).batches(batch_size)


def test_an_epoch_of_the_papers_size_costs_seconds():
    rows = 1_600_000
    numbers = np.arange(rows, dtype="int32")
    split = Split({"user": numbers, "movie": numbers}, {"watch": numbers.astype("float32")})
    start = time.perf_counter()
    count = sum(1 for _ in split.batches(512, shuffle=True, seed=0))
    assert count == 3125
    assert time.perf_counter() - start < 10  # row by row takes far longer


def test_keras_trains_on_the_batches():
    import keras

    rows = 64
    x = np.linspace(-1, 1, rows, dtype="float32")[:, None]
    split = Split({"x": x}, {"a": x[:, 0], "b": -x[:, 0]}, {"a": np.zeros(rows, "float32")})
    inputs = {"x": keras.Input((1,), name="x")}
    outputs = {name: keras.layers.Dense(1, kernel_initializer="ones", name=name)(inputs["x"]) for name in "ab"}
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), loss={"a": "mse", "b": "mse"})
    batches = split.batches(16, shuffle=True, seed=0)
    history = model.fit(batches, epochs=3, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert float(model.get_layer("a").kernel[0, 0]) == 1.0  # all weights of this task are zero
    assert float(model.get_layer("b").kernel[0, 0]) < 1.0


def tiny(**changes):
    def split():
        return Split({"user": np.arange(4)}, {"watch": np.zeros(4), "digit": np.arange(4)})

    arguments = {
        "train": split(),
        "validation": split(),
        "test": split(),
        "tasks": {"watch": "binary", "digit": "multiclass"},
        "num_classes": {"digit": 4},
        "vocabulary_sizes": {"user": 4},
    }
    return Dataset("tiny", **{**arguments, **changes})


def test_dataset_keeps_its_parts():
    data = tiny(description="made by hand")
    assert data.name == "tiny" and data.description == "made by hand"
    assert list(data.splits) == ["train", "validation", "test"]
    assert "4 rows" in repr(data)


@pytest.mark.parametrize(
    "changes, match",
    [
        ({"tasks": {"watch": "binary", "digit": "ranking"}}, "ranking"),
        ({"tasks": {"watch": "binary"}}, "must name the targets"),
        ({"num_classes": {}}, "num_classes"),
        ({"num_classes": {"digit": 4, "watch": 2}}, "num_classes"),
        ({"num_classes": {"digit": 3}}, "train target 'digit' must lie in 0..2"),
        ({"vocabulary_sizes": {"user": 3}}, "train feature 'user' must lie in 0..2"),
        ({"vocabulary_sizes": {"book": 3}}, "book"),
        ({"test": Split({"movie": np.arange(4)}, {"watch": np.zeros(4), "digit": np.arange(4)})}, "same names"),
        ({"test": Split({"user": np.zeros((4, 2))}, {"watch": np.zeros(4), "digit": np.arange(4)})}, "row shapes"),
    ],
)
def test_dataset_that_does_not_fit_is_refused(changes, match):
    with pytest.raises(ValueError, match=match):
        tiny(**changes)


def test_fields_cannot_be_replaced():
    with pytest.raises(AttributeError):
        tiny().name = "other"
    with pytest.raises(AttributeError):
        tiny().train.features = {}


def test_importing_the_data_sets_loads_nothing_heavy():
    # Keras itself imports scikit-learn where it is installed, so look at the sources.
    for path in Path(comet_keras.datasets.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in getattr(node, "names", []) if isinstance(node, ast.Import)]
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"tensorflow", "sklearn", "keras"}, path.name
