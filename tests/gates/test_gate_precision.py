"""Half precision policies: routing in float32, finite losses and gradients."""

import keras
import numpy as np
import pytest
from helpers import gradient, value, with_value
from keras import ops

from comet_keras import (
    COMETGate,
    DenseExperts,
    DSelectKGate,
    HashGate,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
)
from comet_keras.regularizers import Importance, Load, LoadBalance, RouterZ

pytestmark = pytest.mark.filterwarnings("ignore:Permutation .* is trained without a first stage")
POLICIES = {
    "float16": "float16",
    "bfloat16": "bfloat16",
    "mixed_float16": "float16",
    "mixed_bfloat16": "bfloat16",
}
each_policy = pytest.mark.parametrize("policy", POLICIES)
GATES = {
    "softmax": lambda dtype: SoftmaxGate(4, dtype=dtype, regularizers=[Importance(0.1), RouterZ(0.1)]),
    "topk": lambda dtype: TopKGate(
        4, k=2, noisy=True, dtype=dtype, regularizers=[Load(0.1), LoadBalance(0.1)]
    ),
    "dselect_k": lambda dtype: DSelectKGate(4, entropy_weight=0.1, gamma=0.01, dtype=dtype),
    "comet": lambda dtype: COMETGate(4, entropy_weight=0.1, gamma=0.01, dtype=dtype),
}


def dtype_of(tensor):
    return keras.backend.standardize_dtype(tensor.dtype)


@each_policy
@pytest.mark.parametrize("kind", GATES)
def test_routes_in_float32_and_casts_the_weights_at_the_end(kind, policy):
    x = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    gate, exact = GATES[kind](policy), GATES[kind]("float32")
    for layer in (gate, exact):
        layer.build(x.shape)
    exact.set_weights(gate.get_weights())
    assert {v.dtype for v in gate.trainable_variables} == {"float32"}
    weights = gate(x)
    assert dtype_of(weights) == POLICIES[policy]
    expected = ops.cast(exact(x), POLICIES[policy])
    np.testing.assert_array_equal(
        value(ops.cast(weights, "float32")), value(ops.cast(expected, "float32"))
    )
    routing = gate.route(gate.prepare(x), training=True)
    assert {dtype_of(tensor) for tensor in routing.values()} == {"float32"}


@each_policy
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("batch", [1, 5])
def test_loss_and_gradients_are_finite_at_exact_zeros_and_ones(kind, policy, batch):
    # Inputs far beyond the soft range make every tree and selector one-hot.
    x = ops.convert_to_tensor(1e4 * np.random.default_rng(0).normal(size=(batch, 3)), "float32")
    gate = GATES[kind](policy)
    weights = gate(x, training=True)
    if kind in ("comet", "dselect_k"):
        assert value(ops.cast(weights == 0, "float32")).sum() >= 2 * batch
    for loss in gate.losses:
        assert dtype_of(loss) == "float32" and np.isfinite(value(loss))

    def total():
        routing = gate.route(gate.prepare(x), training=False)
        terms = [term(routing[term.reads]) for term in gate.all_regularizers() if term.reads in routing]
        return sum(terms, ops.sum(ops.square(routing["weights"])))

    for variable in (gate.trainable_variables[0], gate.trainable_variables[-1]):
        found = gradient(with_value(variable, total), value(variable), "float32")
        assert np.isfinite(found).all()


@each_policy
def test_hash_gates_are_exact(policy):
    gate = HashGate(3, num_ids=3000, dtype=policy)
    ids = ops.convert_to_tensor([[2999], [2998], [2997]], "int32")
    weights = gate(ids)
    assert dtype_of(weights) == POLICIES[policy]
    table = value(gate.table)
    assert value(ops.cast(weights, "float32")).argmax(-1).tolist() == table[[2999, 2998, 2997]].tolist()
    # Ids beyond what half precision can count come through unharmed as floats too.
    again = gate(ops.convert_to_tensor([[2999.0], [2998.0], [2997.0]], "float32"))
    np.testing.assert_array_equal(value(ops.cast(again, "float32")), value(ops.cast(weights, "float32")))


@each_policy
def test_a_mixture_of_all_gates_trains_to_finite_weights(policy):
    rng = np.random.default_rng(0)
    inputs = keras.Input((3,))
    layer = MixtureOfExperts(
        DenseExperts(4, 2, dtype=policy),
        {kind: GATES[kind](policy) for kind in GATES},
        Permutation(4, dtype=policy),
        dtype=policy,
    )
    outputs = keras.layers.Add(dtype="float32")(list(layer(inputs).values()))
    model = keras.Model(inputs, keras.layers.Dense(1, dtype="float32")(outputs))
    model.compile("adam", "mse")
    loss = model.train_on_batch(rng.normal(size=(1, 3)), rng.normal(size=(1, 1)))
    assert np.isfinite(loss)
    assert all(np.isfinite(value(ops.cast(v, "float32"))).all() for v in model.trainable_variables)


def test_float64_policies_route_in_float64():
    from helpers import double_precision

    with double_precision():
        for kind in GATES:
            gate = GATES[kind]("float64")
            weights = gate(ops.convert_to_tensor(np.ones((2, 3)), "float64"), training=True)
            assert dtype_of(weights) == "float64"
            assert {v.dtype for v in gate.trainable_variables} == {"float64"}
            assert np.isfinite([float(value(loss)) for loss in gate.losses]).all()
