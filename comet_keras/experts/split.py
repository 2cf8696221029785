import keras

if keras.backend.backend() == "tensorflow":
    from comet_keras.experts.split_tensorflow import split_rows
elif keras.backend.backend() == "torch":
    from comet_keras.experts.split_torch import split_rows
else:

    def split_rows(rows, sizes, num):
        """Parts whose sizes depend on the data: not on JAX, which compiles for fixed sizes."""
        raise NotImplementedError("Rows can't be split by sizes that depend on the data on JAX.")
