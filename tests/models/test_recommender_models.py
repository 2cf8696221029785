"""Books and Jester; their shape is that of MovieLens, which test_movielens_model.py looks at closer."""

import keras
import numpy as np
import pytest

from comet_keras import models
from comet_keras.reports import flops

SMALL = {"num_experts": 4, "embedding_size": 8, "expert_units": 6, "head_units": 5}
SETS = {"books": (models.books, "book", "read"), "jester": (models.jester, "joke", "rate")}


@pytest.mark.parametrize("gate", ["hash", "dselect_k", "comet+"])
@pytest.mark.parametrize("name", SETS)
def test_inputs_and_outputs(name, gate):
    make, item, task = SETS[name]
    model = make(12, 7, gate=gate, **SMALL)
    prediction = model({"user": np.arange(12), item: np.arange(12) % 7})
    assert {key: tuple(value.shape) for key, value in prediction.items()} == {task: (12, 1), "rating": (12, 1)}
    watched = keras.ops.convert_to_numpy(prediction[task])
    assert ((watched > 0) & (watched < 1)).all()
    assert (model.get_layer("mixture").permutation is not None) == gate.endswith("+")
    assert model.name == name


@pytest.mark.parametrize(
    "name, users, items, n, k, gamma",
    [("books", 18_960, 31_070, 9, 4, 0.5), ("jester", 73_421, 100, 16, 2, 0.01)],
)
def test_the_paper_s_sizes_are_the_defaults(name, users, items, n, k, gamma):
    make, item, task = SETS[name]
    model = make(gate="comet")
    shapes = {v.path: tuple(v.shape) for v in model.trainable_variables}
    assert shapes["user_embedding/embeddings"] == (users, 64)
    assert shapes[f"{item}_embedding/embeddings"] == (items, 64)
    assert shapes["mixture/experts/kernel_0"] == (n, 128, 128)
    assert shapes[f"{task}_hidden/kernel"] == shapes["rating_hidden/kernel"] == (128, 256)
    mixture = model.get_layer("mixture")
    assert mixture.experts.dropout == 0.5
    assert all((gate.k, gate.gamma) == (k, gamma) for gate in mixture.gates.values())
    # All parameters, by hand: embeddings, experts, two heads; two gates of k trees with n - 1 splits and
    # n leaf weights each.
    gates = 2 * k * (2 * n - 1) * (128 + 1)
    heads = 2 * (128 * 256 + 256 + 256 + 1)
    expected = 64 * (users + items) + n * (128 * 128 + 128) + heads + gates
    assert sum(np.prod(shape) for shape in shapes.values()) == expected


def test_hash_gates_read_the_user():
    model = models.jester(30, 7, gate="hash", seed=2, **SMALL)
    mixture = model.get_layer("mixture")
    assert mixture.gates["rate"].num_ids == 30


def test_table_6_of_the_paper_for_books():
    # It fits experts of 256 units, where S1.2 has 128. 402K is its figure for Top-k; the one for Softmax,
    # 1195K, takes 16 experts for 9 gate outputs. With 9 experts, by the same rule: 9 experts of
    # 2*128*256+256+256, two gates of 2*128*9+9, a head of 2*256*256+256+256 and 2*256+1, and 1024.
    data = {"user": np.arange(8), "book": np.arange(8)}
    sizes = {"num_users": 8, "num_books": 8, "expert_units": 256}
    top_k = flops(models.books(gate="topk", **sizes), data, paper_table6=True)
    assert round(sum(top_k.parts.values()) / 1000) == 402
    softmax = flops(models.books(gate="softmax", **sizes), data, paper_table6=True)
    assert sum(softmax.parts.values()) == 9 * 66_048 + 2 * 2_313 + 131_584 + 513 + 1_024
