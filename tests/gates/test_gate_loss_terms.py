"""Loss terms of gates: in training only, by the step, without masked positions."""

import keras
import numpy as np
import pytest
from helpers import exact_entropy, value
from keras import ops

from comet_keras import COMETGate, DSelectKGate, HashGate, SoftmaxGate, TopKGate
from comet_keras.regularizers import (
    Entropy,
    Importance,
    Load,
    LoadBalance,
    Reciprocal,
    RouterZ,
)

RNG = np.random.default_rng(0)
X = ops.convert_to_tensor(RNG.normal(size=(6, 3)), "float32")


def losses_of(gate, x=X, **arguments):
    gate(x, **arguments)
    return [float(value(loss)) for loss in gate.losses]


def test_terms_are_in_the_losses_in_training_and_not_in_inference():
    gate = COMETGate(4, entropy_weight=0.1, regularizers=[Importance(0.2), RouterZ(0.3)])
    assert len(losses_of(gate, training=True)) == 3
    assert losses_of(gate, training=False) == []
    assert losses_of(gate) == []


def test_terms_are_the_regularizers_of_what_route_returns():
    gate = SoftmaxGate(
        4,
        regularizers=[
            Entropy(0.1, reads="weights"), Importance(0.2), RouterZ(0.3), LoadBalance(0.4, k=2)
        ],
    )  # fmt: skip
    found = losses_of(gate, training=True)
    routing = gate.route(X)
    expected = [term(routing[term.reads]) for term in gate.regularizers]
    np.testing.assert_allclose(found, [float(value(loss)) for loss in expected], rtol=1e-6)
    assert len(found) == 4


def test_a_weight_of_zero_adds_nothing():
    gate = COMETGate(4, entropy_weight=0.0, regularizers=[Importance(0.0)])
    assert losses_of(gate, training=True) == []


def test_losses_of_several_gates_add_up_in_a_model():
    inputs = keras.Input((3,))
    gates = [SoftmaxGate(4, regularizers=[Importance(weight)]) for weight in (0.5, 2.0)]
    outputs = keras.layers.Add()([gate(inputs) for gate in gates])
    model = keras.Model(inputs, outputs)
    model(X, training=True)
    expected = sum(float(value(Importance(w)(g(X)))) for w, g in zip((0.5, 2.0), gates))
    model(X, training=True)
    np.testing.assert_allclose(sum(float(value(loss)) for loss in model.losses), expected, rtol=1e-5)


def test_a_schedule_advances_by_the_training_step():
    schedule = keras.optimizers.schedules.PolynomialDecay(1.0, 4, 0.0)
    gate = COMETGate(4, entropy_weight=schedule)
    plain = COMETGate(4, entropy_weight=1.0)
    full = losses_of(plain, training=True)[0]
    gate.build(X.shape)
    gate.set_weights(plain.get_weights())
    gate.step.assign(0)
    found = []
    for _ in range(6):
        gate(X)  # inference does not count
        found.append(losses_of(gate, training=True)[0] / full)
    np.testing.assert_allclose(found, [1, 0.75, 0.5, 0.25, 0, 0], atol=1e-5)


def test_a_schedule_survives_the_config():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.0, 0.5])
    for gate in (
        COMETGate(4, entropy_weight=schedule),
        DSelectKGate(3, entropy_weight=schedule, reciprocal_weight=schedule),
        SoftmaxGate(4, regularizers=[Importance(schedule)]),
    ):
        copy = type(gate).from_config(gate.get_config())
        assert copy.get_config() == gate.get_config()
        for term in copy.all_regularizers():
            np.testing.assert_allclose(
                [float(value(term.weight(step))) for step in (0, 1, 2, 3)], [0, 0, 0, 0.5]
            )


GATES = {
    "softmax": lambda: SoftmaxGate(
        4, regularizers=[Importance(1.0), RouterZ(1.0), LoadBalance(1.0), Entropy(1.0, reads="weights")]
    ),
    "topk": lambda: TopKGate(4, regularizers=[Importance(1.0), RouterZ(1.0), LoadBalance(1.0)]),
    "dselect_k": lambda: DSelectKGate(5, entropy_weight=1.0, regularizers=[Importance(1.0)]),
    "comet": lambda: COMETGate(
        5, k=2, entropy_weight=1.0, regularizers=[Importance(1.0), RouterZ(1.0)]
    ),
    "hash": lambda: HashGate(4, num_ids=9, regularizers=[Importance(1.0)]),
}


@pytest.mark.parametrize("kind", GATES)
def test_masked_positions_count_in_no_term_and_in_no_statistic(kind):
    rng = np.random.default_rng(1)
    # As many positions as trees, so that a mask along the wrong axis would fit.
    mask = np.array([[True, False], [False, False], [True, True]])
    if kind == "hash":
        x = ops.convert_to_tensor(rng.integers(0, 9, size=(3, 2, 1)), "int32")
    else:
        x = ops.convert_to_tensor(rng.normal(size=(3, 2, 3)), "float32")
    kept = ops.convert_to_tensor(value(x)[mask])
    gate = GATES[kind]()
    gate.build(x.shape)
    masked = losses_of(gate, x, mask=ops.convert_to_tensor(mask), training=True)
    figures = gate.statistics.read()
    gate.statistics.reset()
    trimmed = losses_of(gate, kept, training=True)
    np.testing.assert_allclose(masked, trimmed, rtol=1e-5)
    assert len(masked) == len(gate.all_regularizers())
    for name, figure in gate.statistics.read().items():
        np.testing.assert_allclose(figures[name], figure, rtol=1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_a_batch_that_is_masked_throughout_adds_zero(kind):
    x = ops.zeros((2, 1), "int32") if kind == "hash" else X[:2]
    found = losses_of(GATES[kind](), x, mask=ops.convert_to_tensor([False, False]), training=True)
    assert found == [0] * len(found)


@pytest.mark.parametrize("kind", GATES)
def test_an_empty_batch_adds_zero(kind):
    x = ops.zeros((0, 1), "int32") if kind == "hash" else X[:0]
    found = losses_of(GATES[kind](), x, training=True)
    assert found == [0] * len(found)


@pytest.mark.parametrize(
    "gate, term, reads",
    [
        (lambda r: SoftmaxGate(4, regularizers=r), Entropy(1.0), "selectors"),
        (lambda r: TopKGate(4, regularizers=r), Load(1.0), "load"),
        (lambda r: COMETGate(4, regularizers=r), LoadBalance(1.0), "probabilities"),
        (lambda r: DSelectKGate(4, regularizers=r), RouterZ(1.0), "logits"),
        (lambda r: HashGate(4, num_ids=2, regularizers=r), RouterZ(1.0), "logits"),
        (lambda r: SoftmaxGate(4, regularizers=r), Importance(1.0, reads="nothing"), "nothing"),
    ],
)
def test_a_term_that_reads_what_the_gate_does_not_provide_is_refused_at_construction(gate, term, reads):
    with pytest.raises(ValueError, match=f"{type(term).__name__} reads '{reads}'.*provides: weights"):
        gate([term])


@pytest.mark.parametrize(
    "gate",
    [
        lambda: SoftmaxGate(4, regularizers=[Importance(0.1), Importance(0.2)]),
        lambda: COMETGate(4, entropy_weight=0.1, regularizers=[Entropy(0.1)]),
        lambda: DSelectKGate(3, regularizers=[Reciprocal(0.1)]),
    ],
)
def test_two_terms_of_one_kind_are_refused(gate):
    with pytest.raises(ValueError, match="`regularizers`.*more than once"):
        gate()


def test_an_own_entropy_term_may_take_the_place_of_the_argument():
    gate = COMETGate(4, regularizers=[Entropy(0.5)])
    found = losses_of(gate, training=True)
    v = value(gate.route(X)["selectors"])
    np.testing.assert_allclose(found, [0.5 * exact_entropy(v).sum(-1).mean()], rtol=1e-5)


@pytest.mark.parametrize("terms", ["entropy", [0.1], [keras.regularizers.L2(0.1)]])
def test_what_is_no_term_is_refused(terms):
    with pytest.raises(ValueError, match="`regularizers`.*comet_keras.regularizers"):
        SoftmaxGate(4, regularizers=terms)


def test_the_step_counts_training_steps_once_however_often_the_gate_is_called():
    gate = COMETGate(3, entropy_weight=0.1)
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Add()([gate(inputs), gate(2 * inputs)]))
    for _ in range(3):
        model(X, training=True)
        model(X)
    assert int(value(gate.step)) == 3
    model.compile("sgd", "mse")
    model.fit(np.zeros((8, 3)), np.zeros((8, 3)), batch_size=4, epochs=2, verbose=0)
    model.predict(np.zeros((8, 3)), verbose=0)
    assert int(value(gate.step)) == 7


def test_passes_outside_of_a_model_and_without_state_count_alike():
    gate = COMETGate(3, entropy_weight=0.1)
    gate(X, training=True)
    trainable, other = gate.trainable_variables, gate.non_trainable_variables
    for _ in range(2):
        _, other = gate.stateless_call(trainable, other, X, training=True)
    for variable, new in zip(gate.non_trainable_variables, other):
        variable.assign(new)
    assert int(value(gate.step)) == 3
    for _ in range(2):
        gate(X, training=True)
    assert int(value(gate.step)) == 5
