import keras
import numpy as np
import pytest

from comet_keras import HardenPermutation, models
from comet_keras.datasets import Dataset, Split
from comet_keras.models.image_mixture import convolutional
from comet_keras.models.settings import SETTINGS
from comet_keras.reports import flops

PAIR = ("top_left", "bottom_right")
# Smallest images, few experts; the gates tried are different ones for each model.
SMALL = {
    "digits": (models.digits, (16, 16, 3), {"digit": 10}, ["comet+", "softmax"]),
    "multi_mnist": (models.multi_mnist, (16, 17, 1), dict.fromkeys(PAIR, 10), ["topk+", "comet"]),
    "multi_fashion_mnist": (models.multi_fashion_mnist, (16, 16, 1), dict.fromkeys(PAIR, 10), ["dselect_k"]),
    "celeb_a": (models.celeb_a, (46, 47, 3), {"Male": 1, "Bald": 1, "Young": 1}, ["comet+"]),
}


def small(name, **options):
    make, shape, outputs, _ = SMALL[name]
    extra = {"attributes": tuple(outputs)} if name == "celeb_a" else {}
    return make(shape, num_experts=3, k=2, **extra, **options)


def values(tensors):
    return {task: keras.ops.convert_to_numpy(tensor) for task, tensor in tensors.items()}


def images(name, rows=3):
    return {"image": np.random.default_rng(0).random((rows, *SMALL[name][1]), "float32")}


@pytest.mark.parametrize("name, gate", [(name, gate) for name, (*_, gates) in SMALL.items() for gate in gates])
def test_outputs(name, gate):
    model = small(name, gate=gate)
    prediction = values(model(images(name)))
    assert {task: value.shape for task, value in prediction.items()} == {
        task: (3, width) for task, width in SMALL[name][2].items()
    }
    for value in prediction.values():
        assert (value > 0).all() and (value < 1).all()
        if value.shape[1] > 1:
            np.testing.assert_allclose(value.sum(axis=-1), 1, rtol=1e-5)
    mixture = model.get_layer("mixture")
    assert (mixture.permutation is not None) == gate.endswith("+")
    assert len(mixture.gate_layers) == len(prediction)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("gate, match", [("hash", "no ids"), ("top", "`gate` must be one of")])
def test_wrong_gates_are_refused(name, gate, match):
    with pytest.raises(ValueError, match=match):
        small(name, gate=gate)


@pytest.mark.parametrize(
    "make, n, expert, gates, heads",
    [
        # Weights and biases by hand, from S1.2. 32 -> 28 -> 14 -> 10 -> 5: 25 * 20 = 500 features.
        (models.digits, 8, 25 * 3 * 10 + 10 + 250 * 20 + 20 + 501 * 50, 1 * 3072, 51 * 50 * 2 + 51 * 10),
        # 36 -> 32 -> 16 -> 12 -> 6: 720 features.
        (models.multi_mnist, 16, 260 + 5020 + 721 * 50 + 51 * 50, 2 * 1296, 2 * (51 * 50 * 2 + 51 * 10)),
        (models.multi_fashion_mnist, 5, 260 + 5020 + 721 * 50 + 51 * 50, 2 * 1296, 2 * (51 * 50 * 2 + 51 * 10)),
        # 128 -> 126 -> 63 -> 61 -> 30 -> 28 -> 14 -> 12 -> 6: 36 features.
        (models.celeb_a, 6, (27 * 4 + 4) + 2 * (36 * 4 + 4) + (36 + 1), 10 * 49_152, 10 * 37),
    ],
)
def test_the_paper_s_sizes_are_the_defaults(make, n, expert, gates, heads):
    model = make(gate="softmax")
    weights = sum(np.prod(v.shape) for v in model.trainable_variables)
    count = len(model.get_layer("mixture").gate_layers)
    assert weights == n * expert + n * (gates + count) + heads
    task = SETTINGS[make.__name__]
    sparse = make().get_layer("mixture")
    assert (task.num_experts, task.k) == (sparse.num_experts, sparse.gate_layers[0].k)


@pytest.mark.parametrize("gate, experts, printed", [("softmax", 5, 10.33e6), ("topk", 2, 4.16e6)])
def test_flops_of_multi_fashion_mnist(gate, experts, printed):
    # Of the architecture as S1.2 has it; the paper's Table 6 (7.5M and 3.0M) fits smaller feature maps.
    # Multiply-adds by hand: 32*32 places of 25*10, 12*12 of 250*20, then 720*50 and 50*50.
    model = models.multi_fashion_mnist(gate=gate)
    rows = {"image": np.random.default_rng(0).random((4, 36, 36, 1), "float32")}
    cost = flops(model, rows)
    expert = 32 * 32 * 250 + 12 * 12 * 5000 + 720 * 50 + 50 * 50
    run = cost.experts_run["mixture"]
    assert cost.parts["experts"] == pytest.approx(run * expert)
    assert cost.parts["gates"] == 2 * 1296 * 5
    heads = 2 * (50 * 50 * 2 + 50 * 10)
    mixing = sum(cost.experts_per_sample.values()) * 50
    assert cost.parts["mixing"] == pytest.approx(mixing) and cost.parts["shared"] == heads
    # FLOPs: two a multiply-add, and one a bias and one a ReLU of every output.
    outputs = 2 * (32 * 32 * 10 + 12 * 12 * 20 + 50 + 50)
    total = experts * (2 * expert + outputs) + 2 * (cost.parts["gates"] + heads) + 2 * 5 + 2 * (4 * 50 + 10)
    assert total == pytest.approx(printed, rel=1e-3)


@pytest.mark.parametrize("name", ["digits", "multi_mnist"])
def test_gates_read_the_raw_pixels(name):
    model = small(name, gate="softmax")
    gate = model.get_layer("mixture").gate_layers[0]
    rng = np.random.default_rng(1)
    kernel, bias = (rng.normal(size=v.shape).astype("float32") for v in (gate.kernel, gate.bias))
    gate.kernel.assign(kernel)
    gate.bias.assign(bias)
    rows = images(name)["image"]
    logits = rows.reshape(len(rows), -1) @ kernel + bias
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    found = keras.ops.convert_to_numpy(gate(rows.reshape(len(rows), -1)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    # And the mixture gives the gate those pixels: the tower is the experts' outputs by these weights.
    mixture = model.get_layer("mixture")
    tower = keras.ops.convert_to_numpy(keras.Model(model.input, keras.tree.flatten(mixture.output)[0])({"image": rows}))
    outputs = np.stack([keras.ops.convert_to_numpy(expert(rows)) for expert in mixture.experts], axis=1)
    np.testing.assert_allclose(tower, np.einsum("bn,bnd->bd", expected, outputs), rtol=1e-3, atol=1e-5)


def test_experts_start_from_values_of_their_own():
    first, second, _ = small("multi_mnist").get_layer("mixture").experts
    assert [layer.name for layer in first.layers] == [layer.name for layer in second.layers]
    for one, other in zip(first.trainable_variables, second.trainable_variables):
        assert "bias" in one.path or (np.asarray(one) != np.asarray(other)).mean() > 0.99


@pytest.mark.parametrize("shape", [(15, 16, 1), (16, 15, 1), (16, 16)])
def test_images_that_are_too_small(shape):
    with pytest.raises(ValueError, match="`image_shape` must be .* 16 x 16 pixels"):
        models.multi_mnist(shape)


def test_the_smallest_images_of_other_stacks():
    assert convolutional((46, 46, 3), (4, 4, 4, 1), 3).output_shape == (None, 1)
    assert convolutional((4, 4, 1), (3, 2), 5, padding="same").output_shape == (None, 2)
    with pytest.raises(ValueError, match="46 x 46"):
        models.celeb_a((45, 46, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "celeb_a"])
def test_trains_saves_and_loads(tmp_path, name):
    model = small(name, gate="comet+")
    outputs = SMALL[name][2]
    kind = "binary" if name == "celeb_a" else "multiclass"
    split = Split(images(name, 8), {task: np.arange(8) % 2 for task in outputs})
    classes = outputs if kind == "multiclass" else {}
    data = Dataset(name, split, split, split, dict.fromkeys(outputs, kind), classes)
    models.compile_for(model, data).run_eagerly = True  # quicker than to compile for two steps
    begin = model.get_weights()
    callbacks = [HardenPermutation(epochs=1)]
    logs = model.fit(data.train.batches(4), verbose=0, shuffle=False, callbacks=callbacks).history
    assert np.isfinite(logs["loss"]).all()
    assert any((old != new).any() for old, new in zip(begin, model.get_weights()) if old.ndim == 4)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected = values(model(split.features))
    for task, value in values(loaded(split.features)).items():
        np.testing.assert_allclose(value, expected[task], rtol=1e-5)
