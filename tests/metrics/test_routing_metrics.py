"""Routing statistics as functions, against numpy."""

import numpy as np
import pytest
from helpers import cases, exact_entropy, random_weights, value
from hypothesis import given
from hypothesis import strategies as st

from comet_keras import metrics


@pytest.mark.parametrize("case", cases("metric.gate_entropies"))
def test_entropies_of_the_published_cases(case):
    p, atol = case["inputs"]["p"], case["tolerance"]
    np.testing.assert_allclose(value(metrics.gate_entropy(p)), case["expected"]["H_s"], atol=atol)
    np.testing.assert_allclose(value(metrics.expert_usage_entropy(p)), case["expected"]["H_u"], atol=atol)


@pytest.mark.parametrize("case", cases("metric.mutual_information"))
def test_mutual_information_of_the_published_cases(case):
    counts = np.array(case["inputs"]["counts"])
    for dtype in ("float32", "int32"):
        found = value(metrics.mutual_information(counts.astype(dtype)))
        np.testing.assert_allclose(found, case["expected"]["I"], atol=case["tolerance"])


@pytest.mark.parametrize("case", cases("metric.experts_per_sample"))
def test_experts_per_sample_of_the_published_cases(case):
    found = metrics.experts_per_sample(case["inputs"]["gates"], case["inputs"]["threshold"])
    np.testing.assert_allclose(value(found), case["expected"]["n_per_s"], atol=case["tolerance"])
    assert value(metrics.experts_per_sample(case["inputs"]["gates"])) == value(found)


@given(st.integers(1, 9), st.sampled_from([(5,), (2, 3)]), st.integers(0, 10**6))
def test_all_figures_equal_numpy(n, lead, seed):
    p = random_weights(np.random.default_rng(seed), *lead, n)
    p = np.where(p < 0.1, 0, p).astype("float32")
    flat = p.reshape(-1, n)
    usage = flat.mean(0)
    np.testing.assert_allclose(value(metrics.expert_usage(p)), usage, rtol=1e-5)
    np.testing.assert_allclose(value(metrics.largest_expert_share(p)), usage.max(), rtol=1e-5)
    np.testing.assert_allclose(value(metrics.experts_per_sample(p)), (flat > 0).sum(1).mean(), rtol=1e-6)
    np.testing.assert_allclose(
        value(metrics.gate_entropy(p)), exact_entropy(flat).mean() / np.log(2), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        value(metrics.expert_usage_entropy(p)), exact_entropy(usage) / np.log(2), rtol=1e-4, atol=1e-6
    )


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 10**6))
def test_mutual_information_equals_numpy_and_lies_within_its_bounds(labels, experts, seed):
    counts = np.random.default_rng(seed).integers(0, 20, size=(labels, experts))
    counts[0, 0] += 1
    p = counts / counts.sum()
    entropies = [exact_entropy(q) / np.log(2) for q in (p.sum(1), p.sum(0), p.ravel())]
    found = float(value(metrics.mutual_information(counts)))
    np.testing.assert_allclose(found, entropies[0] + entropies[1] - entropies[2], atol=1e-5)
    assert -1e-5 <= found <= min(entropies[:2]) + 1e-5


def test_entropies_are_ordered_and_bounded():
    p = random_weights(np.random.default_rng(0), 50, 8)
    h_s, h_u = (float(value(f(p))) for f in (metrics.gate_entropy, metrics.expert_usage_entropy))
    assert 0 < h_s < h_u < 3
    np.testing.assert_allclose(float(value(metrics.expert_usage_entropy(np.eye(8)))), 3, rtol=1e-6)
    assert float(value(metrics.gate_entropy(np.eye(8)))) == 0


def test_the_threshold_counts_weights_of_exactly_its_size():
    weights = np.array([[1e-5, 9.9e-6, 0.5]], "float32")
    assert float(value(metrics.experts_per_sample(weights))) == 2
