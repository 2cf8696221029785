"""Cropped images and labels of SVHN, as they are published."""

import numpy as np

from comet_keras.datasets.tfds_arrays import from_tfds

SIDE = 32
PARTS = ("train", "test", "extra")


def svhn_images(data_dir, info):
    """The three parts of SVHN's cropped digits.

    Args:
        data_dir: None, or a folder, str or path, that holds, itself or in a folder `svhn`, `train_32x32.mat`,
            `test_32x32.mat` and `extra_32x32.mat`, or what tensorflow-datasets prepared there.
            None: tensorflow-datasets' own folder, into which it downloads.
        info: `DatasetInfo` of the data set that is made of them, for errors.

    Returns:
        Three pairs of images, uint8 `(N, 32, 32, 3)`, and labels, uint8 `(N,)` in 0..9: train, test and
        extra.

    Raises:
        FileNotFoundError: if a part is missing; says what to download and where to put it.
        ValueError: if a file is damaged or holds something else; names the file.
    """
    for folder in () if data_dir is None else (info.require(data_dir), info.require(data_dir) / "svhn"):
        files = [folder / f"{part}_32x32.mat" for part in PARTS]
        missing = [file.name for file in files if not file.is_file()]
        if not missing:
            return [_read_mat(file) for file in files]
        if len(missing) < len(files):
            raise FileNotFoundError(f"{str(folder)!r} lacks {', '.join(missing)}. {info.advice}")
    parts = from_tfds(info, "svhn_cropped", list(PARTS), data_dir)
    return [(part["image"], part["label"].astype("uint8")) for part in parts]


def _read_mat(path):
    from scipy.io import loadmat

    try:
        arrays = loadmat(path, variable_names=("X", "y"))
    except Exception as error:  # scipy has no error of its own for damaged files
        raise ValueError(f"{path} is cut off or no MATLAB file: {error}") from error
    images, labels = arrays.get("X", np.zeros(0)), arrays.get("y", np.zeros(0))
    fits = images.dtype == "uint8" and images.ndim == 4 and images.shape[:3] == (SIDE, SIDE, 3)
    if not fits or labels.size != images.shape[-1]:
        raise ValueError(
            f"{path}: expected X as bytes ({SIDE}, {SIDE}, 3, N) and N labels y. "
            f"Found: {images.dtype} {images.shape} and {labels.shape}"
        )
    labels = labels.ravel()
    if not np.isin(labels, np.arange(1, 11)).all():
        raise ValueError(f"{path}: expected labels 1..10. Found: {np.unique(labels)[:20].tolist()}")
    # The files number the digits 1..10, with 10 for 0. The images stay a view: a copy may be 1.6 GB.
    return images.transpose(3, 0, 1, 2), (labels % 10).astype("uint8")
