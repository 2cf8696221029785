"""Arrays from tensorflow-datasets, where there are no original files."""

from pathlib import Path

import numpy as np

BATCH = 10_000


def from_tfds(info, name, splits, data_dir, decoders=None):
    """`load_tfds` for a data set of the registry.

    Raises:
        FileNotFoundError: as `load_tfds`, or if `data_dir` is given and tensorflow-datasets has prepared
            nothing there.
    """
    if data_dir is not None and not (Path(data_dir) / name).is_dir():
        raise FileNotFoundError(info.nothing_in(data_dir))
    return load_tfds(name, splits, data_dir, info.advice, decoders)


def load_tfds(name, splits, data_dir, advice, decoders=None):
    """Splits of a data set of tensorflow-datasets as numpy arrays.

    Args:
        name: str, such as `"mnist"`.
        splits: list of str.
        data_dir: path of a folder in which tensorflow-datasets has prepared the data set before, or
            None: its own folder, and a download if nothing is there.
        advice: str, what to download and where to put it, for the error.
        decoders: see `tfds.load`.

    Returns:
        List of dicts of arrays, one a split.

    Raises:
        FileNotFoundError: if the data set is not there and cannot be had.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise FileNotFoundError(f"`data_dir` is missing, and tensorflow-datasets is not installed. {advice}") from error
    folder = None if data_dir is None else str(data_dir)
    try:
        parts = tfds.load(
            name,
            split=splits,
            batch_size=BATCH,
            shuffle_files=False,
            data_dir=folder,
            download=data_dir is None,
            decoders=decoders,
        )
    except Exception as error:  # its downloads fail in many ways
        raise FileNotFoundError(
            f"tensorflow-datasets could not load {name!r} ({type(error).__name__}: {error}). {advice}"
        ) from error
    return [_joined(list(tfds.as_numpy(part))) for part in parts]


def _joined(batches):
    from tensorflow import nest

    return nest.map_structure(lambda *arrays: np.concatenate(arrays), *batches)
