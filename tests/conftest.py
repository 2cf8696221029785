import os

if os.environ.get("KERAS_BACKEND") == "jax":
    # These tests compile much and run little.
    flags = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    os.environ.setdefault("XLA_FLAGS", flags)

import keras
import pytest
from hypothesis import settings

# A new shape costs little on TensorFlow and PyTorch, and compiles every operation anew on JAX.
examples = 3 if keras.backend.backend() == "jax" else 20
settings.register_profile("comet_keras", max_examples=examples, deadline=None, derandomize=True)
settings.load_profile("comet_keras")


@pytest.fixture(autouse=True)
def fixed_seed():
    keras.utils.set_random_seed(20230806)
