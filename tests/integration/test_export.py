"""Models leave TensorFlow: SavedModels served without the package, ONNX and TensorFlow Lite."""

import importlib.util

import numpy as np
import pytest
from helpers import BACKEND, value
from integration.common import EXPERTS, GATES, UNITS, data, fitted, model_of, python, shaken

from comet_keras import DenseExperts, Permutation

pytestmark = pytest.mark.skipif(BACKEND != "tensorflow", reason="exports of TensorFlow")

MODES = ("auto", "sparse", "dense")


def exportable(gate, experts, mode, permuted=True, seed=0):
    """A model with random weights and, if wanted, a hard permutation."""
    model = model_of(GATES[gate](), EXPERTS[experts](), Permutation(4) if permuted else None)
    model.get_layer("moe").dispatch = mode
    return shaken(model, seed)


def wide(mode):
    """A model in which `auto` is sparse for many rows and dense for few."""
    model = model_of(GATES["topk"](), DenseExperts(4, (256, 256, UNITS), activation="relu"))
    model.get_layer("moe").dispatch = mode
    return model


SERVE = """
import json, sys
from pathlib import Path
import numpy as np, tensorflow as tf

folder = Path(sys.argv[1])
inputs = dict(np.load(folder / "inputs.npz"))
for path in sorted(folder.glob("served_*")):
    served = tf.saved_model.load(str(path))
    for rows in (1, 3, len(inputs["x"])):
        outputs = served.serve({key: tf.constant(v[:rows]) for key, v in inputs.items()})
        np.savez(folder / f"{path.name}.{rows}.npz", *tf.nest.flatten(outputs))
print(json.dumps("comet_keras" in sys.modules))
"""


@pytest.mark.slow
def test_saved_models_serve_any_number_of_rows_without_the_package(tmp_path):
    x, _ = data()
    np.savez(tmp_path / "inputs.npz", **x)
    models = {
        "comet_auto": exportable("comet", "stacked", "auto", permuted=False),
        "hash_sparse": exportable("hash", "stacked", "sparse"),
        "listed_sparse": exportable("topk", "mixed", "sparse"),
        "wide_auto": wide("auto"),
    }
    for name in ("comet_auto", "wide_auto"):
        fitted(models[name])
    expected = {}
    for name, model in models.items():
        expected[name] = model.predict(x, verbose=0)
        model.export(tmp_path / f"served_{name}", verbose=False)
    assert python(SERVE, tmp_path) is False
    for name, outputs in expected.items():
        for rows in (1, 3, len(outputs)):
            found = np.load(tmp_path / f"served_{name}.{rows}.npz")["arr_0"]
            np.testing.assert_allclose(
                found, outputs[:rows], rtol=1e-5, atol=1e-5, err_msg=f"{name}, {rows} rows"
            )


def test_a_noisy_gate_is_served_without_its_noise_and_training_goes_on(tmp_path):
    import tensorflow as tf

    model, (x, y) = exportable("noisy_topk", "stacked", "sparse", permuted=False), data()
    fitted(model)  # 4 steps
    before = [value(weight).copy() for weight in model.weights]
    model.export(tmp_path / "served", verbose=False)
    for weight, kept in zip(model.weights, before):
        np.testing.assert_array_equal(value(weight), kept)
    served = tf.saved_model.load(str(tmp_path / "served"))
    tensors = {key: tf.constant(v) for key, v in x.items()}
    first, second = (value(served.serve(tensors)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, model.predict(x, verbose=0), rtol=1e-5, atol=1e-6)
    model.fit(x, y, batch_size=8, verbose=0)
    assert int(value(model.get_layer("moe").gates.step)) == 8


# ONNX

needs_tf2onnx = pytest.mark.skipif(
    importlib.util.find_spec("tf2onnx") is None, reason="tf2onnx is not installed"
)


def assert_onnx_agrees(tmp_path, model):
    runtime = pytest.importorskip("onnxruntime")
    x, _ = data()
    expected = model.predict(x, verbose=0)  # before the export: Keras wants a model that was called
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for rows in (len(expected), 1):
        feed = {i.name: x["id" if "id" in i.name else "x"][:rows] for i in session.get_inputs()}
        (found,) = session.run(None, feed)
        np.testing.assert_allclose(found, expected[:rows], rtol=1e-4, atol=1e-5)


@needs_tf2onnx
@pytest.mark.parametrize("gate", ["softmax", "noisy_topk", "dselect_k", "comet", "hash"])
def test_onnx_gives_the_same_values_for_every_gate(tmp_path, gate):
    assert_onnx_agrees(tmp_path, exportable(gate, "stacked", "auto"))


@needs_tf2onnx
@pytest.mark.parametrize(
    ("experts", "mode"),
    [("stacked", "sparse"), ("stacked", "dense"), ("MLP", "auto"), ("MLP", "sparse"), ("MLP", "dense")],
)
def test_onnx_gives_the_same_values_in_every_mode(tmp_path, experts, mode):
    assert_onnx_agrees(tmp_path, exportable("topk", experts, mode))


@needs_tf2onnx
def test_onnx_keeps_both_branches_of_auto(tmp_path):
    assert_onnx_agrees(tmp_path, wide("auto"))


# TensorFlow Lite


@pytest.mark.parametrize("gate", ["topk", "hash", "comet"])
def test_tflite_takes_dense_dispatch(tmp_path, gate):
    """Set before the export, also on a mixture that ran in another mode."""
    import tensorflow as tf

    model, (x, _) = exportable(gate, "stacked", "auto"), data(1)
    expected = model.predict(x, verbose=0)
    model.get_layer("moe").dispatch = "dense"
    model.export(tmp_path / "served", verbose=False)
    lite = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "served")).convert()
    run = tf.lite.Interpreter(model_content=lite).get_signature_runner("serving_default")
    feed = {name: x["id" if "id" in name else "x"] for name in run.get_input_details()}
    (found,) = run(**feed).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
