"""Routing statistics in the logs, and of a model over a data set."""

import warnings

import keras
import numpy as np
import pytest
from callbacks.common import BATCH, UNITS, WIDTH, all_values, compiled_model, data, fit
from helpers import BACKEND, value

from comet_keras import (
    COMETGate,
    DenseExperts,
    HardenPermutation,
    MixtureOfExperts,
    Permutation,
    RoutingMonitor,
    SoftmaxGate,
    TopKGate,
    WeightedSum,
    regularizers,
)
from comet_keras.metrics import routing_statistics

NAMES = ["experts_per_sample", "gate_entropy", "expert_usage_entropy", "largest_expert_share"]
STILL = keras.optimizers.SGD  # with learning rate 0, so that all steps see the same weights


def bits(p):
    p = np.asarray(p, "float64")
    return -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=-1)


def statistics(weights):
    """The four figures of weights `(rows, n)`, in numpy."""
    weights = np.asarray(weights, "float64")
    mean = weights.mean(axis=0)
    return {
        "experts_per_sample": (weights >= 1e-5).sum(axis=1).mean(),
        "gate_entropy": bits(weights).mean(),
        "expert_usage_entropy": bits(mean),
        "largest_expert_share": mean.max(),
    }


def assert_logged(history, expected, prefix="", epoch=-1):
    for name, number in expected.items():
        found = history[prefix + name][epoch]
        np.testing.assert_allclose(found, number, rtol=1e-4, atol=1e-6, err_msg=prefix + name)


def monitored(model, epochs=1, monitor=None, **options):
    return fit(model, epochs, [monitor or RoutingMonitor(warn=False)], **options).history


class TestValues:
    @pytest.mark.parametrize("batch_size", [8, 5])
    def test_equal_numpy_on_training_and_validation_rows(self, batch_size):
        model = compiled_model(permutation=None, optimizer=STILL(0.0))
        monitor = RoutingMonitor(warn=False)
        validation = data(20, seed=1)
        history = monitored(
            model, 2, monitor, validation_data=validation, batch_size=batch_size
        )
        gate = model.get_layer("moe").gates
        training_weights, weights = value(gate(data()[0])), value(gate(validation[0]))
        for epoch in (0, 1):
            assert_logged(history, statistics(training_weights), epoch=epoch)
            assert_logged(history, statistics(weights), "val_", epoch=epoch)
        np.testing.assert_allclose(monitor.usage[""], training_weights.mean(axis=0), rtol=1e-4)
        np.testing.assert_allclose(monitor.validation_usage[""], weights.mean(axis=0), rtol=1e-4)

    def test_are_of_the_weights_that_reach_the_experts(self):
        model = compiled_model(gate=SoftmaxGate(4))
        x, y = data(seed=1)
        monitor = RoutingMonitor(warn=False)
        fit(model, 2, [HardenPermutation(epochs=1, verbose=0), monitor], validation_data=(x, y))
        moe = model.get_layer("moe")
        weights = value(moe.gates(x))[:, value(moe.permutation.assignment)]
        np.testing.assert_allclose(monitor.validation_usage[""], weights.mean(axis=0), rtol=1e-4)

    def test_leave_out_masked_positions(self):
        ids = np.array([[1, 2, 0, 0], [3, 0, 0, 0], [4, 5, 6, 0]])
        inputs = keras.Input((None,), dtype="int32")
        table = keras.layers.Embedding(7, WIDTH, mask_zero=True)
        moe = MixtureOfExperts(DenseExperts(4, UNITS), TopKGate(4))
        model = keras.Model(inputs, moe(table(inputs)))
        model.compile(STILL(0.0), "mse")
        labels = np.zeros((3, 4, UNITS))
        history = model.fit(
            ids,
            labels,
            verbose=0,
            validation_data=(ids, labels),
            callbacks=[RoutingMonitor(warn=False)],
        ).history
        expected = statistics(value(moe.gates(table(ids)))[ids != 0])
        assert_logged(history, expected)
        assert_logged(history, expected, "val_")

    def test_of_loss_terms(self):
        gate = COMETGate(
            4, gamma=10.0, entropy_weight=0.5, regularizers=[regularizers.Importance(0.1)]
        )
        model = compiled_model(gate=gate, permutation=None, optimizer=STILL(0.0))
        x = data()[0]
        history = monitored(model, batch_size=len(x), validation_data=data(seed=1))
        total = value(gate(x)).astype("float64").sum(axis=0)
        importance = 0.1 * total.var() / total.mean() ** 2
        leaves = value(gate.route(x)["selectors"])
        entropy = 0.5 * (bits(leaves).sum(axis=1) * np.log(2)).mean()
        assert_logged(history, {"importance_loss": importance, "entropy_loss": entropy})
        np.testing.assert_allclose(
            history["loss"][0] - entropy - importance,
            np.mean((value(model(x)) - data()[1]) ** 2),
            rtol=1e-4,
        )
        assert "val_importance_loss" not in history

    def test_epochs_without_validation_log_training_alone(self):
        model = compiled_model(permutation=None)
        history = monitored(model, 4, validation_data=data(seed=1), validation_freq=2)
        assert {name: len(history[name]) for name in NAMES} == dict.fromkeys(NAMES, 4)
        assert len(history["val_" + NAMES[0]]) == 2

    @pytest.mark.parametrize("how", ["jit", "no jit", "eager"])
    def test_do_not_depend_on_compilation(self, how):
        if how == "jit" and BACKEND == "torch":
            pytest.skip("torch.compile takes minutes on this model")
        options = {"jit_compile": how == "jit", "run_eagerly": how == "eager"}
        model = compiled_model(permutation=None, optimizer=STILL(0.0), **options)
        validation = data(20, seed=1)
        history = monitored(model, validation_data=validation)
        gate = model.get_layer("moe").gates
        assert_logged(history, statistics(value(gate(data()[0]))))
        assert_logged(history, statistics(value(gate(validation[0]))), "val_")

    def test_of_evaluation_alone(self):
        model = compiled_model(permutation=None)
        monitor = RoutingMonitor(warn=False)
        x, y = data(20, seed=1)
        model.evaluate(x, y, batch_size=BATCH, verbose=0, callbacks=[monitor])
        expected = value(model.get_layer("moe").gates(x)).mean(axis=0)
        np.testing.assert_allclose(monitor.validation_usage[""], expected, rtol=1e-4)


class TestNames:
    def test_of_a_single_gate_stand_alone(self):
        history = monitored(compiled_model(permutation=None), validation_data=data(seed=1))
        expected = {"loss", "val_loss", *NAMES, *(f"val_{name}" for name in NAMES)}
        assert set(history) == expected

    def test_are_in_the_progress_bar(self, capsys):
        monitored(compiled_model(permutation=None), verbose=2, validation_data=data(seed=1))
        printed = capsys.readouterr().out
        for name in NAMES:
            assert f" {name}: " in printed and f" val_{name}: " in printed

    def multi_task(self, *tasks):
        inputs = keras.Input((WIDTH,))
        gates = {task: TopKGate(4) for task in tasks}
        towers = MixtureOfExperts(DenseExperts(4, 5), gates)(inputs)
        heads = {task: keras.layers.Dense(1, name=task)(towers[task]) for task in tasks}
        model = keras.Model(inputs, heads)
        model.compile("sgd", {task: "mse" for task in tasks})
        x, y = data()
        labels = {task: y[:, :1] for task in tasks}
        return model.fit(x, labels, verbose=0, callbacks=[RoutingMonitor(warn=False)]).history

    def test_stay_when_a_task_is_added(self):
        two, three = self.multi_task("ctr", "like"), self.multi_task("ctr", "like", "watch")
        routing = {name for name in two if any(name.endswith(figure) for figure in NAMES)}
        assert routing == {f"{task}_{name}" for task in ("ctr", "like") for name in NAMES}
        assert routing <= set(three)

    def test_several_places_of_3_5_and_8_experts_beside_dense_layers(self):
        inputs = keras.Input((WIDTH,))
        x = MixtureOfExperts(DenseExperts(3, WIDTH), SoftmaxGate(3), name="low")(inputs)
        x = keras.layers.Dense(WIDTH, activation="relu")(x)
        gates = {"a": TopKGate(5), "b": COMETGate(5)}
        towers = MixtureOfExperts(DenseExperts(5, WIDTH), gates, name="high")(x)
        alone = TopKGate(8, k=3, name="alone")(towers["a"])
        outputs = [keras.layers.Dense(UNITS)(towers["b"]) for _ in range(8)]
        model = keras.Model(inputs, WeightedSum()(outputs, alone))
        model.compile("sgd", "mse")
        monitor = RoutingMonitor(warn=False)
        history = monitored(model, 1, monitor)
        sizes = {label: len(usage) for label, usage in monitor.usage.items()}
        assert sizes == {"low": 3, "high_a": 5, "high_b": 5, "alone": 8}
        assert set(history) == {"loss", *(f"{label}_{name}" for label in sizes for name in NAMES)}
        np.testing.assert_allclose(history["alone_experts_per_sample"], 3)
        np.testing.assert_allclose(history["low_experts_per_sample"], 3)

    def test_can_be_watched_by_early_stopping(self):
        model = compiled_model(permutation=None, optimizer=STILL(0.0))
        stopping = keras.callbacks.EarlyStopping("val_gate_entropy", mode="min", patience=1)
        callbacks = [RoutingMonitor(warn=False), stopping]
        history = fit(model, 6, callbacks, validation_data=data(seed=1)).history
        assert len(history["loss"]) < 6


class TestWarnings:
    def test_a_plain_model_is_told_and_trained(self):
        model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(UNITS)])
        model.compile("sgd", "mse")
        with pytest.warns(UserWarning, match="has no gate to watch"):
            history = fit(model, 1, [RoutingMonitor()], validation_data=data(seed=1)).history
        assert set(history) == {"loss", "val_loss"}

    def collapsed(self):
        bias = keras.initializers.Constant(0.0)
        model = compiled_model(
            gate=SoftmaxGate(4, bias_initializer=bias), permutation=None, optimizer=STILL(0.0)
        )
        model.get_layer("moe").gates.bias.assign([50.0, 0.0, 0.0, 0.0])
        return model

    def test_collapse_is_told_once_with_the_share(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(self.collapsed(), 3, [RoutingMonitor()])
        told = [str(w.message) for w in caught if "collapsed" in str(w.message)]
        assert len(told) == 1 and "Epoch 1" in told[0] and "100%" in told[0]

    def test_collapse_is_not_told_on_request_or_without_one(self):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*collapsed.*")
            fit(self.collapsed(), 1, [RoutingMonitor(warn=False)])
            fit(compiled_model(permutation=None), 1, [RoutingMonitor()])


class TestNoTraces:
    """Only training, and evaluation under the monitor, touch the statistics."""

    def assert_unchanged(self, model, action):
        before = all_values(model)
        action()
        for variable, a, b in zip(model.variables, all_values(model), before):
            np.testing.assert_array_equal(a, b, err_msg=variable.path)

    @pytest.mark.parametrize("watched", [True, False])
    def test_predict_and_evaluate_change_no_weight(self, watched):
        model = compiled_model()
        callbacks = [HardenPermutation(epochs=3, verbose=0)] + [RoutingMonitor()] * watched
        x, y = data(seed=1)
        fit(model, 1, callbacks, validation_data=(x, y))
        self.assert_unchanged(model, lambda: model.predict(x, verbose=0))
        self.assert_unchanged(model, lambda: model.predict_on_batch(x))
        self.assert_unchanged(model, lambda: model.evaluate(x, y, verbose=0))
        self.assert_unchanged(model, lambda: model(x))

    def test_evaluation_under_the_monitor_leaves_no_later_one_gathering(self):
        model = compiled_model()
        x, y = data(seed=1)
        model.evaluate(x, y, verbose=0, callbacks=[RoutingMonitor(warn=False)])
        self.assert_unchanged(model, lambda: model.evaluate(x, y, verbose=0))

    @pytest.mark.skipif(
        BACKEND != "tensorflow", reason="model.export does not take these layers on JAX and PyTorch"
    )
    def test_export_changes_no_weight(self, tmp_path):
        model = compiled_model()
        fit(model, 1, [RoutingMonitor(warn=False)], validation_data=data(seed=1))
        self.assert_unchanged(model, lambda: model.export(tmp_path / "served", verbose=False))

    def test_monitor_goes_on_in_a_second_fit(self):
        model = compiled_model(permutation=None, optimizer=STILL(0.0))
        monitor = RoutingMonitor(warn=False)
        options = {"validation_data": data(20, seed=1)}
        first = monitored(model, 1, monitor, **options)
        model.evaluate(*data(seed=2), verbose=0)
        second = monitored(model, 1, monitor, **options)
        assert first.keys() == second.keys()
        for name in first:
            np.testing.assert_allclose(first[name], second[name], rtol=1e-5, err_msg=name)


class TestRoutingStatistics:
    def test_equal_numpy_in_batches_of_any_size(self):
        model = compiled_model(gate=COMETGate(4, gamma=2.0), permutation=Permutation(4))
        model.get_layer("moe").permutation.assignment.assign(np.array([3, 1, 0, 2], "int32"))
        x = data(20)[0]
        weights = value(model.get_layer("moe").gates(x))[:, [3, 1, 0, 2]]
        for batch_size in (3, 20):
            found = routing_statistics(model, x, batch_size=batch_size)[""]
            np.testing.assert_allclose(found.pop("expert_usage"), weights.mean(axis=0), rtol=1e-4)
            expected = statistics(weights)
            assert found.keys() == expected.keys()
            for name in expected:
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, err_msg=name)

    def test_are_labelled_by_task(self):
        inputs = keras.Input((WIDTH,))
        gates = {"a": TopKGate(4, k=1, softmax="before"), "b": TopKGate(4, k=3)}
        model = keras.Model(inputs, MixtureOfExperts(DenseExperts(4, 2), gates)(inputs))
        found = routing_statistics(model, data()[0])
        assert {label: f["experts_per_sample"] for label, f in found.items()} == {"a": 1, "b": 3}

    def test_leave_the_model_as_it_was(self):
        model = compiled_model()
        x, y = data(seed=1)
        fit(model, 1, [HardenPermutation(epochs=2, verbose=0)])
        TestNoTraces().assert_unchanged(model, lambda: routing_statistics(model, x))
        TestNoTraces().assert_unchanged(model, lambda: model.predict(x, verbose=0))

    def test_of_batches(self):
        class Batches(keras.utils.PyDataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return data()[0][index * BATCH : (index + 1) * BATCH]

        model = compiled_model()
        found = routing_statistics(model, Batches())[""]
        expected = routing_statistics(model, data()[0])[""]
        for name in NAMES:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4)

    def test_of_a_tensorflow_data_set(self):
        import tensorflow as tf

        model = compiled_model()
        batches = tf.data.Dataset.from_tensor_slices(data()[0]).batch(7)
        found = routing_statistics(model, batches)[""]
        expected = routing_statistics(model, data()[0])[""]
        for name in NAMES:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-4)

    def test_of_a_model_without_gates_are_refused(self):
        model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(UNITS)])
        with pytest.raises(ValueError, match="has no gate"):
            routing_statistics(model, data()[0])
