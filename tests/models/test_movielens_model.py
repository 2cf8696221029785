import keras
import numpy as np
import pytest

from comet_keras import models

SMALL = {"num_users": 30, "num_movies": 20, "num_experts": 4, "embedding_size": 8, "expert_units": 6, "head_units": 5}
ROWS = {"user": np.arange(30), "movie": np.arange(30) % 20}


def values(tensors):
    return {task: keras.ops.convert_to_numpy(tensor) for task, tensor in tensors.items()}


@pytest.mark.parametrize("gate", models.GATES)
def test_outputs_of_every_gate(gate):
    model = models.movielens(gate=gate, **SMALL)
    prediction = values(model(ROWS))
    assert {task: value.shape for task, value in prediction.items()} == {"watch": (30, 1), "rating": (30, 1)}
    assert ((prediction["watch"] > 0) & (prediction["watch"] < 1)).all()
    assert (model.get_layer("mixture").permutation is not None) == gate.endswith("+")


def test_the_paper_s_sizes_are_the_defaults():
    model = models.movielens()
    shapes = {v.path: tuple(v.shape) for v in model.trainable_variables}
    assert shapes["user_embedding/embeddings"] == (6040, 128)
    assert shapes["movie_embedding/embeddings"] == (3952, 128)
    assert shapes["mixture/experts/kernel_0"] == (16, 256, 256)
    assert shapes["watch_hidden/kernel"] == shapes["rating_hidden/kernel"] == (256, 256)
    assert shapes["watch/kernel"] == shapes["rating/kernel"] == (256, 1)
    mixture = model.get_layer("mixture")
    assert mixture.experts.dropout == 0.5
    assert mixture.permutation.entropy_weight == 1e-4
    for gate in mixture.gates.values():
        assert (gate.k, gate.gamma) == (2, 10.0)


def test_hash_gates_read_the_user_only():
    model = models.movielens(gate="hash", seed=3, **SMALL)
    table = np.asarray(model.get_layer("mixture").gates["watch"].table)
    np.testing.assert_array_equal(table, model.get_layer("mixture").gates["rating"].table)
    # Experts that give a constant each: the tower shows which expert a row reached.
    experts = model.get_layer("mixture").experts
    experts.kernels[0].assign(np.zeros(experts.kernels[0].shape))
    experts.biases[0].assign(np.repeat(np.arange(1.0, 5.0)[:, None], 6, axis=1))
    mixture = model.get_layer("mixture")
    towers = dict(zip(mixture.gates, mixture.output))
    tower = keras.Model(model.input, towers)
    for movies in (ROWS["movie"], ROWS["movie"][::-1]):
        reached = values(tower({"user": ROWS["user"], "movie": movies}))
        for task in ("watch", "rating"):
            np.testing.assert_allclose(reached[task][:, 0], table[ROWS["user"]] + 1)


def test_other_gates_read_the_embeddings_of_both():
    model = models.movielens(gate="softmax", **SMALL)
    kernel = model.get_layer("mixture").gates["watch"].kernel
    assert tuple(kernel.shape) == (16, 4)


def test_saved_and_loaded_model_predicts_the_same(tmp_path):
    model = models.movielens(gate="comet+", **SMALL)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    expected, found = values(model(ROWS)), values(loaded(ROWS))
    for task, value in expected.items():
        np.testing.assert_allclose(found[task], value, rtol=1e-6)


def test_layer_names_are_stable():
    names = [[layer.name for layer in models.movielens(**SMALL).layers] for _ in range(2)]
    assert names[0] == names[1]
    assert {"user_embedding", "movie_embedding", "shared", "mixture", "watch", "rating"} <= set(names[0])
