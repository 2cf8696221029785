import numpy as np
import pytest
from callbacks.common import compiled_model, data, fit, permutation_of
from scipy.optimize import linear_sum_assignment

from comet_keras import HardenPermutation, Permutation
from comet_keras.callbacks import PermutationHistory
from comet_keras.reports import permutation_evolution


def quick_model():
    """With few Sinkhorn rounds, and not compiled."""
    search = Permutation(4, rounds=(5, 10), name="search")
    return compiled_model(permutation=search, run_eagerly=True)


@pytest.mark.slow
def test_soft_matrices_until_hard_also_with_validation():
    for validation in (None, data(rows=8, seed=1)):
        model = quick_model()
        history = PermutationHistory()
        fit(model, 3, [history, HardenPermutation(epochs=2, verbose=0)], validation_data=validation)
        assert list(history.soft) == list(history.hard) == ["search"]
        # The start, the first epoch, and the second before it hardens.
        assert list(history.soft["search"]) == [0, 1, 2]
        last, hard = history.soft["search"][2], history.hard["search"]
        for matrix in history.soft["search"].values():
            np.testing.assert_allclose(matrix.sum(axis=0), 1, atol=1e-5)
        np.testing.assert_array_equal(hard, permutation_of(model).hard_matrix())
        rows, columns = linear_sum_assignment(last, maximize=True)
        np.testing.assert_array_equal(hard[rows, columns], 1)
        assert permutation_evolution(history.soft["search"], hard).axes


def test_evaluation_records_nothing_and_a_second_fit_starts_anew():
    model = quick_model()
    history = PermutationHistory()
    fit(model, 1, [history, HardenPermutation(epochs=3, verbose=0)])
    assert list(history.soft["search"]) == [0, 1]
    x, y = data()
    model.evaluate(x, y, verbose=0, callbacks=[history])
    assert list(history.soft["search"]) == [0, 1]
    first = history.soft["search"][1]
    fit(model, 1, [history, HardenPermutation(epochs=3, verbose=0)])
    np.testing.assert_allclose(history.soft["search"][0], first, atol=1e-6)


def test_a_model_without_permutation():
    history = PermutationHistory()
    fit(compiled_model(permutation=None, run_eagerly=True), 1, [history])
    assert (history.soft, history.hard) == ({}, {})
