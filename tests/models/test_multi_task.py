import subprocess
import sys

import keras
import numpy as np
import pytest

from comet_keras.datasets import mask_missing_labels
from comet_keras.models import MultiTaskModel

INPUTS = {"user": ("ids", 12), "age": "numeric", "visits": ("numeric", 3), "photo": ("image", (8, 9, 3))}
TASKS = {"click": "binary", "stars": "regression", "genre": ("multiclass", 4)}
SMALL = {"num_experts": 4, "embedding_size": 4, "expert_units": 8, "head_units": 6}


def rows(count=96):
    rng = np.random.default_rng(0)
    features = {
        "user": rng.integers(12, size=count),
        "age": rng.uniform(18, 80, count),
        "visits": rng.normal(size=(count, 3)),
        "photo": rng.random((count, 8, 9, 3), "float32"),
    }
    young = features["age"] < 50
    labels = {
        "click": young.astype(float),
        "stars": features["user"] / 4 + young,
        "genre": features["user"] % 4 * 1.0,
    }
    labels["genre"][::3] = np.nan
    return features, labels


def values(tensors):
    return {name: keras.ops.convert_to_numpy(tensor) for name, tensor in tensors.items()}


@pytest.fixture(scope="module")
def trained():
    keras.utils.set_random_seed(0)
    features, labels = rows()
    targets, weights = mask_missing_labels(labels, classes=["genre"])
    model = MultiTaskModel(INPUTS, TASKS, gate="topk", scale_by=features, learning_rate=1e-2, **SMALL)
    history = model.fit(features, targets, sample_weight=weights, epochs=40, batch_size=32, verbose=0)
    return model, history.history


def test_learns_from_plain_arrays(trained):
    _, history = trained
    assert history["loss"][-1] < 0.3 * history["loss"][0]
    assert {"click_auc", "stars_mse", "genre_accuracy"} <= set(history)
    assert history["click_auc"][-1] > 0.9 and history["genre_accuracy"][-1] > 0.5


def test_outputs(trained):
    model, _ = trained
    features, _ = rows(5)
    prediction = values(model(features))
    assert {task: value.shape for task, value in prediction.items()} == {
        "click": (5, 1),
        "stars": (5, 1),
        "genre": (5, 4),
    }
    assert ((prediction["click"] > 0) & (prediction["click"] < 1)).all()
    np.testing.assert_allclose(prediction["genre"].sum(axis=1), 1, rtol=1e-5)


def test_local_search_is_the_default():
    mixture = MultiTaskModel({"age": "numeric"}, TASKS, **SMALL).get_layer("mixture")
    assert mixture.permutation.num_experts == 4
    assert {task: type(gate).__name__ for task, gate in mixture.gates.items()} == dict.fromkeys(TASKS, "COMETGate")


def test_numbers_are_scaled(trained):
    model, _ = trained
    features, _ = rows()
    for name in ("age", "visits"):
        column = features[name].reshape(len(features[name]), -1)
        expected = (column - column.mean(axis=0)) / column.std(axis=0)
        found = keras.ops.convert_to_numpy(model.get_layer(f"{name}_scaled")(column))
        np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.slow
def test_clones_and_loads_in_a_fresh_process(trained, tmp_path):
    model, _ = trained
    features, _ = rows(6)
    expected = values(model(features))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for task, value in values(clone(features)).items():
        np.testing.assert_allclose(value, expected[task], rtol=1e-5)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "features.npz", **features)
    script = (
        "import sys, keras, numpy as np, comet_keras\n"
        "model = keras.saving.load_model(sys.argv[1] + '/model.keras')\n"
        "outputs = model.predict(dict(np.load(sys.argv[1] + '/features.npz')), verbose=0)\n"
        "np.savez(sys.argv[1] + '/outputs.npz', **outputs)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True)
    for task, value in np.load(tmp_path / "outputs.npz").items():
        np.testing.assert_allclose(value, expected[task], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gate", ["hash+", "softmax", "dselect_k"])
def test_one_input_and_one_task(gate):
    model = MultiTaskModel({"word": ("ids", 9)}, {"noun": "binary"}, gate=gate, **SMALL)
    assert model.predict({"word": np.arange(9)}, verbose=0)["noun"].shape == (9, 1)


def test_hash_gates_read_the_first_ids():
    inputs = {"age": "numeric", "user": ("ids", 12), "word": ("ids", 30)}
    mixture = MultiTaskModel(inputs, {"click": "binary"}, gate="hash", **SMALL).get_layer("mixture")
    assert mixture.gate_layers[0].num_ids == 12


def test_constant_and_missing_numbers_scale_without_nan():
    model = MultiTaskModel({"a": ("numeric", 2)}, {"y": "regression"}, scale_by={"a": [[1, np.nan], [1, 4]]}, **SMALL)
    found = keras.ops.convert_to_numpy(model.get_layer("a_scaled")(np.array([[2.0, 4.0]])))
    np.testing.assert_allclose(found, [[1, 0]], atol=1e-6)


@pytest.mark.parametrize(
    "spec", ["number", "ids", "image", ("ids", 0), ("ids", 2.5), ("numeric", -1), ("image", (8, 8)), ("text", 5), None, 7]
)
def test_wrong_inputs(spec):
    with pytest.raises(ValueError, match=r"inputs\['x'\]"):
        MultiTaskModel({"x": spec}, {"y": "binary"})


@pytest.mark.parametrize("spec", ["multiclass", ("multiclass", 1), ("multiclass", "a"), "classification", None, 3])
def test_wrong_tasks(spec):
    with pytest.raises(ValueError, match=r"tasks\['y'\]"):
        MultiTaskModel({"x": "numeric"}, {"y": spec})


@pytest.mark.parametrize(
    "arguments, match",
    [
        ({"inputs": {}}, "`inputs` must be a dict from at least one name"),
        ({"tasks": ["click"]}, "`tasks` must be a dict"),
        ({"tasks": {"x": "binary"}}, r"there twice: \['x'\]"),
        ({"tasks": {"mixture": "binary"}}, "mixture"),
        ({"tasks": {"y": "binary", "y_hidden": "binary"}}, "y_hidden"),
        ({"gate": "hash"}, "`inputs` has no ids"),
        ({"gate": "top"}, "`gate` must be one of"),
        ({"scale_by": {"z": [1.0]}}, "`scale_by` must hold inputs"),
        ({"scale_by": {"x": [np.nan, np.nan]}}, r"scale_by\['x'\] must hold finite numbers"),
        ({"scale_by": {"x": [1.0, np.inf]}}, r"scale_by\['x'\] must hold finite numbers"),
        ({"scale_by": {"x": [[1.0, 2.0]]}}, r"scale_by\['x'\] must have shape \(N, 1\)"),
        ({"task_weights": {"z": 1.0}}, "task_weights"),
    ],
)
def test_wrong_arguments(arguments, match):
    with pytest.raises(ValueError, match=match):
        MultiTaskModel(**{"inputs": {"x": "numeric"}, "tasks": {"y": "binary"}, **arguments})
