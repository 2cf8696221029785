"""MultiDigits: the paper's MultiMNIST at a size that trains in seconds."""

import numpy as np

from comet_keras.datasets.dataset import Dataset, Split
from comet_keras.datasets.overlay import overlay
from comet_keras.validation import non_negative_int, positive_int

BRIGHTEST = 16  # pixels of scikit-learn's digits are 0..16

MOST_PAIRS = 10_000_000  # 6 GB of images


def multi_digits(train_pairs=10_000, validation_pairs=2_000, test_pairs=2_000, shift=4, clip=False, seed=0):
    """Pairs of overlapping handwritten digits: name the top-left one and the bottom-right one.

    Built from scikit-learn's 1,797 digits (8 x 8) the way the COMET paper
    builds MultiMNIST from MNIST (KDD 2023, Supplement S1.1, and the authors'
    `generate_mnist_dataset.py`). The images are split 5/7, 1/7, 1/7,
    stratified by digit, before they are paired, so no image is in two splits.
    Each image of a split is top-left equally often (to within one); its
    partner is drawn uniformly from all images of the split. (The authors'
    code never draws the last image; here every image can be drawn.)

    Needs scikit-learn; downloads nothing.

    Args:
        train_pairs, validation_pairs, test_pairs: int, number of pairs.
        shift: int, canvas side less image side. Defaults to 4 (8 + 4 = 12),
            close to the paper's 28 + 8 = 36.
        clip: if True, added pixels stop at the brightest value of one image.
            Defaults to False, as in the authors' code.
        seed: int, decides the split and the pairs.

    Returns:
        `Dataset` with features `{"image": float32 (N, 8 + shift, 8 + shift, 1)}`
        in 0..1 (0..2 where unclipped images overlap), targets `{"top_left":
        int32 (N,), "bottom_right": int32 (N,)}` in 0..9, and sample weights of one.

    Example:

    >>> from comet_keras.datasets import multi_digits
    >>> data = multi_digits(train_pairs=100, validation_pairs=20, test_pairs=20)
    >>> data.train.features["image"].shape, data.num_classes
    ((100, 12, 12, 1), {'top_left': 10, 'bottom_right': 10})
    """
    pairs = {"train_pairs": train_pairs, "validation_pairs": validation_pairs, "test_pairs": test_pairs}
    for name, value in pairs.items():
        if positive_int(name, value) > MOST_PAIRS:
            raise ValueError(f"`{name}` must be at most {MOST_PAIRS:,}. Received: {name}={value!r}")
    pairs = list(pairs.values())
    generator = np.random.default_rng(non_negative_int("seed", seed))
    images, digits, parts = _split_digits(seed)
    splits = [
        _paired(images[part], digits[part], count, shift, BRIGHTEST if clip else None, generator)
        for part, count in zip(parts, pairs)
    ]
    return Dataset(
        "multi_digits",
        *splits,
        tasks={"top_left": "multiclass", "bottom_right": "multiclass"},
        num_classes={"top_left": 10, "bottom_right": 10},
        description=(
            "Overlapping pairs of scikit-learn's 8 x 8 digits, built as the COMET paper's MultiMNIST; "
            f"{', '.join(str(len(part)) for part in parts)} images in train, validation, test; "
            f"shift={shift}, clip={clip}, seed={seed}."
        ),
    )


def _split_digits(seed):
    """Returns images `(1797, 8, 8)`, digits `(1797,)` and three arrays of image numbers."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, digits = load_digits().images, load_digits().target
    share = round(len(digits) / 7)
    numbers = np.arange(len(digits))
    rest, test = train_test_split(numbers, test_size=share, stratify=digits, random_state=seed)
    train, validation = train_test_split(rest, test_size=share, stratify=digits[rest], random_state=seed)
    return images, digits, (train, validation, test)


def _paired(images, digits, count, shift, clip, generator):
    total = len(images)
    rounds = [generator.permutation(total) for _ in range(-(-count // total))]
    first = np.concatenate(rounds)[:count]
    second = generator.integers(total, size=count)
    canvas = overlay(images[first], images[second], shift, clip) / BRIGHTEST
    return Split(
        features={"image": canvas.astype("float32")[..., None]},
        targets={"top_left": digits[first].astype("int32"), "bottom_right": digits[second].astype("int32")},
    )
