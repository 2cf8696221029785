import keras

if keras.backend.backend() == "tensorflow":
    from comet_keras.compiler_tensorflow import needs_static_shapes
else:

    def needs_static_shapes():
        """Whether tensors must have sizes that do not depend on the data, as on JAX."""
        return keras.backend.backend() == "jax"
