"""Experts of one's own: any Keras layers with the same output shape, here of four different kinds.

    python examples/own_experts.py [--epochs 15]

A COMET gate learns which kind serves which image: two convolutional networks, a plain one, and a linear map.
An expert without rows costs nothing, in training too.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from comet_keras import COMETGate, MixtureOfExperts
from comet_keras.metrics import routing_statistics
from comet_keras.regularizers import Importance
from comet_keras.reports import text_table

UNITS = 32


def make_experts():
    layers = keras.layers

    def convolutional(filters, size):
        convolution = layers.Conv2D(filters, size, activation="relu")
        return keras.Sequential([convolution, layers.MaxPooling2D(), layers.Flatten(), layers.Dense(UNITS)])

    return {
        "3 x 3 filters": convolutional(16, 3),
        "5 x 5 filters": convolutional(16, 5),
        "two dense layers": keras.Sequential([layers.Flatten(), layers.Dense(64, "relu"), layers.Dense(UNITS)]),
        "linear": keras.Sequential([layers.Flatten(), layers.Dense(UNITS)]),
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    arguments = parser.parse_args(argv)
    keras.utils.set_random_seed(0)
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype("float32")
    x, x_test, y, y_test = train_test_split(images, digits.target, test_size=0.3, random_state=0)

    experts = make_experts()
    image = keras.Input(x.shape[1:])
    gate = COMETGate(len(experts), k=2, gamma=1.0, entropy_weight=0.05, regularizers=[Importance(0.1)])
    # The gate reads the pixels as a vector; the experts read the image.
    tower = MixtureOfExperts(list(experts.values()), gate)(image, gate_inputs=keras.layers.Flatten()(image))
    outputs = keras.layers.Dense(10, activation="softmax")(keras.layers.ReLU()(tower))
    model = keras.Model(image, outputs)
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, validation_data=(x_test, y_test), batch_size=64, epochs=arguments.epochs, verbose=2)

    figures = routing_statistics(model, x_test)[""]
    usage = np.asarray(figures["expert_usage"])
    print(text_table([[name, f"{share:.1%}"] for name, share in zip(experts, usage)], ["expert", "share of weight"]))
    print(f"{figures['experts_per_sample']:.2f} experts an image")
    return model.evaluate(x_test, y_test, verbose=0, return_dict=True)


if __name__ == "__main__":
    main()
