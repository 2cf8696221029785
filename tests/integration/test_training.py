"""Loss terms, tasks and masks in `fit`, `evaluate` and `predict`."""

import keras
import numpy as np
import pytest
from helpers import value
from integration.common import GATES, UNITS, WIDTH, data, fitted, model_of

from comet_keras import (
    DenseExperts,
    DSelectKGate,
    HardenPermutation,
    MixtureOfExperts,
    Permutation,
    SoftmaxGate,
    TopKGate,
    regularizers,
)
from comet_keras.datasets import mask_missing_labels

STILL = keras.optimizers.SGD


def balanced(n=4, weight=1.0, **options):
    return SoftmaxGate(n, regularizers=[regularizers.LoadBalance(weight)], **options)


def losses(layer, x, **kwargs):
    layer(x, training=True, **kwargs)
    return [float(value(loss)) for loss in layer.losses]


class TestLossTerms:
    def test_neither_pile_up_nor_vanish_between_fit_evaluate_and_predict(self):
        model = model_of(balanced())
        x, y = data()
        options = {"batch_size": len(y)}
        first = fitted(model, optimizer=STILL(0.0))["loss"]
        term = losses(model, x)[0]
        for _ in range(2):
            task = model.evaluate(x, y, verbose=0, **options)
            model.predict(x, verbose=0)
            again = model.fit(x, y, verbose=0, **options).history["loss"][0]
            np.testing.assert_allclose(again - task, term, rtol=1e-4)
        assert first[0] > task
        assert len(model.losses) == 1

    def test_are_there_in_training_only(self):
        layer = MixtureOfExperts(DenseExperts(4, 3), balanced())
        x = data()[0]["x"]
        assert len(losses(layer, x)) == 1
        layer(x)
        assert layer.losses == []

    def test_do_not_depend_on_what_is_returned(self):
        layer = MixtureOfExperts(DenseExperts(4, 3), [balanced(), balanced()], Permutation(4))
        x = data()[0]["x"]
        layer(x)
        plain, detailed = losses(layer, x), losses(layer, x, return_details=True)
        assert len(plain) == len(detailed) == 3
        assert plain[:2] == detailed[:2]  # the permutation's term changes from step to step

    def test_of_two_collapsed_layers_add_up(self):
        """Layers that collapsed on different experts do not cancel."""
        x, y = data()

        def model(bias):
            inputs = {"x": keras.Input((WIDTH,), name="x"), "id": keras.Input((1,), name="id")}
            hidden = inputs["x"]
            for expert in (0, 1):
                gate = balanced(kernel_initializer="zeros")
                hidden = MixtureOfExperts(DenseExperts(4, WIDTH), gate)(hidden)
                values = np.zeros(4)
                values[expert] = bias
                gate.bias.assign(values)
            return keras.Model(inputs, hidden)

        collapsed, uniform = losses(model(30.0), x), losses(model(0.0), x)
        np.testing.assert_allclose(collapsed, [4.0, 4.0], rtol=1e-4)
        np.testing.assert_allclose(uniform, [1.0, 1.0], rtol=1e-4)

    def test_of_a_layer_called_twice_count_twice_and_its_step_once(self):
        layer = MixtureOfExperts(DenseExperts(4, 3), balanced(), Permutation(4, name="search"))
        a, b = keras.Input((WIDTH,)), keras.Input((WIDTH,))
        model = keras.Model([a, b], layer(a) + layer(b))
        model.compile(STILL(0.0), "mse")
        x = data()[0]["x"]
        y = np.zeros((len(x), UNITS))
        total = model.train_on_batch([x, -x], y)
        model.train_on_batch([x, -x], y)
        assert int(value(layer.gates.step)) == int(value(layer.permutation.step)) == 2
        single = [losses(layer.gates, part)[0] for part in (x, -x)]
        model([x, -x], training=True)
        assert len(model.losses) == 3  # the gate's twice, the permutation's once
        permutation = float(value(model.losses[1]))
        found = sorted(float(value(loss)) for loss in model.losses)
        assert np.isfinite(permutation)
        for term in single:
            assert np.isclose(found, term, rtol=1e-4).any()
        assert total > sum(single)

    def test_push_towards_balance(self):
        gate = balanced(bias_initializer=keras.initializers.Constant(0.0))
        model = model_of(gate)
        gate.bias.assign([3.0, 0.0, 0.0, 0.0])
        x, _ = data(64)

        def share():
            return value(gate(x["x"])).mean(axis=0).max()

        before = share()
        model.compile(keras.optimizers.Adam(0.05), None)
        model.fit(x, epochs=20, verbose=0)
        assert share() < before - 0.1

    def test_are_equal_with_and_without_padding(self):
        gate, table = balanced(), keras.layers.Embedding(9, WIDTH, mask_zero=True)
        inputs = keras.Input((None,), dtype="int32")
        model = keras.Model(inputs, MixtureOfExperts(DenseExperts(4, 3), gate)(table(inputs)))
        model.compile(STILL(0.0), None)
        ids = np.random.default_rng(0).integers(1, 9, size=(6, 5))
        trimmed = model.train_on_batch(ids)
        padded = model.train_on_batch(np.pad(ids, ((0, 2), (0, 4))))
        np.testing.assert_allclose(padded, trimmed, rtol=1e-5)


class TestTasks:
    def model(self, **compile_options):
        inputs = keras.Input((WIDTH,), name="x")
        gates = {"ctr": TopKGate(4), "rate": GATES["comet"]()}
        towers = MixtureOfExperts(DenseExperts(4, 5, activation="relu"), gates)(inputs)
        heads = {
            "ctr": keras.layers.Dense(1, activation="sigmoid", name="ctr")(towers["ctr"]),
            "rate": keras.layers.Dense(1, name="rate")(towers["rate"]),
        }
        model = keras.Model(inputs, heads)
        options = {"loss": {"ctr": "binary_crossentropy", "rate": "mse"}, **compile_options}
        model.compile("adam", **options)
        return model

    def labels(self, y):
        return {"ctr": (y[:, :1] > 1).astype("float32"), "rate": y[:, 1:2]}

    def test_have_losses_and_metrics_under_their_names(self):
        model = self.model(metrics={"ctr": ["auc"], "rate": ["mae"]}, loss_weights={"ctr": 0.3, "rate": 1.0})
        x, y = data()
        labels = self.labels(y)
        history = model.fit(
            x["x"], labels, verbose=0, validation_data=(x["x"], labels)
        ).history
        names = {"loss", "ctr_loss", "rate_loss", "ctr_auc", "rate_mae"}
        assert names | {f"val_{name}" for name in names} == set(history)

    def test_early_stopping_watches_one_of_them(self):
        model = self.model()
        x, y = data()
        stopping = keras.callbacks.EarlyStopping(
            "val_rate_loss", mode="min", patience=1, restore_best_weights=True
        )
        history = model.fit(
            x["x"],
            self.labels(y),
            epochs=8,
            verbose=0,
            validation_data=(x["x"], self.labels(-5 * y)),
            callbacks=[stopping],
        ).history
        assert 1 <= len(history["val_rate_loss"]) <= 8
        results = model.evaluate(x["x"], self.labels(-5 * y), verbose=0, return_dict=True)
        assert results["rate_loss"] == pytest.approx(min(history["val_rate_loss"]), rel=1e-4)

    def test_rows_without_a_label_count_for_the_other_task_alone(self):
        model = self.model()
        x, y = data()
        labels = self.labels(y)
        labels["rate"] = labels["rate"].copy()
        missing = np.arange(len(y)) % 3 == 0
        labels["rate"][missing] = np.nan
        targets, weights = mask_missing_labels(labels)
        results = model.evaluate(
            x["x"], targets, sample_weight=weights, batch_size=len(y), verbose=0, return_dict=True
        )
        predictions = model.predict(x["x"], verbose=0)
        squares = (predictions["rate"] - np.where(np.isnan(labels["rate"]), 0, labels["rate"])) ** 2
        expected = squares[~missing].sum() / len(y)
        assert results["rate_loss"] == pytest.approx(expected, rel=1e-4)
        history = model.fit(x["x"], targets, sample_weight=weights, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"]).all()


def test_a_click_model_with_embeddings_trains():
    user, item = keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")
    numbers = keras.Input((3,))
    embedded = [
        keras.layers.Flatten()(keras.layers.Embedding(20, 4)(ids)) for ids in (user, item)
    ]
    x = keras.layers.Concatenate()([*embedded, numbers])
    gates = {"click": DSelectKGate(5, k=2, entropy_weight=0.01), "buy": DSelectKGate(5, k=2)}
    towers = MixtureOfExperts(DenseExperts(5, 8, activation="relu"), gates)(x, return_details=True)
    heads = {
        task: keras.layers.Dense(1, activation="sigmoid", name=task)(towers["outputs"][task])
        for task in gates
    }
    model = keras.Model([user, item, numbers], heads)
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy")
    rng = np.random.default_rng(0)
    ids = [rng.integers(20, size=(64, 1)) for _ in range(2)]
    features = [*ids, rng.normal(size=(64, 3)).astype("float32")]
    labels = {task: (features[2][:, i : i + 1] > 0).astype("float32") for i, task in enumerate(heads)}
    history = model.fit(features, labels, epochs=8, verbose=0).history["loss"]
    assert history[-1] < history[0]
    weights = keras.Model(model.inputs, towers["weights"]).predict(features, verbose=0)
    assert all((w >= 0).all() and (w.sum(axis=-1) <= 1 + 1e-5).all() for w in weights.values())


def test_a_batch_of_one_row_and_a_short_last_batch_train():
    model = model_of([GATES["comet"](), GATES["topk"]()], permutation=Permutation(4))
    model.compile("adam", "mse")
    x, y = data(9)
    history = model.fit(
        x, [y, y], batch_size=4, verbose=0, callbacks=[HardenPermutation(epochs=1, verbose=0)]
    ).history
    assert np.isfinite(history["loss"]).all()
    for batch_size in (1, 4, 9):
        rows = model.predict(x, batch_size=batch_size, verbose=0)
        np.testing.assert_allclose(rows[0], value(model(x)[0]), rtol=1e-5, atol=1e-6)
