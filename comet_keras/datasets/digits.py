"""Digits: MNIST and SVHN in one."""

import numpy as np

from comet_keras.datasets.dataset import Dataset, Split
from comet_keras.datasets.mnist_images import NUM_CLASSES, mnist_images
from comet_keras.datasets.multi_mnist import split_off
from comet_keras.datasets.registry import DATASETS
from comet_keras.datasets.svhn_images import SIDE, svhn_images
from comet_keras.validation import non_negative_int, positive_int

SVHN_SHARE = 75_000 / 630_420  # of all images, for validation and as much for test


def digits(data_dir=None, rows=None, seed=0):
    """Handwritten digits and house numbers: which digit is it?

    Source: COMET (KDD 2023), Supplement S1.1; MNIST by LeCun et al., SVHN by Netzer et al. (2011),
    http://ufldl.stanford.edu/housenumbers. Split as the paper has it, the corresponding splits joined:
    MNIST 50,000 / 10,000 / 10,000 (the test images are MNIST's own) and SVHN 480,420 / 75,000 / 75,000.
    These SVHN sizes exist only when its train, test and extra parts are pooled, so they are, and split
    at random, stratified by digit.

    The paper does not say how images of 28 x 28 grey and 32 x 32 colour pixels become one format. Here
    MNIST's get a black frame of two pixels and three equal channels.

    Images are kept as bytes: 2 GB for all, and 4 GB while they are read. Needs scikit-learn.

    Args:
        data_dir: folder, str or path, with MNIST's four original idx files, plain or gzipped, or Keras'
            `mnist.npz`, in it or in a folder `mnist`; and `train_32x32.mat`, `test_32x32.mat` and
            `extra_32x32.mat`, in it or in a folder `svhn`. Default: tensorflow-datasets, which
            downloads.
        rows: int, training images, drawn at random; validation and test get as many as keeps the
            paper's shares. Default: all.
        seed: int, decides the split and the draws.

    Returns:
        `Dataset` whose batches have features `{"image": float32 (B, 32, 32, 3)}` in 0..1 and targets
        `{"digit": int32 (B,)}` in 0..9. A split's own image is uint8.

    Raises:
        FileNotFoundError: if MNIST or SVHN is not there; says what to download and where to put it.
        ValueError: if a file is damaged (naming it), or `rows` is larger than the training split.
    """
    rows = rows if rows is None else positive_int("rows", rows)
    info = DATASETS["digits"]
    mnist = [(_as_colour(images), labels) for images, labels in mnist_images("mnist", data_dir, info)]
    sources = [*mnist, *svhn_images(data_dir, info)]
    labels = np.concatenate([labels for _, labels in sources])
    splits = _split_numbers(labels, len(mnist[0][1]), len(mnist[1][1]), seed)
    if rows is not None:
        splits = _drawn(splits, rows, np.random.default_rng(non_negative_int("seed", seed)))
    return Dataset(
        "digits",
        *(
            Split({"image": _gather(sources, numbers)}, {"digit": labels[numbers].astype("int32")}, {}, ScaleImages())
            for numbers in splits
        ),
        tasks={"digit": "multiclass"},
        num_classes={"digit": NUM_CLASSES},
        description=(
            "MNIST, padded to 32 x 32 and repeated in three channels, and SVHN's train, test and extra images, "
            f"split at random; {', '.join(str(len(numbers)) for numbers in splits)} images in train, validation, "
            f"test; seed={seed}."
        ),
    )


class ScaleImages:
    """Transform of a split: images as bytes into float32 images in 0..1."""

    def __call__(self, features):
        import tensorflow as tf

        return {"image": tf.cast(features["image"], tf.float32) / 255}


def _as_colour(images):
    """`(N, 28, 28)` padded to `(N, 32, 32)`, in three channels that share their memory."""
    frame = (SIDE - images.shape[1]) // 2
    padded = np.pad(images, ((0, 0), (frame, frame), (frame, frame)))
    return np.broadcast_to(padded[..., None], (*padded.shape, 3))


def _split_numbers(labels, mnist_train, mnist_test, seed):
    """Numbers of the images in train, validation and test, over all sources in a row."""
    train, validation = split_off(labels[:mnist_train], 1 / 6, seed)
    test = np.arange(mnist_train, mnist_train + mnist_test)
    start = mnist_train + mnist_test
    others, svhn_test = split_off(labels[start:], SVHN_SHARE, seed)
    share = len(svhn_test) / len(others)
    kept, svhn_validation = split_off(labels[start:][others], share, seed)
    svhn = others[kept], others[svhn_validation], svhn_test
    return [np.concatenate([a, start + b]) for a, b in zip((train, validation, test), svhn)]


def _drawn(splits, rows, generator):
    train = len(splits[0])
    if rows > train:
        raise ValueError(f"`rows` must be at most {train}, the training images. Received: rows={rows}")
    counts = (max(1, rows * len(numbers) // train) for numbers in splits)
    return [generator.permutation(numbers)[:count] for numbers, count in zip(splits, counts)]


def _gather(sources, numbers):
    """The images of some numbers, in their order, source by source: no copy of all of them."""
    images, start = np.empty((len(numbers), SIDE, SIDE, 3), "uint8"), 0
    for source, _ in sources:
        here = np.flatnonzero((numbers >= start) & (numbers < start + len(source)))
        images[here] = source[numbers[here] - start]
        start += len(source)
    return images
