import numpy as np
import pytest

import comet_keras
from comet_keras.models import GATES, make_gate, make_permutation, wants_permutation

CLASSES = {
    "softmax": comet_keras.SoftmaxGate,
    "topk": comet_keras.TopKGate,
    "hash": comet_keras.HashGate,
    "dselect_k": comet_keras.DSelectKGate,
    "comet": comet_keras.COMETGate,
}


@pytest.mark.parametrize("spec", GATES)
def test_every_string_makes_its_gate(spec):
    gate = make_gate(spec, 8, k=3, gamma=0.5, entropy_weight=0.2, num_ids=5, name="router")
    assert type(gate) is CLASSES[spec.removesuffix("+")]
    assert (gate.num_experts, gate.name) == (8, "router")
    if "dselect" in spec or "comet" in spec:
        assert (gate.k, gate.gamma, gate.entropy.weight) == (3, 0.5, 0.2)
    permutation = make_permutation(spec, 8, zeta=1e-3)
    assert wants_permutation(spec) == spec.endswith("+") == (permutation is not None)
    if permutation is not None:
        assert (permutation.entropy_weight, permutation.temperature) == (1e-3, (3e-2, 3e-6))


@pytest.mark.parametrize(
    ("start", "temperature", "warm"),
    [("soft", (3e-2, 3e-6), True), ("warm", (1e-3, 1e-7), True), ("cold", (1e-3, 1e-7), False)],
)
def test_starts_of_local_search(start, temperature, warm):
    permutation = make_permutation("topk+", 4, permutation_start=start)
    assert (permutation.temperature, permutation.warm_start) == (temperature, warm)


@pytest.mark.parametrize("gate", ["topk", "topk+"])
def test_wrong_start_lists_the_choices(gate):
    with pytest.raises(ValueError, match="`permutation_start` must be one of 'soft', 'warm', 'cold'.*hot"):
        make_permutation(gate, 4, permutation_start="hot")


def test_ten_strings():
    assert len(set(GATES)) == 10


@pytest.mark.parametrize("spec", ["", "top-k", "comet++", "COMET", None, "+"])
def test_wrong_string_lists_the_choices(spec):
    for function in (wants_permutation, lambda s: make_gate(s, 4), lambda s: make_permutation(s, 4)):
        with pytest.raises(ValueError, match="`gate` must be one of softmax, topk, .*comet\\+.*Received"):
            function(spec)


def test_hash_needs_ids_and_depends_on_the_seed():
    with pytest.raises(ValueError, match="num_ids"):
        make_gate("hash", 4)
    ids = np.arange(50)
    one, same, other = (np.asarray(make_gate("hash", 4, num_ids=50, seed=s)(ids)) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
