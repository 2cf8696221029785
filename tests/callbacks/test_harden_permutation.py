"""The two stages of local search."""

import warnings

import keras
import numpy as np
import pytest
from callbacks.common import (
    BATCH,
    STEPS,
    UNITS,
    WIDTH,
    all_values,
    assert_same_weights,
    best_assignment,
    compiled_model,
    data,
    fit,
    permutation_of,
)
from helpers import BACKEND, value

from comet_keras import (
    DenseExperts,
    HardenPermutation,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
)

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def hardened(model):
    return bool(value(permutation_of(model).hardened))


def steps(model):
    return int(value(permutation_of(model).step))


class Watch(keras.callbacks.Callback):
    """Keeps what `function(model)` gives at the end of every epoch."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.seen = []

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(self.function(self.model))


class Kill(keras.callbacks.Callback):
    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt


def test_the_first_stage_is_soft_and_the_second_keeps_one_permutation():
    model = compiled_model()
    stages, kept = Watch(hardened), Watch(lambda m: value(permutation_of(m).assignment).tolist())
    logits = Watch(lambda m: value(permutation_of(m).logits).copy())
    fit(model, 4, [HardenPermutation(epochs=2, verbose=0), stages, kept, logits])
    assert stages.seen == [False, True, True, True]
    assert kept.seen[1] == best_assignment(logits.seen[1]).tolist()
    assert kept.seen[1] == kept.seen[2] == kept.seen[3]
    assert steps(model) == 4 * STEPS


def test_hard_weights_are_those_of_the_gate_in_another_order():
    model = compiled_model()
    fit(model, 2, [HardenPermutation(epochs=1, verbose=0)])
    moe, x = model.get_layer("moe"), data()[0]
    for training in (False, True):
        found = value(moe(x, training=training, return_details=True)["weights"])
        expected = value(moe.gates(x))[:, value(moe.permutation.assignment)]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


class TestReport:
    def run(self, validation_data=None):
        # Hot enough for S to be far from a permutation.
        search = Permutation(4, temperature=(0.02, 0.01), rounds=(1, 1), warm_start=False)
        model = compiled_model(permutation=search)
        callback = HardenPermutation(epochs=2, verbose=0)
        soft = Watch(lambda m: permutation_of(m).soft_matrix())
        logits = Watch(lambda m: value(permutation_of(m).logits).copy())
        history = fit(model, 3, [soft, logits, callback], validation_data=validation_data).history
        hard = [np.eye(4)[best_assignment(u)] for u in logits.seen]
        return callback.report, history, soft.seen, hard

    @pytest.mark.parametrize("validated", [False, True])
    def test_distance_is_the_frobenius_norm_and_deviation_that_of_rows(self, validated):
        report, history, soft, hard = self.run(data(seed=1) if validated else None)
        expected = [np.sqrt(((s - p) ** 2).sum()) for s, p in zip(soft, hard)]
        deviation = [np.abs(s.sum(axis=1) - 1).max() for s in soft]
        assert expected[1] > 0.1 and deviation[1] > 1e-4
        np.testing.assert_allclose(report["distance"], expected[1], rtol=1e-4)
        np.testing.assert_allclose(report["row_deviation"], deviation[1], rtol=1e-3)
        found = history["permutation_distance"]
        np.testing.assert_allclose(found, [*expected[:2], 0.0], rtol=1e-4)
        found = history["permutation_row_deviation"]
        np.testing.assert_allclose(found, [*deviation[:2], 0.0], rtol=1e-3)

    def test_losses_are_those_of_the_history(self):
        report, history, _, _ = self.run()
        assert report["epoch"] == 1
        assert report["loss_before"] == history["loss"][1]
        assert report["loss_after"] == history["loss"][2]

    def test_is_printed_on_request(self, capsys):
        fit(compiled_model(), 2, [HardenPermutation(epochs=1, verbose=1)])
        printed = capsys.readouterr().out
        assert "Epoch 1: permutation hardened" in printed and "after hardening" in printed
        fit(compiled_model(), 2, [HardenPermutation(epochs=1, verbose=0)])
        assert "hardened" not in capsys.readouterr().out


class TestUnfinishedStage:
    def test_predicts_sparsely(self):
        model = compiled_model()
        fit(model, 1, [HardenPermutation(epochs=3, verbose=0)])
        assert not hardened(model)
        weights = value(model.get_layer("moe")(data()[0], return_details=True)["weights"])
        assert ((weights > 0).sum(axis=1) <= 2).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-5)

    def test_is_carried_on_by_the_next_fit(self):
        parted, whole = compiled_model(), compiled_model()
        for _ in range(2):
            fit(parted, 1, [HardenPermutation(epochs=3, verbose=0)])
        assert not hardened(parted) and steps(parted) == 2 * STEPS
        fit(parted, 2, [HardenPermutation(epochs=3, verbose=0)])
        assert hardened(parted)
        fit(whole, 4, [HardenPermutation(epochs=3, verbose=0)])
        assert_same_weights(parted, whole, **CLOSE)

    def test_is_carried_on_after_loading(self, tmp_path):
        whole = compiled_model()
        fit(whole, 4, [HardenPermutation(epochs=2, verbose=0)])
        parted = compiled_model()
        fit(parted, 1, [HardenPermutation(epochs=2, verbose=0)])
        parted.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert not bool(permutation_of(loaded).hardened.numpy())
        callback = HardenPermutation(epochs=2, verbose=0)
        fit(loaded, 4, [callback], initial_epoch=1)
        assert callback.report["epoch"] == 1
        assert_same_weights(loaded, whole, **CLOSE)
        assert int(value(loaded.optimizer.iterations)) == 4 * STEPS


class TestEarlyStopping:
    @pytest.mark.parametrize("hardens_first", [True, False])
    def test_restored_weights_bring_their_own_permutation(self, hardens_first):
        model = compiled_model(optimizer=keras.optimizers.Adam(0.05))
        x, y = data(seed=1)
        stopping = keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True)
        callbacks = [HardenPermutation(epochs=50, verbose=0), stopping]
        # Validation labels are turned around: it gets worse from early on.
        history = fit(
            model,
            8,
            callbacks if hardens_first else callbacks[::-1],
            validation_data=(x, -y),
        ).history
        assert len(history["val_loss"]) < 8 and not hardened(model)
        best = int(np.argmin(history["val_loss"]))
        assert steps(model) == (best + 1) * STEPS
        loss = model.evaluate(x, -y, batch_size=BATCH, verbose=0)
        np.testing.assert_allclose(loss, min(history["val_loss"]), rtol=1e-5)

    @pytest.mark.parametrize("hardens_first", [True, False])
    def test_without_validation_the_permutation_still_fits_the_weights(self, hardens_first):
        model = compiled_model(optimizer=keras.optimizers.SGD(5.0))
        stopping = keras.callbacks.EarlyStopping(
            monitor="loss", patience=1, restore_best_weights=True
        )
        callbacks = [HardenPermutation(epochs=50, verbose=0), stopping]
        fit(model, 4, callbacks if hardens_first else callbacks[::-1])
        layer = permutation_of(model)
        np.testing.assert_array_equal(value(layer.assignment), best_assignment(value(layer.logits)))


class TestLengthOfTheStage:
    @pytest.mark.skipif(BACKEND == "torch", reason="Keras refuses steps_per_execution on PyTorch")
    @pytest.mark.parametrize("at_once", [3, 4, 7])
    def test_several_steps_an_execution(self, at_once):
        model = compiled_model(steps_per_execution=at_once)
        stages = Watch(hardened)
        fit(model, 3, [HardenPermutation(epochs=2, verbose=0), stages])
        assert stages.seen == [False, True, True] and steps(model) == 3 * STEPS

    def unknown_length(self):
        import tensorflow as tf

        x, y = data()

        def batches():
            for i in range(STEPS):
                rows = slice(i * BATCH, (i + 1) * BATCH)
                yield x[rows], y[rows]

        signature = tuple(tf.TensorSpec((None, width)) for width in (WIDTH, UNITS))
        return tf.data.Dataset.from_generator(batches, output_signature=signature)

    @pytest.mark.parametrize("told", [None, STEPS])
    def test_a_data_set_of_unknown_length(self, told):
        model = compiled_model()
        stages = Watch(hardened)
        callback = HardenPermutation(epochs=2, steps_per_epoch=told, verbose=0)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*first stage.*")
            model.fit(self.unknown_length(), epochs=3, verbose=0, callbacks=[callback, stages])
        assert stages.seen == [False, True, True]
        assert steps(model) == 3 * STEPS
        assert int(value(permutation_of(model).stage_steps)) == 2 * STEPS

    @pytest.mark.parametrize("epochs", [0, -1, 1.5, "2"])
    def test_is_a_number_of_epochs(self, epochs):
        with pytest.raises(ValueError, match="`epochs`"):
            HardenPermutation(epochs=epochs)


def test_evaluation_within_the_stage_uses_the_permutation_of_the_moment():
    model = compiled_model(optimizer=keras.optimizers.SGD(0.5))
    x, y = data(seed=1)

    def expected(model):
        moe = model.get_layer("moe")
        order = best_assignment(value(moe.permutation_layers[0].logits))
        weights = value(moe.gates(x))[:, order]
        outputs = np.einsum("bn,bnd->bd", weights, value(moe.experts(x)))
        return order.tolist(), float(np.mean((outputs - y) ** 2))

    watch = Watch(expected)
    callbacks = [watch, HardenPermutation(epochs=10, verbose=0)]
    history = fit(model, 3, callbacks, validation_data=(x, y)).history
    orders, losses = zip(*watch.seen)
    assert any(order != [0, 1, 2, 3] for order in orders)
    np.testing.assert_allclose(history["val_loss"], losses, rtol=1e-4)


OPTIMIZERS = {
    "AdamW": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
    "momentum": lambda: keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=0.1),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_logits_have_no_effect_once_hard_whatever_the_optimizer_does_to_them(optimizer):
    trained = []
    for change in (0.0, 100.0):
        model = compiled_model(optimizer=OPTIMIZERS[optimizer]())
        fit(model, 1, [HardenPermutation(epochs=1, verbose=0)])
        layer = permutation_of(model)
        noise = np.random.default_rng(0).normal(size=(4, 4))
        layer.logits.assign(value(layer.logits) + change * noise)
        before = value(layer.logits).copy()
        fit(model, 2, [HardenPermutation(epochs=1, verbose=0)])
        moved = np.abs(value(layer.logits) - before).max()
        trained.append((model, moved))
    (plain, moved), (disturbed, _) = trained
    assert moved > 0  # decay and momentum go on pulling at them
    for a, b in zip(plain.weights, disturbed.weights):
        if not a.path.endswith("logits"):
            np.testing.assert_array_equal(value(a), value(b), err_msg=a.path)


@pytest.mark.parametrize(("hardens_first", "killed_after"), [(True, 0), (False, 1)])
def test_backup_and_restore_gives_the_run_that_was_not_killed(tmp_path, hardens_first, killed_after):
    def callbacks():
        backup = keras.callbacks.BackupAndRestore(tmp_path)
        both = [HardenPermutation(epochs=2, verbose=0), backup]
        return both if hardens_first else both[::-1]

    with pytest.raises(KeyboardInterrupt):
        fit(compiled_model(), 4, [*callbacks(), Kill(killed_after)])
    resumed, whole = compiled_model(seed=5), compiled_model()
    fit(resumed, 4, callbacks())
    fit(whole, 4, [HardenPermutation(epochs=2, verbose=0)])
    assert hardened(resumed)
    assert_same_weights(resumed, whole, **CLOSE)


class TestIdempotence:
    def test_calling_it_again_changes_nothing(self):
        for epochs in (1, 5):
            model = compiled_model()
            callback = HardenPermutation(epochs=epochs, verbose=0)
            fit(model, 2, [callback])
            before, report = all_values(model), dict(callback.report)
            for _ in range(2):
                callback.on_test_begin()
                callback.on_epoch_end(1)
                callback.on_train_end()
            for a, b in zip(all_values(model), before):
                np.testing.assert_array_equal(a, b)
            assert callback.report == report

    def test_two_of_them_are_one(self):
        once, twice = compiled_model(), compiled_model()
        fit(once, 3, [HardenPermutation(epochs=2, verbose=0)])
        fit(twice, 3, [HardenPermutation(epochs=2, verbose=0) for _ in range(2)])
        assert_same_weights(once, twice)


@pytest.mark.parametrize("clip", [{"clipnorm": 1.0}, {"clipvalue": 0.1}, {"global_clipnorm": 1.0}])
def test_gradients_may_be_clipped(clip):
    model = compiled_model(optimizer=keras.optimizers.Adam(0.01, **clip))
    history = fit(model, 2, [HardenPermutation(epochs=1, verbose=0)]).history
    assert np.isfinite(history["loss"]).all() and hardened(model)


def test_all_permutations_of_a_model_harden_and_the_largest_distance_is_told():
    inputs = keras.Input((WIDTH,))
    gates = {"a": SoftmaxGate(3), "b": TopKGate(3)}
    own = {
        "a": Permutation(3, temperature=(0.5, 0.5), rounds=(1, 1)),
        "b": Permutation(3, temperature=(0.01, 0.01), rounds=(5, 5)),
    }
    towers = MixtureOfExperts(DenseExperts(3, UNITS), gates, own)(inputs)
    alone = Permutation(5)(SoftmaxGate(5)(inputs))
    model = keras.Model(inputs, towers["a"] + towers["b"] + keras.layers.Dense(UNITS)(alone))
    model.compile("sgd", "mse")
    callback = HardenPermutation(epochs=1, verbose=0)
    found = Watch(lambda m: callback.permutations())
    distances = Watch(
        lambda m: [
            np.linalg.norm(p.soft_matrix() - np.eye(p.num_experts)[best_assignment(value(p.logits))])
            for p in callback.permutations()
        ]
    )
    fit(model, 1, [found, distances, callback])
    assert len(found.seen[0]) == 3
    assert all(bool(value(layer.hardened)) for layer in callback.permutations())
    np.testing.assert_allclose(callback.report["distance"], max(distances.seen[0]), rtol=1e-4)


def test_a_model_without_permutation_is_told_and_trained():
    model = compiled_model(permutation=None)
    with pytest.warns(UserWarning, match="has no Permutation"):
        history = fit(model, 1, [HardenPermutation(epochs=1)], validation_data=data()).history
    assert "permutation_distance" not in history
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(model, 1, [HardenPermutation(epochs=1, verbose=0)])


def test_diverged_logits_are_told():
    model = compiled_model()
    fit(model, 1, [HardenPermutation(epochs=5, verbose=0)])
    permutation_of(model).logits.assign(np.full((4, 4), np.nan))
    before = permutation_of(model).hard_matrix()
    with pytest.warns(UserWarning, match="not finite"):
        permutation_of(model).harden()
    np.testing.assert_array_equal(permutation_of(model).hard_matrix(), before)
