"""Hash routing: ids to experts by a fixed table."""

import keras
import numpy as np
import pytest
from helpers import BACKEND, cases, value
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from comet_keras import HashGate
from comet_keras.gates.hash import balanced_table


def experts_of(gate, ids):
    return value(ops.argmax(gate(ops.convert_to_tensor(ids, "int32")), axis=-1)).tolist()


@pytest.mark.parametrize("case", cases("gate.hash_table"))
def test_one_hot_weights_of_the_published_case(case):
    gate = HashGate(case["inputs"]["n"], num_ids=len(case["inputs"]["table"]))
    gate.build((None, 1))
    gate.table.assign(case["inputs"]["table"])
    ids = ops.convert_to_tensor(case["inputs"]["ids"], "int32")
    for shaped in (ids, ops.expand_dims(ids, -1)):
        assert value(gate(shaped)).tolist() == case["expected"]["gates"]


@pytest.mark.parametrize("case", cases("gate.hash_balanced"))
def test_balanced_tables_of_the_published_cases(case):
    frequencies, n = case["inputs"]["frequency"], case["inputs"]["n"]
    gate = HashGate(n, num_ids=len(frequencies), assignment="balanced", frequencies=frequencies)
    found = experts_of(gate, np.arange(len(frequencies))[:, None])
    assert found == case["expected"]["assignment"]
    loads = np.bincount(found, weights=frequencies, minlength=n)
    assert loads.tolist() == case["expected"]["bucket_load"]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 6))
def test_balanced_loads_differ_by_at_most_the_largest_count(frequencies, n):
    table = balanced_table(frequencies, n)
    loads = np.bincount(table, weights=frequencies, minlength=n)
    assert loads.max() - loads.min() <= max(frequencies)
    assert set(table) <= set(range(n))


def test_ids_that_never_occur_are_spread_at_random():
    table = balanced_table([0] * 400 + [1], 4)
    assert (np.bincount(table, minlength=4) > 60).all()


def test_a_seed_fixes_the_table_and_another_seed_changes_it():
    ids = np.arange(50)[:, None]
    assert experts_of(HashGate(7, num_ids=50, seed=3), ids) == experts_of(
        HashGate(7, num_ids=50, seed=3), ids
    )
    assert experts_of(HashGate(7, num_ids=50, seed=3), ids) != experts_of(
        HashGate(7, num_ids=50, seed=4), ids
    )
    # The backend's and the global random state have no part in it.
    keras.utils.set_random_seed(99)
    first = experts_of(HashGate(7, num_ids=50), ids)
    keras.utils.set_random_seed(100)
    assert experts_of(HashGate(7, num_ids=50), ids) == first


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_ids": 9},
        {"vocabulary": [30, -4, 7]},
        {"num_ids": 3, "assignment": "balanced", "frequencies": [3, 1, 1]},
    ],
)
def test_config_and_weights_restore_the_table(arguments):
    gate = HashGate(4, **arguments)
    gate.build((None, 1))
    changed = (value(gate.table) + 1) % 4
    gate.table.assign(changed)
    copy = HashGate.from_config(gate.get_config())
    copy.build((None, 1))
    copy.set_weights(gate.get_weights())
    ids = np.array([[0], [1], [2], [7], [-4], [30]])
    assert experts_of(copy, ids) == experts_of(gate, ids)
    assert copy.get_config() == gate.get_config()


def test_nothing_is_trained():
    gate = HashGate(4, num_ids=5)
    gate.build((None, 1))
    assert gate.trainable_variables == []


def test_ids_outside_the_table_go_to_their_remainder():
    gate = HashGate(3, num_ids=4)
    assert experts_of(gate, [[4], [5], [100], [-1], [-2], [-3]]) == [1, 2, 1, 2, 1, 0]


def test_modulo_assigns_by_position_in_the_table():
    assert experts_of(HashGate(3, num_ids=7, assignment="modulo"), np.arange(7)[:, None]) == [
        0, 1, 2, 0, 1, 2, 0,
    ]  # fmt: skip
    vocabulary = [50, -7, 3, 8]
    gate = HashGate(3, vocabulary=vocabulary, assignment="modulo")
    assert experts_of(gate, np.array(vocabulary)[:, None]) == [0, 1, 2, 0]


def test_integer_vocabularies_may_be_negative_and_unsorted():
    vocabulary = [10**9, -5, 0, 7, -(10**9)]
    gate = HashGate(4, vocabulary=vocabulary, seed=1)
    plain = HashGate(4, num_ids=5, seed=1)
    assert experts_of(gate, np.array(vocabulary)[:, None]) == experts_of(plain, np.arange(5)[:, None])
    outside = [[-6], [6], [8], [2 * 10**9], [-2 * 10**9]]
    assert experts_of(gate, outside) == [i[0] % 4 for i in outside]


@pytest.mark.parametrize("arguments", [{"num_ids": 6}, {"vocabulary": [4, -1, 0, 2]}])
def test_ids_of_any_leading_shape_and_as_whole_floats(arguments):
    gate = HashGate(3, **arguments)
    ids = np.array([[4, 0, 2], [-1, 9, 5]])
    flat = value(gate(ops.convert_to_tensor(ids.reshape(6, 1), "int32")))
    assert value(gate(ops.convert_to_tensor(ids[..., None], "int32"))).tolist() == (
        flat.reshape(2, 3, 3).tolist()
    )
    assert value(gate(ops.convert_to_tensor(ids.reshape(6, 1), "float32"))).tolist() == flat.tolist()
    assert value(gate(ops.zeros((0, 1), "int32"))).shape == (0, 3)


def test_accepts_a_plain_batch_of_ids_in_a_model():
    inputs = keras.Input((), dtype="int32")
    model = keras.Model(inputs, HashGate(3, num_ids=6)(inputs))
    assert model.output_shape == (None, 3)
    assert model.predict(np.arange(6), verbose=0).sum(-1).tolist() == [1] * 6


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Only TensorFlow has strings.")
def test_strings_go_to_the_expert_of_their_place_in_the_vocabulary():
    import tensorflow as tf

    vocabulary = ["pear", "apple", "fig"]
    gate = HashGate(4, vocabulary=vocabulary, assignment="modulo")
    found = value(ops.argmax(gate(tf.constant([["pear"], ["fig"], ["apple"], ["unknown"]])), -1))
    assert found.tolist() == [0, 2, 1, 0]
    inputs = keras.Input((1,), dtype="string")
    model = keras.Model(inputs, gate(inputs))
    again = model.predict(tf.constant([["fig"], ["unknown"]]), verbose=0)
    assert again.argmax(-1).tolist() == [2, 0]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Only TensorFlow has strings.")
def test_strings_without_a_vocabulary_are_refused():
    import tensorflow as tf

    with pytest.raises(ValueError, match="vocabulary"):
        HashGate(4, num_ids=3)(tf.constant([["pear"]]))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "`num_ids`.*`vocabulary`"),
        ({"num_ids": 3, "vocabulary": [1]}, "`num_ids`.*`vocabulary`"),
        ({"num_ids": 0}, "`num_ids`.*num_ids=0"),
        ({"vocabulary": []}, "`vocabulary`"),
        ({"vocabulary": [1, "a"]}, "`vocabulary`"),
        ({"vocabulary": [1.5, 2.5]}, "`vocabulary`"),
        ({"vocabulary": [1, 2, 1]}, "`vocabulary`.*more than once"),
        ({"vocabulary": [2**31]}, "`vocabulary`.*32 bits"),
        ({"num_ids": 3, "assignment": "fair"}, "`assignment`.*'balanced'.*fair"),
        ({"num_ids": 3, "assignment": "balanced"}, "`frequencies`"),
        ({"num_ids": 3, "frequencies": [1, 2]}, "`frequencies`.*2 counts for 3 ids"),
    ],
)
def test_wrong_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        HashGate(4, **arguments)


def test_negative_frequencies_are_refused():
    with pytest.raises(ValueError, match="`frequencies`"):
        HashGate(2, num_ids=2, assignment="balanced", frequencies=[1, -1])(ops.zeros((1, 1), "int32"))


def test_inputs_that_hold_several_values_a_sample_are_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"\(batch,\) or \(\.\.\., 1\).*expand_dims"):
        HashGate(4, num_ids=3)(ops.zeros((2, 3), "int32"))
