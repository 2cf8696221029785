"""Models come back from disk, from JSON, from pickle and from a clone as they were."""

import copy
import json
import pickle
import warnings

import keras
import numpy as np
import pytest
from helpers import value
from integration.common import (
    EXPERTS,
    GATES,
    data,
    fitted,
    flat,
    model_of,
    python,
    shaken,
)

from comet_keras import (
    COMETGate,
    DenseExperts,
    HardenPermutation,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
    WeightedSum,
)


def in_parts():
    """Gate, permutation, experts and sum as layers of their own, with a mixture in a nested model."""
    inputs = {"x": keras.Input((6,), name="x"), "id": keras.Input((1,), dtype="int32", name="id")}
    inner_inputs = keras.Input((6,))
    inner = MixtureOfExperts(DenseExperts(3, 6), [TopKGate(3), SoftmaxGate(3)])(inner_inputs)
    x = keras.Model(inner_inputs, inner[0] + inner[1], name="inner")(inputs["x"])
    weights = Permutation(5)(COMETGate(5)(x))
    outputs = [keras.layers.Dense(3)(x) for _ in range(5)]
    return keras.Model(inputs, WeightedSum()(outputs, weights))


def details():
    x = keras.Input((6,), name="x")
    ids = keras.Input((1,), dtype="int32", name="id")
    mixture = MixtureOfExperts(DenseExperts(4, 3), {"a": TopKGate(4), "b": GATES["hash"]()})
    outputs = mixture(x, gate_inputs={"a": x, "b": ids}, return_details=True)
    return keras.Model({"x": x, "id": ids}, outputs)


MODELS = {
    **{f"gate {name}": lambda make=make: model_of(make()) for name, make in GATES.items()},
    **{
        f"experts {name}": lambda make=make: model_of(GATES["comet"](), make(), Permutation(4))
        for name, make in EXPERTS.items()
    },
    "list of gates": lambda: model_of([GATES["topk"](), GATES["comet"]()]),
    "nested gates, a permutation each": lambda: model_of(
        {"a": [SoftmaxGate(4), TopKGate(4)], "b": (COMETGate(4),)},
        permutation={"a": [Permutation(4), Permutation(4)], "b": (Permutation(4),)},
    ),
    "in parts": in_parts,
    "details": details,
}

LOAD = """
import json, sys
from pathlib import Path
import keras, numpy as np
import comet_keras

folder = Path(sys.argv[1])
inputs = dict(np.load(folder / "inputs.npz"))
problems = {}
for path in sorted(folder.glob("*.keras")):
    try:
        model = keras.models.load_model(path, safe_mode=True)
        outputs = keras.tree.flatten(model.predict(inputs, verbose=0))
        np.savez(path.with_suffix(".found.npz"), *outputs)
    except Exception as error:
        problems[path.stem] = repr(error)[-600:]
print(json.dumps(problems))
"""


@pytest.mark.slow
def test_a_fresh_process_loads_every_model_and_predicts_the_same_bits(tmp_path):
    x, _ = data()
    np.savez(tmp_path / "inputs.npz", **x)
    expected = {}
    for i, (name, make) in enumerate(MODELS.items()):
        model = shaken(make(), seed=i)
        model.save(tmp_path / f"{i:02d}.keras")
        expected[name] = flat(model.predict(x, verbose=0))
    assert python(LOAD, tmp_path) == {}
    for i, (name, outputs) in enumerate(expected.items()):
        found = np.load(tmp_path / f"{i:02d}.found.npz")
        assert len(found.files) == len(outputs)
        for key, output in zip(found.files, outputs):
            np.testing.assert_array_equal(found[key], output, err_msg=name)


COPIES = {
    "clone_model": lambda model: keras.models.clone_model(model),
    "to_json": lambda model: keras.models.model_from_json(model.to_json()),
    "from_config": lambda model: type(model).from_config(model.get_config()),
}


@pytest.mark.parametrize("name", MODELS)
class TestCopies:
    @pytest.mark.parametrize("how", COPIES)
    def test_of_the_structure_take_the_weights_and_share_none(self, name, how):
        model, (x, _) = shaken(MODELS[name]()), data()
        copied = COPIES[how](model)
        assert not {id(w) for w in copied.weights} & {id(w) for w in model.weights}
        copied.set_weights(model.get_weights())
        for found, expected in zip(flat(copied(x)), flat(model(x))):
            np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("how", ["pickle", "deepcopy"])
    def test_of_the_whole_are_equal_and_apart(self, name, how):
        model, (x, _) = shaken(MODELS[name]()), data()
        expected = flat(model(x))
        copied = copy.deepcopy(model) if how == "deepcopy" else pickle.loads(pickle.dumps(model))
        shaken(model, seed=9)
        for found, before in zip(flat(copied(x)), expected):
            np.testing.assert_array_equal(found, before)


@pytest.mark.parametrize("name", MODELS)
def test_the_config_is_plain_json(name):
    config = MODELS[name]().get_config()
    assert json.loads(json.dumps(config)).keys() == config.keys()


def test_weights_are_loaded_before_any_call_without_a_warning(tmp_path):
    model, (x, _) = shaken(MODELS["experts mixed"]()), data()
    model.save_weights(tmp_path / "w.weights.h5")
    other = MODELS["experts mixed"]()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        other.load_weights(tmp_path / "w.weights.h5")
    np.testing.assert_array_equal(value(other(x)), value(model(x)))


def test_a_layer_built_alone_takes_saved_weights(tmp_path):
    def layer():
        return MixtureOfExperts(EXPERTS["MLP"](), {"a": TopKGate(4)}, Permutation(4))

    first, second = layer(), layer()
    x = data()[0]["x"]
    first.build(x.shape)
    second.build(x.shape)
    second.set_weights(first.get_weights())
    np.testing.assert_array_equal(value(second(x)["a"]), value(first(x)["a"]))
    built = len(second.weights)
    assert len(layer().from_config(first.get_config()).weights) in (0, built)


def test_training_goes_on_after_loading_as_if_nothing_had_happened(tmp_path):
    keras.utils.set_random_seed(0)
    model = model_of({"a": GATES["comet"](), "b": GATES["topk"]()}, permutation=Permutation(4))
    x, y = data()
    labels = {"a": y, "b": y}
    model.compile("adam", {"a": "mse", "b": "mse"})
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    model.fit(x, labels, epochs=2, callbacks=[HardenPermutation(epochs=1, verbose=0)], **options)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert bool(value(loaded.get_layer("moe").permutation.hardened))
    np.testing.assert_allclose(
        loaded.evaluate(x, labels, verbose=0), model.evaluate(x, labels, verbose=0), rtol=1e-6
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*first stage.*")
        for each in (model, loaded):
            each.fit(x, labels, epochs=1, **options)
    for a, b in zip(loaded.weights, model.weights):
        np.testing.assert_allclose(value(a), value(b), rtol=1e-5, atol=1e-6, err_msg=b.path)


@pytest.mark.parametrize("with_target", [True, False])
def test_models_whose_loss_comes_from_gates_reload_with_equal_losses(tmp_path, with_target):
    model = model_of(GATES["comet"]())
    model.compile("sgd", "mse" if with_target else None)
    x, y = data()
    model.fit(x, y if with_target else None, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each(x, training=True)
        each.reset_metrics()  # the loss is a mean since the last reset
    assert len(loaded.losses) == len(model.losses) == 1
    np.testing.assert_allclose(value(loaded.losses[0]), value(model.losses[0]), rtol=1e-6)
    np.testing.assert_allclose(
        loaded.train_on_batch(x, y if with_target else None),
        model.train_on_batch(x, y if with_target else None),
        rtol=1e-5,
    )


class TestInitializers:
    """One initializer object handed to everything gives every part values of its own."""

    def model(self, initializer):
        experts = DenseExperts(4, (6, 3), kernel_initializer=initializer)
        gates = [
            SoftmaxGate(4, kernel_initializer=initializer),
            TopKGate(4, kernel_initializer=initializer),
        ]
        return model_of(gates, experts)

    def kernels(self, model):
        moe = model.get_layer("moe")
        first, second = (value(kernel) for kernel in moe.experts.kernels)
        return [*first, *second, *(value(gate.kernel) for gate in moe.gates)]

    def test_unseeded(self):
        kernels = self.kernels(self.model(keras.initializers.GlorotUniform()))
        for i, a in enumerate(kernels):
            for b in kernels[:i]:
                assert a.shape != b.shape or np.abs(a - b).max() > 1e-3

    def test_seeded_is_reproducible_and_experts_differ(self):
        first, second = (
            self.kernels(self.model(keras.initializers.GlorotUniform(seed=1))) for _ in range(2)
        )
        for a, b in zip(first, second):
            np.testing.assert_array_equal(a, b)
        for i in range(4):
            for j in range(i):
                assert np.abs(first[i] - first[j]).max() > 1e-3


def test_fitting_after_a_clone_leaves_the_original_alone():
    model = model_of(GATES["topk"](), EXPERTS["dense"](), Permutation(4))
    copied = keras.models.clone_model(model)
    before = [value(w).copy() for w in model.weights]
    fitted(copied, 1, [HardenPermutation(epochs=1, verbose=0)])
    for weight, kept in zip(model.weights, before):
        np.testing.assert_array_equal(value(weight), kept)
