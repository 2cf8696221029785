"""Every precision policy and every way to compile trains alike."""

import keras
import numpy as np
import pytest
from helpers import BACKEND, double_precision, value
from integration.common import EXPERTS, GATES, UNITS, data, model_of

from comet_keras import (
    DenseExperts,
    HardenPermutation,
    MixtureOfExperts,
    Permutation,
    RoutingMonitor,
    SoftmaxGate,
)

POLICIES = ["mixed_float16", "mixed_bfloat16", "float64", "bfloat16"]


@pytest.fixture
def policy(request):
    with double_precision():
        keras.config.set_dtype_policy(request.param)
        yield request.param
        keras.config.set_dtype_policy("float32")


# A batch of one is where policies failed elsewhere.
@pytest.mark.parametrize(
    "policy, batch", [*((policy, 1) for policy in POLICIES), ("bfloat16", 8), ("float64", 8)], indirect=["policy"]
)
def test_a_step_is_finite_in_every_policy(policy, batch):
    gates = {name: GATES[name]() for name in ("softmax", "noisy_topk", "dselect_k", "comet")}
    model = model_of(gates, EXPERTS["stacked"](), Permutation(4))
    model.compile("adam", {name: "mse" for name in gates})
    x, y = data(batch)
    labels = dict.fromkeys(gates, y)
    history = model.fit(
        x,
        labels,
        batch_size=batch,
        epochs=2,
        verbose=0,
        callbacks=[HardenPermutation(epochs=1, verbose=0), RoutingMonitor(warn=False)],
    ).history
    assert np.isfinite(history["loss"]).all()
    moe = model.get_layer("moe")
    for weight in model.trainable_weights:
        assert np.isfinite(value(weight).astype("float64")).all(), weight.path
    for output in keras.tree.flatten(model.output):
        assert output.dtype == moe.compute_dtype
    router = "float64" if policy == "float64" else "float32"
    assert all(w.dtype == router for gate in moe.gate_layers for w in gate.trainable_weights)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"], indirect=True)
def test_saturated_gates_stay_finite_at_low_precision(policy):
    model = model_of(GATES["comet"]())
    model.compile("sgd", "mse")
    x, y = data(8)
    x["x"] *= 1e4  # splits far outside of the smooth step: weights of exactly 0 and 1
    weights = value(model.get_layer("moe").gates(x["x"])).astype("float32")
    assert (weights == 0).any() and np.isfinite(weights).all()
    y = np.zeros((8, UNITS))
    assert np.isfinite(model.train_on_batch(x, y))
    assert all(np.isfinite(value(w).astype("float64")).all() for w in model.get_layer("moe").gates.weights)


def test_a_mixture_may_have_a_policy_of_its_own():
    mixture = MixtureOfExperts(
        DenseExperts(4, 3, dtype="mixed_bfloat16"), SoftmaxGate(4), dtype="mixed_bfloat16"
    )
    x = data()[0]["x"]
    assert keras.backend.standardize_dtype(mixture(x).dtype) == "bfloat16"
    plain = MixtureOfExperts(DenseExperts(4, 3), SoftmaxGate(4))
    plain.build(x.shape)
    plain.set_weights(mixture.get_weights())
    np.testing.assert_allclose(
        value(mixture(x)).astype("float32"), value(plain(x)), rtol=0.05, atol=0.05
    )


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["topk", "comet", "dselect_k", "hash"])
def test_compiled_and_eager_training_agree(gate):
    """Four steps with a short last batch and the change of stage between them."""
    ways = {
        "jit": {"jit_compile": True},
        "graph": {"jit_compile": False},
        "eager": {"run_eagerly": True},
    }
    if BACKEND == "torch":
        del ways["jit"]  # torch.compile takes minutes on this model
    results = {}
    for way, options in ways.items():
        keras.utils.set_random_seed(0)
        model = model_of(GATES[gate](), permutation=Permutation(4, temperature=(0.1, 0.05)))
        model.compile("sgd", "mse", **options)
        x, y = data(27)
        history = model.fit(
            x,
            y,
            batch_size=16,
            epochs=2,
            shuffle=False,
            verbose=0,
            callbacks=[HardenPermutation(epochs=1, verbose=0)],
        ).history
        results[way] = [history["loss"], *(value(w) for w in model.weights)]
    for way, found in results.items():
        for a, b in zip(found, results["eager"]):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=way)
