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
