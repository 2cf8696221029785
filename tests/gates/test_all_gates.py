"""What every gate promises, over many shapes: weights on the simplex, rows independent, zeros exact."""

import warnings

import keras
import numpy as np
import pytest
from helpers import called, value
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from comet_keras import COMETGate, DSelectKGate, Gate, HashGate, SoftmaxGate, TopKGate

KINDS = {
    "softmax": lambda n, k, **kw: SoftmaxGate(n, **kw),
    "topk": lambda n, k, **kw: TopKGate(n, k=min(k, n), **kw),
    "topk_before": lambda n, k, **kw: TopKGate(n, k=min(k, n), softmax="before", **kw),
    "noisy_topk": lambda n, k, **kw: TopKGate(n, k=min(k, n), noisy=True, **kw),
    "hash": lambda n, k, **kw: HashGate(n, num_ids=50, **kw),
    "dselect_k": lambda n, k, **kw: DSelectKGate(n, k=k, **kw),
    "static_dselect_k": lambda n, k, **kw: DSelectKGate(n, k=k, per_sample=False, **kw),
    "comet": lambda n, k, **kw: COMETGate(n, k=k, **kw),
}
OFF_THE_SIMPLEX = ("topk_before", "dselect_k", "static_dselect_k")

pytestmark = pytest.mark.filterwarnings("ignore:TopKGate")
each_kind = pytest.mark.parametrize("kind", KINDS)
leads = st.sampled_from([(0,), (1,), (7,), (2, 3), (1, 1), (0, 4)])


def inputs_for(kind, rng, lead, scale=1.0, width=3):
    if kind == "hash":
        return ops.convert_to_tensor(rng.integers(-20, 80, size=(*lead, 1)), "int32")
    return ops.convert_to_tensor(scale * rng.normal(size=(*lead, width)), "float32")


@each_kind
@given(st.data())
def test_weights_are_on_the_simplex_at_any_shape(kind, data):
    n, k, lead = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 5)), data.draw(leads)
    scale, training = data.draw(st.sampled_from([0.0, 1.0, 1000.0])), data.draw(st.booleans())
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    gate = KINDS[kind](n, k)
    x = inputs_for(kind, rng, lead, scale)
    tensor = called(gate, x, training=training)
    weights = value(tensor)
    assert weights.shape == (*lead, n) == tuple(gate.compute_output_shape(x.shape))
    assert keras.backend.standardize_dtype(tensor.dtype) == "float32"
    assert np.isfinite(weights).all() and (weights >= 0).all()
    total = weights.sum(-1)
    if kind in OFF_THE_SIMPLEX:
        assert (total <= 1 + 1e-5).all()
    else:
        np.testing.assert_allclose(total, 1, atol=1e-5)
    support = (weights > 0).sum(-1)
    if "topk" in kind and scale < 1000:
        assert (support == min(k, n)).all()
    if kind == "hash":
        assert set(np.unique(weights)) <= {0, 1}


@each_kind
@given(n=st.integers(1, 20), k=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_a_row_does_not_depend_on_the_others_nor_on_their_number(kind, n, k, seed):
    rng = np.random.default_rng(seed)
    gate = KINDS[kind](n, k)
    x = inputs_for(kind, rng, (7,))
    whole = value(called(gate, x))
    alone = np.concatenate([value(called(gate, x[i : i + 1])) for i in (0, 6)])
    np.testing.assert_allclose(alone, whole[[0, 6]], atol=1e-6)
    assert ((alone > 0) == (whole[[0, 6]] > 0)).all()
    stacked = value(called(gate, ops.reshape(x, (7, 1, -1))))
    np.testing.assert_allclose(stacked[:, 0], whole, atol=1e-6)
    np.testing.assert_allclose(value(called(gate, ops.flip(x, axis=0)))[::-1], whole, atol=1e-6)


@each_kind
def test_a_single_expert_has_weight_1_without_any_warning(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        gate = KINDS[kind](1, 3)
        x = inputs_for(kind, np.random.default_rng(0), (4,))
        for training in (False, True):
            assert value(gate(x, training=training)).tolist() == [[1]] * 4
    if "dselect" in kind or kind == "comet":
        assert gate.trainable_variables == []


@each_kind
def test_a_single_selector_or_tree_does_not_warn(kind):
    if "topk" in kind:
        pytest.skip("TopKGate warns of k=1 on purpose.")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        KINDS[kind](4, 1)(inputs_for(kind, np.random.default_rng(0), (4,)))


@each_kind
def test_all_zero_inputs_give_finite_weights(kind):
    gate = KINDS[kind](5, 2)
    x = inputs_for(kind, np.random.default_rng(0), (3,)) * 0
    weights = value(gate(x))
    assert np.isfinite(weights).all() and (weights.sum(-1) > 0).all()


@each_kind
def test_inference_is_repeatable_and_changes_no_state(kind):
    gate = KINDS[kind](5, 2)
    x = inputs_for(kind, np.random.default_rng(0), (3,))
    first = value(gate(x))
    before = [value(v) for v in gate.variables]
    np.testing.assert_array_equal(value(gate(x)), first)
    for old, new in zip(before, gate.variables):
        np.testing.assert_array_equal(old, value(new))


@each_kind
def test_two_gates_of_one_kind_start_different(kind):
    if kind == "hash":
        pytest.skip("Tables follow their seed, which has a default.")
    gates = [KINDS[kind](5, 2) for _ in range(2)]
    for gate in gates:
        gate.build((None, 3))
    first, second = (value(gate.trainable_variables[0]) for gate in gates)
    if kind == "noisy_topk":  # whose noise kernel starts at zero
        first, second = (value(gate.kernel) for gate in gates)
    assert not np.array_equal(first, second)


@each_kind
def test_config_is_plain_and_rebuilds_the_gate(kind):
    import json

    gate = KINDS[kind](5, 2, name="router")
    x = inputs_for(kind, np.random.default_rng(0), (3,))
    expected = value(gate(x))
    config = json.loads(json.dumps(gate.get_config()))
    copy = type(gate).from_config(config)
    copy(x)
    copy.set_weights(gate.get_weights())
    np.testing.assert_array_equal(value(copy(x)), expected)
    assert json.loads(json.dumps(copy.get_config())) == config


@each_kind
def test_the_mask_of_the_inputs_goes_on_to_the_next_layer(kind):
    gate = KINDS[kind](3, 2)
    mask = ops.convert_to_tensor([[True, False]])
    assert gate.supports_masking
    assert gate.compute_mask(inputs_for(kind, np.random.default_rng(0), (1, 2)), mask) is mask


def test_a_gate_without_a_router_says_what_is_missing():
    class Empty(Gate):
        pass

    with pytest.raises(NotImplementedError, match="Empty must implement `route"):
        Empty(3)(ops.ones((2, 4)))


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
@pytest.mark.parametrize("gate", [SoftmaxGate, TopKGate, DSelectKGate, COMETGate])
def test_a_wrong_number_of_experts_is_refused(gate, n):
    with pytest.raises(ValueError, match="`num_experts`"):
        gate(n)
