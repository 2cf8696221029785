"""Statistics gathered in layers: the same over any split into batches."""

import keras
import numpy as np
import pytest
from helpers import exact_entropy, random_weights, value
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from comet_keras import COMETGate, SoftmaxGate
from comet_keras.metrics import gates_of, routing_statistics
from comet_keras.metrics.statistics import RoutingStatistics, gathering


def expected_figures(weights):
    flat = np.asarray(weights, "float64").reshape(-1, weights.shape[-1])
    usage = flat.mean(0)
    return {
        "experts_per_sample": (flat >= 1e-5).sum(1).mean(),
        "gate_entropy": exact_entropy(flat).mean() / np.log(2),
        "expert_usage_entropy": exact_entropy(usage) / np.log(2),
        "largest_expert_share": usage.max(),
        "expert_usage": usage,
    }


def assert_figures(found, expected):
    assert found.keys() == expected.keys()
    for name, figure in expected.items():
        np.testing.assert_allclose(found[name], figure, rtol=1e-4, atol=1e-5, err_msg=name)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.booleans(), st.integers(0, 10**6))
def test_any_split_into_batches_gives_the_figures_of_the_whole(sizes, masked, seed):
    rng = np.random.default_rng(seed)
    statistics = RoutingStatistics(keras.layers.Layer(), 3)
    seen = [np.zeros((0, 3))]
    for size in sizes:
        weights = random_weights(rng, size, 2, 3).astype("float32")
        weights[weights < 0.2] = 0
        mask = rng.random((size, 2)) < 0.6 if masked else np.ones((size, 2), bool)
        statistics.observe(
            ops.convert_to_tensor(weights), ops.convert_to_tensor(mask) if masked else None
        )
        seen.append(weights[mask])
    seen = np.concatenate(seen)
    assert float(value(statistics.count)) == len(seen)
    if len(seen):
        assert_figures(statistics.read(), expected_figures(seen))
    else:
        assert statistics.read() == {}


def test_a_reset_forgets_everything():
    statistics = RoutingStatistics(keras.layers.Layer(), 2, ["entropy"])
    statistics.observe(ops.ones((3, 2)) / 2)
    statistics.observe_penalties([ops.ones(())])
    assert statistics.read()["entropy_loss"] == 1
    statistics.reset()
    assert statistics.read() == {}
    assert not any(value(v).any() for v in statistics.variables)


def test_loss_terms_are_averaged_over_steps_under_their_names():
    statistics = RoutingStatistics(keras.layers.Layer(), 2, ["entropy", "importance"])
    statistics.observe(ops.ones((1, 2)) / 2)
    for entropy, importance in ((1.0, 0.5), (2.0, 0.0), (6.0, 0.1)):
        statistics.observe_penalties([ops.convert_to_tensor(entropy), ops.convert_to_tensor(importance)])
    figures = statistics.read()
    np.testing.assert_allclose([figures["entropy_loss"], figures["importance_loss"]], [3, 0.2], rtol=1e-6)


def test_long_epochs_do_not_lose_precision():
    statistics = RoutingStatistics(keras.layers.Layer(), 2)
    statistics.count.assign(1e7)
    statistics.usage.assign([0.25, 0.75])
    statistics.means.assign([1.5, 0.5])
    for _ in range(20):
        statistics.observe(ops.convert_to_tensor(np.tile([[0.25, 0.75]], (64, 1)), "float32"))
    np.testing.assert_allclose(statistics.read()["expert_usage"], [0.25, 0.75], rtol=1e-5)
    assert float(value(statistics.count)) == 1e7 + 20 * 64


def test_training_gathers_and_inference_only_within_its_scope():
    gate = SoftmaxGate(3)
    x = ops.convert_to_tensor(np.random.default_rng(0).normal(size=(4, 2)), "float32")
    gate(x)
    assert gate.statistics.read() == {}
    weights = value(gate(x, training=True))
    assert_figures(gate.statistics.read(), expected_figures(weights))
    gate.statistics.reset()
    with gathering():
        gate(x)
        gate(x, observe=False)
    assert float(value(gate.statistics.count)) == 4
    gate(x)
    assert float(value(gate.statistics.count)) == 4


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_statistics_of_a_model_do_not_depend_on_the_batch_size_and_leave_it_as_it_was(batch_size):
    x = np.random.default_rng(0).normal(size=(7, 4)).astype("float32")
    inputs = keras.Input((4,))
    gates = [COMETGate(3, k=1, gamma=0.05, name="first"), SoftmaxGate(2, name="second")]
    model = keras.Model(inputs, [gate(inputs) for gate in gates])
    model(x, training=True)
    before = [value(v) for gate in gates for v in gate.variables]
    found = routing_statistics(model, x, batch_size=batch_size)
    assert list(found) == ["first", "second"] == list(gates_of(model))
    for gate in gates:
        assert_figures(found[gate.name], expected_figures(value(gate(x))))
    for old, new in zip(before, [v for gate in gates for v in gate.variables]):
        np.testing.assert_array_equal(old, value(new))


def test_a_model_without_gates_has_no_statistics():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="no gate"):
        routing_statistics(model, np.zeros((3, 2)))
