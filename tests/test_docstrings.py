"""Every example in a docstring of the package runs and shows what it says."""

import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap

import keras
import numpy as np
import pytest
from helpers import BACKEND
from keras import ops

import comet_keras
from comet_keras import metrics, regularizers

pytestmark = [
    pytest.mark.skipif(BACKEND != "tensorflow", reason="Examples are read once."),
    pytest.mark.filterwarnings("ignore"),
]


def modules():
    for module in pkgutil.walk_packages(comet_keras.__path__, "comet_keras."):
        if not module.name.endswith(("__main__", "_jax", "_torch")):
            yield importlib.import_module(module.name)


def documented():
    """Every class, method and function of the package with an example, by its name."""
    for module in modules():
        for name, thing in vars(module).items():
            if getattr(thing, "__module__", None) != module.__name__:
                continue
            members = vars(thing).items() if inspect.isclass(thing) else ()
            for label, member in [(name, thing), *((f"{name}.{key}", m) for key, m in members)]:
                text = inspect.getdoc(member) if callable(member) else None
                if text and (">>>" in text or "```python" in text):
                    yield f"{module.__name__}.{label}", (module, text)


EXAMPLES = dict(documented())


def namespace(module):
    public = {
        key: getattr(place, key)
        for place in (module, metrics, regularizers, comet_keras)
        for key in dir(place)
        if not key.startswith("_")
    }
    return {**public, "keras": keras, "ops": ops, "np": np}


def make_model(names):
    """The compiled model and data that examples of training call `model`, `x` and `y`."""
    inputs = keras.Input((3,))
    mixture = comet_keras.MixtureOfExperts(
        comet_keras.DenseExperts(4, 1), comet_keras.COMETGate(4), comet_keras.Permutation(4)
    )
    model = keras.Model(inputs, mixture(inputs))
    model.compile("adam", "mse")
    names.update(model=model, x=np.zeros((8, 3), "float32"), y=np.zeros((8, 1), "float32"))


def test_the_public_classes_have_examples():
    names = {name.rsplit(".", 1)[1] for name in EXAMPLES}
    for name in (
        "Gate", "SoftmaxGate", "TopKGate", "HashGate", "DSelectKGate", "COMETGate", "Permutation",
        "HardenPermutation", "RoutingMonitor", "DenseExperts", "MixtureOfExperts", "WeightedSum",
    ):  # fmt: skip
        assert name in names


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_and_show_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module, text = EXAMPLES[name]
    names = namespace(module)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    if any(re.search(r"\bmodel\b", block) for block in blocks):
        make_model(names)
    for block in blocks:
        exec(compile(textwrap.dedent(block), name, "exec"), names)
    # What stands within a fenced block is no session.
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    session = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    runner = doctest.DocTestRunner(
        verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    report = []
    runner.run(session, out=report.append)
    assert runner.failures == 0, "".join(report)
