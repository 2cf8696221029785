import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comet_keras.datasets import mask_missing_labels

NAN = np.nan


def test_missing_label_becomes_zero_with_weight_zero():
    targets, weights = mask_missing_labels(np.array([1.5, NAN, -2.0], "float32"))
    np.testing.assert_array_equal(targets, [1.5, 0, -2])
    np.testing.assert_array_equal(weights, [1, 0, 1])
    assert targets.dtype == weights.dtype == "float32"


def test_each_target_is_masked_by_itself():
    targets, weights = mask_missing_labels({"a": np.array([NAN, 1.0]), "b": np.array([2.0, NAN])})
    np.testing.assert_array_equal(targets["a"], [0, 1])
    np.testing.assert_array_equal(weights["a"], [0, 1])
    np.testing.assert_array_equal(targets["b"], [2, 0])
    np.testing.assert_array_equal(weights["b"], [1, 0])


def test_a_real_zero_still_counts():
    _, weights = mask_missing_labels(np.array([0.0, NAN]))
    np.testing.assert_array_equal(weights, [1, 0])


def test_given_weights_are_kept_where_the_label_is_there():
    targets = {"a": np.array([1.0, NAN, 1.0]), "b": np.array([1, 2, 3])}
    _, weights = mask_missing_labels(targets, {"a": np.array([0.5, 7.0, 2.0])})
    np.testing.assert_array_equal(weights["a"], [0.5, 0, 2])
    np.testing.assert_array_equal(weights["b"], [1, 1, 1])


def test_weight_that_is_nan_too_becomes_zero():
    _, weights = mask_missing_labels(np.array([NAN, 1.0]), np.array([NAN, 1.0]))
    np.testing.assert_array_equal(weights, [0, 1])


def test_class_codes_come_back_as_integers():
    given_labels = {"digit": np.array([9.0, NAN]), "y": np.array([0.5, NAN])}
    targets, weights = mask_missing_labels(given_labels, classes=["digit"])
    assert targets["digit"].dtype == "int32" and targets["y"].dtype == "float64"
    np.testing.assert_array_equal(targets["digit"], [9, 0])
    np.testing.assert_array_equal(weights["digit"], [1, 0])
    assert mask_missing_labels(np.array([3.0, NAN]), classes=True)[0].dtype == "int32"


def test_none_is_a_missing_label():
    targets, weights = mask_missing_labels(np.array([2, None], dtype=object), classes=True)
    np.testing.assert_array_equal(targets, [2, 0])
    np.testing.assert_array_equal(weights, [1, 0])


def test_integer_targets_pass_unchanged():
    targets, weights = mask_missing_labels(np.array([3, 1], "int64"))
    assert targets.dtype == "int64"
    np.testing.assert_array_equal(weights, [1, 1])


def test_row_of_several_labels_counts_only_when_complete():
    targets, weights = mask_missing_labels(np.array([[1.0, 2.0], [NAN, 2.0]]))
    np.testing.assert_array_equal(targets, [[1, 2], [0, 2]])
    np.testing.assert_array_equal(weights, [1, 0])


def test_no_rows_are_fine():
    targets, weights = mask_missing_labels(np.zeros((0, 2)))
    assert targets.shape == (0, 2) and weights.shape == (0,)


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), max_size=20))
def test_known_labels_survive_and_the_argument_is_left_alone(labels):
    given_labels = np.array([NAN if label is None else label for label in labels])
    before = given_labels.copy()
    targets, weights = mask_missing_labels(given_labels)
    np.testing.assert_array_equal(given_labels, before)
    for label, target, weight in zip(labels, targets, weights):
        assert (target, weight) == ((0, 0) if label is None else (label, 1))


@pytest.mark.parametrize(
    "arguments, match",
    [
        (({"a": np.ones(2)}, {"b": np.ones(2)}), "b"),
        (({"a": np.ones(2)}, np.ones(2)), "must be a dict"),
        ((np.ones(2), {"a": np.ones(2)}), "must be an array"),
        ((np.ones(2), np.ones(3)), r"shape \(2,\)"),
        (({"a": np.ones(2)}, None, ["c"]), "c"),
        (({"a": np.ones(2)}, None, "a"), "list of target names"),
        (({"a": np.array([0.5])}, None, ["a"]), "whole class codes"),
        (({"a": np.array([np.inf])}, None, ["a"]), "whole class codes"),
        ((np.array(["cat"]),), "numbers"),
        ((np.array(1.0),), "axis of rows"),
    ],
)
def test_wrong_arguments_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        mask_missing_labels(*arguments)


def test_masked_rows_do_not_touch_the_loss_of_keras():
    import keras

    targets, weights = mask_missing_labels(np.array([1.0, NAN, 3.0], "float32"))
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    predictions = np.array([[2.0], [100.0], [5.0]], "float32")
    value = loss(targets[:, None], predictions, sample_weight=weights)
    assert float(value) == pytest.approx((1 + 4) / 2)
