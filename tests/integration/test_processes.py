"""What has to be seen in a process of its own: imports, distribution, serving."""

import numpy as np
import pytest
from helpers import BACKEND, value
from integration.common import GATES, data, model_of, python, shaken

from comet_keras import HardenPermutation, Permutation

on_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="a TensorFlow feature")


@pytest.mark.slow
def test_the_package_imports_no_optional_dependency():
    found = python(
        "import json, sys\n"
        "before = set(sys.modules)\n"
        "import keras\n"
        "backend = set(sys.modules)\n"
        "import comet_keras\n"
        "heavy = ['tensorflow_datasets', 'keras_tuner', 'matplotlib', 'keras_hub', 'sklearn',\n"
        "         'scipy', 'pandas', 'transformers']\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - backend}\n"
        "print(json.dumps([name for name in heavy if name in new]))\n"
    )
    assert found == []


MIRRORED = """
import json, sys
import numpy as np, tensorflow as tf
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from integration.common import GATES, data, model_of
from comet_keras import HardenPermutation, Permutation, RoutingMonitor

def make():
    keras.utils.set_random_seed(0)
    model = model_of(GATES["topk"](), permutation=Permutation(4))
    model.compile(keras.optimizers.SGD(0.01), "mse")
    return model

x, y = data()
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = make()
single = make()
options = dict(batch_size=8, shuffle=False, verbose=0)
callbacks = lambda: [HardenPermutation(epochs=1, verbose=0), RoutingMonitor(warn=False)]
model.fit(x, y, epochs=1, callbacks=callbacks(), validation_data=(x, y), **options)
moe = model.get_layer("moe")
report = {
    "gate": int(moe.gates.step.numpy()),
    "permutation": int(moe.permutation.step.numpy()),
    "hardened": bool(moe.permutation.hardened.numpy()),
}
history = model.fit(x, y, epochs=1, callbacks=callbacks(), validation_data=(x, y), **options).history
report["experts"] = history["val_experts_per_sample"][0]
model.save(sys.argv[1])
predictions = model.predict(x, batch_size=8, verbose=0)
loaded = keras.models.load_model(sys.argv[1])
report["difference"] = float(np.abs(predictions - loaded.predict(x, verbose=0)).max())
print(json.dumps(report))
"""


@on_tensorflow
@pytest.mark.slow
def test_mirrored_replicas_count_a_step_once_and_predict_as_one(tmp_path):
    report = python(MIRRORED, tmp_path / "model.keras")
    assert report["gate"] == report["permutation"] == 4
    assert report["hardened"]
    assert report["experts"] == pytest.approx(2)
    assert report["difference"] < 1e-5


DATA_PARALLEL = """
import json
import jax, keras, numpy as np
from integration.common import GATES, data, model_of
from comet_keras import HardenPermutation, Permutation, RoutingMonitor

def losses(distribution):
    keras.distribution.set_distribution(distribution)
    keras.utils.set_random_seed(0)
    model = model_of(GATES["topk"](), permutation=Permutation(4))
    model.compile(keras.optimizers.SGD(0.01), "mse")
    x, y = data()
    callbacks = [HardenPermutation(epochs=1, verbose=0), RoutingMonitor(warn=False)]
    history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0,
                        callbacks=callbacks, validation_data=(x, y)).history
    return history["loss"], int(model.get_layer("moe").gates.step.numpy())

single = losses(None)
parallel = losses(keras.distribution.DataParallel(devices=keras.distribution.list_devices("cpu")))
print(json.dumps([len(jax.devices()), single, parallel]))
"""


@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "jax", reason="DataParallel is Keras' distribution on JAX")
def test_data_parallel_training_equals_a_single_device():
    devices, single, parallel = python(
        DATA_PARALLEL, XLA_FLAGS="--xla_force_host_platform_device_count=4"
    )
    assert devices == 4
    np.testing.assert_allclose(parallel[0], single[0], rtol=1e-4)
    assert parallel[1] == single[1] == 8


SERVE = """
import json, sys
from pathlib import Path
import numpy as np, tensorflow as tf

folder = Path(sys.argv[1])
inputs = dict(np.load(folder / "inputs.npz"))
for path in sorted(folder.glob("served_*")):
    served = tf.saved_model.load(str(path))
    for rows in (len(inputs["x"]), 1):
        outputs = served.serve({key: tf.constant(v[:rows]) for key, v in inputs.items()})
        np.savez(folder / f"{path.name}.{rows}.npz", *tf.nest.flatten(outputs))
print(json.dumps("comet_keras" in sys.modules))
"""


@on_tensorflow
@pytest.mark.slow
def test_exported_models_serve_the_same_values_without_the_package(tmp_path):
    x, _ = data()
    np.savez(tmp_path / "inputs.npz", **x)
    expected = {}
    for i, name in enumerate(GATES):
        model = shaken(model_of(GATES[name](), permutation=Permutation(4)), seed=i)
        expected[i] = model.predict(x, verbose=0)
        before = [value(w).copy() for w in model.weights]
        model.export(tmp_path / f"served_{i}", verbose=False)
        for weight, kept in zip(model.weights, before):
            np.testing.assert_array_equal(value(weight), kept)
    assert python(SERVE, tmp_path) is False
    for i, outputs in expected.items():
        for rows in (len(outputs), 1):
            found = np.load(tmp_path / f"served_{i}.{rows}.npz")["arr_0"]
            np.testing.assert_allclose(found, outputs[:rows], rtol=1e-5, atol=1e-6)


@on_tensorflow
def test_a_trained_model_is_exported_and_its_state_stays(tmp_path):
    model = model_of(GATES["noisy_topk"](), permutation=Permutation(4))
    model.compile("adam", "mse")
    x, y = data()
    model.fit(x, y, verbose=0, callbacks=[HardenPermutation(epochs=1, verbose=0)])
    model.export(tmp_path / "served", verbose=False)
    import tensorflow as tf

    served = tf.saved_model.load(str(tmp_path / "served"))
    found = served.serve({key: tf.constant(v) for key, v in x.items()})
    np.testing.assert_allclose(value(found), model.predict(x, verbose=0), rtol=1e-5, atol=1e-6)
    model.fit(x, y, verbose=0)
    assert int(value(model.get_layer("moe").gates.step)) == 2
