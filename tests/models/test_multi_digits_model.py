import keras
import numpy as np
import pytest

from comet_keras import models

IMAGES = {"image": np.random.default_rng(0).random((5, 12, 12, 1), "float32")}


def values(tensors):
    return {task: keras.ops.convert_to_numpy(tensor) for task, tensor in tensors.items()}


@pytest.mark.parametrize("gate", [gate for gate in models.GATES if "hash" not in gate])
def test_outputs_of_every_gate(gate):
    model = models.multi_digits(gate=gate, num_experts=5, k=2, expert_units=8)
    prediction = values(model(IMAGES))
    for task in ("top_left", "bottom_right"):
        assert prediction[task].shape == (5, 10)
        np.testing.assert_allclose(prediction[task].sum(axis=-1), 1, rtol=1e-5)
    assert (model.get_layer("mixture").permutation is not None) == gate.endswith("+")


@pytest.mark.parametrize("gate", ["hash", "hash+"])
def test_hash_is_refused(gate):
    with pytest.raises(ValueError, match="no ids"):
        models.multi_digits(gate=gate)


def test_gates_read_the_flat_image():
    model = models.multi_digits(image_shape=(4, 5, 3), gate="softmax", num_classes={"a": 2, "b": 3})
    assert tuple(model.get_layer("mixture").gates["a"].kernel.shape) == (60, 8)
    assert {task: tensor.shape[-1] for task, tensor in model.output.items()} == {"a": 2, "b": 3}


def test_saved_and_loaded_model_predicts_the_same(tmp_path):
    model = models.multi_digits(gate="comet+")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected, found = values(model(IMAGES)), values(loaded(IMAGES))
    for task, value in expected.items():
        np.testing.assert_allclose(found[task], value, rtol=1e-6)
