import math

import pytest

from comet_keras.models import GATES
from comet_keras.models.settings import TASKS
from comet_keras.models.training_config import TrainingConfig
from comet_keras.tuning import SPACE_TASKS, Choice, Fixed, LogUniform, space
from comet_keras.tuning.spaces import check_space

# Copied out of section S1.3 of the COMET paper, task by task: learning rates, batch size, gamma, gamma of
# COMET+, entropy, n, k. MultiFashionMNIST's n is 5 in S1.2 and Table 3 (S1.3 says 6); CelebA's n is Table 3's.
PAPER = """
movielens           5e-5 5e-4 512  0.01,0.1,1,5,10        10    0.05,0.1,0.5,1,5,10              16 2
books               5e-5 5e-4 2048 0.1,0.5,1,5,10         0.5   1,5,10,50,100                    9  4
jester              5e-5 5e-4 2048 0.001,0.02,0.1,1,5,10  0.01  0.05,0.1,0.5,1,5,10              16 2
digits              1e-5 5e-4 512  0.001,0.01,0.1,1       0.001 0.001,0.005,0.01,0.05,0.1,0.5    8  2
multi_mnist         1e-4 1e-3 512  0.001,0.01,0.1,1,5,10  0.01  0.0001,0.001,0.01,0.1,1,5,10     16 4
multi_fashion_mnist 1e-4 1e-3 512  0.001,0.01,0.1,1,5     0.01  0.001,0.01,0.1,1,5               5  2
celeb_a             1e-4 1e-3 512  0.001,0.01,0.1,1,5     5     0.001,0.01,0.1,1,5               6  2
"""
ROWS = {line.split()[0]: line.split()[1:] for line in PAPER.strip().splitlines()}


def numbers(text):
    return tuple(float(part) for part in text.split(","))


@pytest.mark.parametrize("task", ROWS)
def test_spaces_are_the_papers(task):
    low, high, batch, gamma, plus_gamma, entropy, experts, k = ROWS[task]
    comet, plus = space(task, "comet"), space(task, "comet+")
    for found in (comet, plus):
        assert found["learning_rate"] == LogUniform(float(low), float(high))
        assert found["entropy_weight"].values == numbers(entropy) and isinstance(found["entropy_weight"], Choice)
        assert found["batch_size"] == Fixed(int(batch))
        assert found["num_experts"] == Fixed(int(experts)) and found["k"] == Fixed(int(k))
    assert comet["gamma"].values == numbers(gamma) and isinstance(comet["gamma"], Choice)
    assert plus["gamma"] == Fixed(float(plus_gamma))
    assert space(task, "dselect_k") == comet
    assert plus["permutation_epochs"] == Choice(range(1, 11)) and plus["zeta"] == Fixed(1e-4)
    assert space(task, "topk+")["permutation_epochs"] == plus["permutation_epochs"]


def test_every_task_of_the_package_has_a_space():
    assert set(TASKS) <= set(SPACE_TASKS) and set(SPACE_TASKS) == {*ROWS, "multi_digits"}


@pytest.mark.parametrize("task", SPACE_TASKS)
@pytest.mark.parametrize("gate", GATES)
def test_a_gate_searches_only_what_it_has(task, gate):
    names = set(space(task, gate))
    smooth = gate.removesuffix("+") in ("comet", "dselect_k")
    assert ({"gamma", "entropy_weight"} <= names) == smooth and ({"gamma", "entropy_weight"} & names == set()) != smooth
    assert ("permutation_epochs" in names) == gate.endswith("+") == ("zeta" in names)
    assert ("k" in names) == (gate.removesuffix("+") not in ("softmax", "hash"))


@pytest.mark.parametrize("task", TASKS)
def test_spaces_agree_with_the_trainings_own_settings(task):
    gate = "comet+"
    config = TrainingConfig(task, gate, data_dir="nowhere")
    found = space(task, gate)
    check_space(found, config)
    for name in ("num_experts", "k", "batch_size", "zeta"):
        assert found[name].value == getattr(config, name), name
    assert found["learning_rate"].low < config.learning_rate < found["learning_rate"].high


@pytest.mark.parametrize(
    "make, word",
    [
        (lambda: LogUniform(0, 1), "low=0"),
        (lambda: LogUniform(2, 1), "low < high"),
        (lambda: LogUniform(1, math.inf), "inf"),
        (lambda: Choice([]), "values"),
        (lambda: Choice("comet"), "values='comet'"),
        (lambda: Choice([1, 1]), "different"),
        (lambda: Choice([1, "a"]), "numbers"),
        (lambda: space("mnist", "comet"), "multi_mnist"),
        (lambda: space("books", "comet++"), "comet++"),
    ],
)
def test_mistakes_in_parameters_are_named(make, word):
    with pytest.raises(ValueError, match=word.replace("+", r"\+")):
        make()


@pytest.mark.parametrize(
    "parameters, word",
    [
        ({}, "space"),
        ({"gama": Choice([1, 2])}, "gama"),
        ({"seed": Choice([1, 2])}, "seed"),
        ({"gamma": [1, 2]}, "LogUniform"),
        ({"gamma": Choice([1, -2])}, "gamma=-2"),
        ({"batch_size": LogUniform(1, 9.5)}, "batch_size=9.5"),
        ({"k": Choice([1, 9])}, "num_experts"),
    ],
)
def test_a_space_is_checked_against_the_training(parameters, word):
    with pytest.raises(ValueError, match=word):
        check_space(parameters, TrainingConfig("multi_digits", "topk"))


def test_k_may_rise_with_the_experts():
    check_space({"k": Fixed(9), "num_experts": Fixed(10)}, TrainingConfig("multi_digits", "topk"))
