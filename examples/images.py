"""Two tasks on one image: name both garments of an overlapping pair (MultiFashionMNIST).

    python examples/images.py --data-dir DIR [--gate comet+] [--rows 20000] [--epochs 10]

DIR holds Fashion-MNIST's four idx files (https://github.com/zalandoresearch/fashion-mnist). Without it the
images are scikit-learn's packaged digits, enlarged and written to a folder in the same format.
"""

import argparse
import gzip
import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from comet_keras import datasets
from comet_keras.callbacks import PermutationHistory
from comet_keras.reports import class_routing, class_routing_heat_maps, permutation_evolution, save_figure, text_table
from comet_keras.train import TrainingConfig, train


def packaged_digits():
    """A folder with 1,797 digits as idx files of 28 x 28 images: 1,400 to train with and 397 to test."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.kron(digits.images, np.ones((3, 3))) * 255 / 16  # 8 x 8 to 24 x 24
    images = np.pad(images, ((0, 0), (2, 2), (2, 2))).astype("uint8")
    folder = Path(tempfile.mkdtemp())
    for name, part in (("train", slice(1400)), ("t10k", slice(1400, None))):
        for kind, array in (("images-idx3", images[part]), ("labels-idx1", digits.target[part].astype("uint8"))):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + array.tobytes()))
    return folder


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir")
    parser.add_argument("--gate", default="comet+")
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args(argv)
    config = TrainingConfig(
        "multi_fashion_mnist",
        gate=arguments.gate,
        data_dir=arguments.data_dir or packaged_digits(),
        rows=arguments.rows,
        epochs=arguments.epochs,
        permutation_epochs=2,
        batch_size=128,
        learning_rate=2e-3,
        output_dir="runs/images",
    )
    data = datasets.load(config.task, config.data_dir, config.rows)
    history = PermutationHistory()
    result = train(config, data, callbacks=[history])

    rows = [[t, f["accuracy"], result.experts_per_sample[t]] for t, f in result.test["tasks"].items()]
    print(text_table(rows, ["task", "test accuracy", "experts an image"], precision=3))
    routing = class_routing(result.model, data.test, data.tasks)
    print(save_figure(class_routing_heat_maps(routing), "runs/images/class_routing.png"))
    if history.hard:
        (soft,), (hard,) = history.soft.values(), history.hard.values()
        print(save_figure(permutation_evolution(soft, hard), "runs/images/permutation.png"))
    return result


if __name__ == "__main__":
    main()
