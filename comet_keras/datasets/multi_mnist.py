"""MultiMNIST and MultiFashionMNIST: two overlapping images, to be named both."""

from dataclasses import dataclass

import numpy as np

from comet_keras.datasets.dataset import Dataset, Split
from comet_keras.datasets.mnist_images import NUM_CLASSES, mnist_images
from comet_keras.datasets.registry import DATASETS
from comet_keras.validation import non_negative_int, positive_int

SHIFT = 8  # 28 + 8 = 36
ROUNDS = 2  # how often each image lies in the top-left corner
BRIGHTEST = 255


def multi_mnist(data_dir=None, rows=None, seed=0, clip=False):
    """Pairs of overlapping handwritten digits: name the top-left one and the bottom-right one.

    Source: COMET (KDD 2023), Supplement S1.1, and the authors' `generate_mnist_dataset.py`; MNIST by
    LeCun et al. The 60,000 training images are split 50,000 / 10,000, stratified by digit, before they
    are paired; the 10,000 test images are the test split's. So no image is in two splits. Each image
    of a split lies in the top-left corner of a 36 x 36 canvas twice, with a partner drawn uniformly
    from all images of the split in the bottom-right corner, 8 pixels off: 100,000 / 20,000 / 20,000
    pairs. Where both lie, pixels are added, and divided by 255. (The authors' code never draws the
    last image; here every image can be drawn.)

    Only the base images, in bytes, and each pair's two numbers are kept; batches are overlaid when they
    are read. Needs scikit-learn.

    Args:
        data_dir: folder, str or path, with the four original idx files, plain or gzipped, or Keras'
            `mnist.npz`, in it or in a folder `mnist`. Default: tensorflow-datasets, which downloads.
        rows: int, training pairs; validation and test get a fifth each. Default: all.
        seed: int, decides the split and the pairs.
        clip: if True, added pixels stop at the brightest value of one image. Default False, as in the
            authors' code.

    Returns:
        `Dataset` whose batches have features `{"image": float32 (B, 36, 36, 1)}` in 0..1 (0..2 where
        unclipped images overlap), targets `{"top_left": int32 (B,), "bottom_right": int32 (B,)}` in
        0..9, and sample weights of one. A split's own features are the numbers of its base images.

    Raises:
        FileNotFoundError: if the images are not there; says what to download and where to put it.
        ValueError: if a file is damaged (naming it), or `rows` is larger than the training split.

    Example:

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from comet_keras.datasets import multi_mnist
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "mnist.npz"
    >>> images, labels = np.zeros((120, 28, 28), "uint8"), np.arange(120) % 10
    >>> np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels)
    >>> data = multi_mnist(path.parent)
    >>> len(data.train), data.train.input_shapes
    (200, {'image': (36, 36, 1)})
    """
    return _pairs("multi_mnist", "mnist", data_dir, rows, seed, clip)


def multi_fashion_mnist(data_dir=None, rows=None, seed=0, clip=False):
    """Pairs of overlapping pieces of clothing: name the top-left one and the bottom-right one.

    `multi_mnist` of Fashion-MNIST (Xiao, Rasul and Vollgraf, 2017); arguments, results and errors are
    the same. Source: COMET (KDD 2023), Supplement S1.1.

    Args:
        data_dir: folder, str or path, with the four original idx files, plain or gzipped, or a
            `fashion_mnist.npz`, in it or in a folder `fashion_mnist` or `fashion-mnist`. Default:
            tensorflow-datasets, which downloads.
        rows, seed, clip: see `multi_mnist`.

    Returns:
        `Dataset`, see `multi_mnist`.
    """
    return _pairs("multi_fashion_mnist", "fashion_mnist", data_dir, rows, seed, clip)


@dataclass(eq=False, repr=False)
class OverlayPairs:
    """Transform of a split: a batch of pairs of image numbers into overlaid images.

    Args:
        images: uint8 array `(N, height, width)`.
        shift: int, pixels by which the canvas is larger than an image.
        clip: bool, whether sums stop at 255.

    Call arguments:
        features: dict of int tensors `(B,)`, `"top_left"` and `"bottom_right"`.

    Returns:
        `{"image": float32 (B, height + shift, width + shift, 1)}`.
    """

    images: np.ndarray
    shift: int = SHIFT
    clip: bool = False

    def __call__(self, features):
        import tensorflow as tf

        with tf.init_scope():  # once a pipeline, and not as a constant within its graph
            with tf.device("CPU:0"):
                images = tf.constant(self.images)

        def placed(numbers, before, after):
            chosen = tf.gather(images, numbers)
            return tf.cast(tf.pad(chosen, ((0, 0), (before, after), (before, after))), tf.float32)

        canvas = placed(features["top_left"], 0, self.shift) + placed(features["bottom_right"], self.shift, 0)
        if self.clip:
            canvas = tf.minimum(canvas, float(BRIGHTEST))
        return {"image": canvas[..., None] / BRIGHTEST}


def split_off(labels, share, seed):
    """Numbers of the rows that stay and of those that are held out, `share` of all, stratified by label."""
    from sklearn.model_selection import train_test_split

    numbers = np.arange(len(labels))
    return train_test_split(numbers, test_size=round(len(labels) * share), stratify=labels, random_state=seed)


def _pairs(name, source, data_dir, rows, seed, clip):
    (images, labels), test = mnist_images(source, data_dir, DATASETS[name])
    parts = [(images[numbers], labels[numbers]) for numbers in split_off(labels, 1 / 6, seed)]
    rows = rows if rows is None else positive_int("rows", rows)
    most = ROUNDS * len(parts[0][0])
    if rows is not None and rows > most:
        raise ValueError(f"`rows` must be at most {most}, the training pairs. Received: rows={rows}")
    held_out = None if rows is None else max(1, rows // 5)
    generator = np.random.default_rng(non_negative_int("seed", seed))
    splits = [
        _paired(*part, count, clip, generator)
        for part, count in zip([*parts, test], (rows, held_out, held_out))
    ]
    tasks = ("top_left", "bottom_right")
    return Dataset(
        name,
        *splits,
        tasks=dict.fromkeys(tasks, "multiclass"),
        num_classes=dict.fromkeys(tasks, NUM_CLASSES),
        description=(
            f"Overlapping pairs of {', '.join(str(len(part[0])) for part in [*parts, test])} images in train, "
            f"validation, test, as the COMET paper's; clip={clip}, seed={seed}."
        ),
    )


def _paired(images, labels, count, clip, generator):
    total = len(images)
    first = np.concatenate([generator.permutation(total) for _ in range(ROUNDS)])[:count]
    second = generator.integers(total, size=len(first))
    numbers = {"top_left": first.astype("int32"), "bottom_right": second.astype("int32")}
    return Split(
        features=numbers,
        targets={task: labels[chosen].astype("int32") for task, chosen in numbers.items()},
        transform=OverlayPairs(images, clip=clip),
    )
