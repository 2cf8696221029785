"""Images and labels of MNIST and Fashion-MNIST, as they are published."""

import zipfile

import numpy as np

from comet_keras.datasets.idx import read_idx
from comet_keras.datasets.text_table import find_file
from comet_keras.datasets.tfds_arrays import from_tfds

SIDE, NUM_CLASSES = 28, 10
SPLITS = ("train", "t10k")
SUBFOLDERS = {"mnist": ("", "mnist"), "fashion_mnist": ("", "fashion_mnist", "fashion-mnist")}


def mnist_images(name, data_dir, info):
    """The training and the test part of MNIST or Fashion-MNIST.

    Args:
        name: `"mnist"` or `"fashion_mnist"`.
        data_dir: None, or a folder, str or path, that holds, itself or in a folder `mnist`, or
            `fashion_mnist` or `fashion-mnist`: the four original idx files, plain or gzipped; or
            `<name>.npz` as Keras has it, with `x_train`, `y_train`, `x_test` and `y_test`; or what
            tensorflow-datasets prepared there. None: tensorflow-datasets' own folder, into which it downloads.
        info: `DatasetInfo` of the data set that is made of them, for errors.

    Returns:
        Two pairs of images, uint8 `(N, 28, 28)`, and labels, uint8 `(N,)`.

    Raises:
        FileNotFoundError: if nothing or only a part is there; says what to download and where to put it.
        ValueError: if a file is damaged or holds something else; names the file.
    """
    found = None if data_dir is None else _read_folder(name, info.require(data_dir), info)
    if found is not None:
        return found
    parts = from_tfds(info, name, ["train", "test"], data_dir)
    return [_checked(part["image"][..., 0], part["label"], f"{name} of tensorflow-datasets") for part in parts]


def _read_folder(name, data_dir, info):
    for folder in (data_dir / subfolder for subfolder in SUBFOLDERS[name]):
        files = {
            (split, kind): _find_idx(folder, split, kind) for split in SPLITS for kind in ("images-idx3", "labels-idx1")
        }
        missing = [f"{split}-{kind}-ubyte" for (split, kind), path in files.items() if path is None]
        if not missing:
            return [_read_idx_pair(files[split, "images-idx3"], files[split, "labels-idx1"]) for split in SPLITS]
        if len(missing) < len(files):
            raise FileNotFoundError(f"{str(folder)!r} lacks {', '.join(missing)} (plain or .gz). {info.advice}")
        if (folder / f"{name}.npz").is_file():
            return _read_npz(folder / f"{name}.npz")
    return None


def _find_idx(folder, split, kind):
    # Some unpackers write a dot for the first dash.
    names = (f"{split}-{kind}-ubyte", f"{split}-{kind.replace('-', '.')}-ubyte")
    return next(filter(None, (find_file(folder / name) for name in names)), None)


def _read_idx_pair(images, labels):
    return _checked(read_idx(images), read_idx(labels), f"{images} and {labels.name}")


def _read_npz(path):
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return [_checked(arrays[f"x_{part}"], arrays[f"y_{part}"], path) for part in ("train", "test")]
    except KeyError as error:
        raise ValueError(f"{path} must hold x_train, y_train, x_test and y_test. {error.args[0]}") from error
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ValueError(f"{path} is cut off or no npz file: {error}") from error


def _checked(images, labels, where):
    if images.dtype != "uint8" or images.shape[1:] != (SIDE, SIDE) or images.shape[:1] != labels.shape:
        raise ValueError(
            f"{where}: expected bytes (N, {SIDE}, {SIDE}) and N labels. "
            f"Found: {images.dtype} {images.shape} and {labels.shape}"
        )
    if labels.dtype.kind not in "iu" or not len(labels) or not 0 <= labels.min() <= labels.max() < NUM_CLASSES:
        raise ValueError(f"{where}: expected labels 0..{NUM_CLASSES - 1}. Found: {np.unique(labels)[:20].tolist()}")
    return images, labels.astype("uint8")
