"""CelebA: attributes of faces."""

from dataclasses import dataclass

import numpy as np

from comet_keras.datasets.celeb_a_files import SPLITS, check_known, read_folder
from comet_keras.datasets.dataset import Dataset, Split
from comet_keras.datasets.registry import DATASETS
from comet_keras.datasets.tfds_arrays import from_tfds
from comet_keras.validation import non_negative_int, positive_int

# The ten whose share of positives is nearest to a half.
ATTRIBUTES = (
    "Attractive",
    "Mouth_Slightly_Open",
    "Smiling",
    "Wearing_Lipstick",
    "High_Cheekbones",
    "Male",
    "Heavy_Makeup",
    "Wavy_Hair",
    "Oval_Face",
    "Pointy_Nose",
)
IMAGE_SIZE = (128, 128)


def celeb_a(data_dir=None, rows=None, seed=0, attributes=ATTRIBUTES, image_size=IMAGE_SIZE):
    """Faces and their attributes, a binary task each.

    Source: COMET (KDD 2023), Supplement S1.1; data by Liu et al. (ICCV 2015),
    http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, for non-commercial research only. Split as
    published: 162,770 / 19,867 / 19,962 images. The paper names neither its ten attributes nor its
    image size: both are choices here.

    File names, or JPEG contents from tensorflow-datasets (1.4 GB), are kept; batches are decoded and
    resized when they are read.

    Args:
        data_dir: folder, str or path, with `list_attr_celeba.txt` and `list_eval_partition.txt`, plain
            or gzipped, and the aligned images in `img_align_celeba/`, in it or in a folder `celeba` or
            `celeb_a`. Images that are not there are left out. Default: tensorflow-datasets, which
            downloads.
        rows: int, training images, drawn at random; validation and test get as many as keeps their
            shares. Default: all.
        seed: int, decides the draws.
        attributes: sequence of str, of the 40 attributes. Default: the ten that are nearest to being
            on in half of the images.
        image_size: pair of ints, height and width to which images (218 x 178) are resized. Default
            `(128, 128)`.

    Returns:
        `Dataset` whose batches have features `{"image": float32 (B, height, width, 3)}` in 0..1, and
        targets float32 `(B,)`, 0 or 1, by attribute. A split's own image is a name or bytes.

    Raises:
        FileNotFoundError: if tables or images are not there; says what to download and where to put it.
        ValueError: if a table is malformed (naming file and line) or lacks images that are there, or
            an argument is not allowed.
    """
    rows = rows if rows is None else positive_int("rows", rows)
    attributes = tuple(attributes) if not isinstance(attributes, str) else (attributes,)
    if not attributes or len(set(attributes)) < len(attributes):
        raise ValueError(f"`attributes` must name attributes, each once. Received: attributes={attributes!r}")
    image_size = _checked_size(image_size)
    folder, splits, note = _read(data_dir, attributes)
    if rows is not None:
        splits = _drawn(splits, rows, np.random.default_rng(non_negative_int("seed", seed)))
    transform = DecodeImages(image_size, folder)
    sizes = [len(images) for images, _ in splits]
    return Dataset(
        "celeb_a",
        *(Split({"image": images}, labels, {}, transform) for images, labels in splits),
        tasks=dict.fromkeys(attributes, "binary"),
        description=(
            f"CelebA's aligned images at {image_size[0]} x {image_size[1]}, split as published; "
            f"{', '.join(map(str, sizes))} images in train, validation, test{note}; seed={seed}."
        ),
    )


@dataclass(eq=False)
class DecodeImages:
    """Transform of a split: JPEG files into float32 images in 0..1, of one size.

    Args:
        image_size: pair of ints, height and width.
        folder: str, of the files that `image` names; None where `image` holds their contents.

    Call arguments:
        features: dict with `image`, str tensor `(B,)`.

    Returns:
        `{"image": float32 (B, height, width, 3)}`.
    """

    image_size: tuple
    folder: str | None = None

    def __call__(self, features):
        import tensorflow as tf

        def load(image):
            content = image if self.folder is None else tf.io.read_file(tf.strings.join([self.folder, image], "/"))
            pixels = tf.io.decode_jpeg(content, channels=3)
            return tf.image.resize(pixels, self.image_size, antialias=True) / 255

        spec = tf.TensorSpec((*self.image_size, 3), tf.float32)
        return {"image": tf.map_fn(load, features["image"], fn_output_signature=spec)}


def _checked_size(image_size):
    if not isinstance(image_size, (list, tuple)) or len(image_size) != 2:
        raise ValueError(f"`image_size` must be a pair of height and width. Received: image_size={image_size!r}")
    return tuple(positive_int("image_size", side) for side in image_size)


def _read(data_dir, attributes):
    """The images' folder, images and labels of three splits, and a note for the description."""
    found = None if data_dir is None else read_folder(data_dir, attributes, DATASETS["celeb_a"])
    if found is not None:
        return found
    splits = []
    decoders = {"image": _no_decoding()}
    for part in from_tfds(DATASETS["celeb_a"], "celeb_a", list(SPLITS), data_dir, decoders):
        check_known(attributes, part["attributes"])
        labels = {attribute: part["attributes"][attribute].astype("float32") for attribute in attributes}
        splits.append((part["image"], labels))
    return None, splits, ""


def _no_decoding():
    try:
        import tensorflow_datasets as tfds
    except ImportError:  # which `load_tfds` tells of
        return None
    return tfds.decode.SkipDecoding()


def _drawn(splits, rows, generator):
    train = len(splits[0][0])
    if rows > train:
        raise ValueError(f"`rows` must be at most {train}, the training images. Received: rows={rows}")
    drawn = []
    for images, labels in splits:
        chosen = generator.permutation(len(images))[: max(1, rows * len(images) // train)]
        drawn.append((images[chosen], {attribute: values[chosen] for attribute, values in labels.items()}))
    return drawn
