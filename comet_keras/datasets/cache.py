"""Data sets kept as plain arrays, so that they are prepared once and then opened at once."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import numpy as np

from comet_keras.datasets.dataset import Dataset, Split
from comet_keras.datasets.registry import info

try:
    import fcntl
except ImportError:  # Windows, where a second `prepare` of the same folder is not noticed
    fcntl = None

FORMAT = 1
INDEX = "dataset.json"  # a folder with it is complete
LOCK = "lock"
PARTS = ("features", "targets", "sample_weights")


def load(name, data_dir=None, rows=None, seed=0):
    """Loads a data set by its name.

    Args:
        name: str, one of `comet_keras.datasets.names()`.
        data_dir: folder, str or path: of the original files, or one that
            `prepare` wrote, whose arrays are then opened without being read.
            Default: tensorflow-datasets, where it has the data set.
        rows: int, number of training rows. Default: all, or as many as were prepared.
        seed: int, decides draws and splits.

    Returns:
        `Dataset`. From a prepared folder the same as from the original files.

    Raises:
        FileNotFoundError: if the data is not there; says what to download and where to put it.
        ValueError: if `name` is unknown, a file is malformed, or a folder was
            prepared for something else.

    Example:

    >>> from comet_keras import datasets
    >>> data = datasets.load("multi_digits", rows=100)
    >>> len(data.train), len(data.test)
    (100, 20)
    """
    entry = info(name)
    if data_dir is not None and is_prepared(data_dir):
        return _read(Path(data_dir), name, rows, seed)
    return entry.load(data_dir, rows, seed)


def prepare(name, output, data_dir=None, rows=None, seed=0, progress=None):
    """Loads a data set and keeps its arrays in a folder that `load` opens.

    The folder appears complete or not at all: it is written under another name
    beside `output`. What a killed run leaves there, the next run removes.

    Args:
        name: str, one of `comet_keras.datasets.names()`.
        output: str or path of the new folder; it may be there if it is empty.
        data_dir, rows, seed: see `load`.
        progress: function, called as `progress(written, total)` in bytes, with
            0 first, after the data set is loaded.

    Returns:
        The `Dataset`, as it was loaded.

    Raises:
        ValueError: if `output` is not empty, is being prepared by another
            process, or the data set makes its inputs batch by batch, from files
            or bytes that are quick to read. And what `load` raises.

    Example:

    >>> import tempfile
    >>> from comet_keras import datasets
    >>> folder = tempfile.mkdtemp()
    >>> _ = datasets.prepare("multi_digits", folder, rows=100)
    >>> len(datasets.load("multi_digits", folder).train)
    100
    """
    info(name)
    output = Path(output).absolute()
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"`output` must be a new or empty folder. Received: output={str(output)!r}")
    if not output.parent.is_dir():
        raise FileNotFoundError(f"`output`: there is no folder {str(output.parent)!r}")
    with _whole_folder(output) as folder:
        dataset = load(name, data_dir, rows, seed)
        if any(split.transform is not None for split in dataset.splits.values()):
            raise ValueError(
                f"{name} needs no preparation: its images are read quickly from the original files and turned into "
                "inputs batch by batch. Give their folder as `data_dir`."
            )
        _write(dataset, folder, {"rows": rows, "seed": seed}, progress or (lambda written, total: None))
    return dataset


def is_prepared(folder):
    """Whether `folder` was written by `prepare`."""
    return (Path(folder) / INDEX).is_file()


@contextlib.contextmanager
def _whole_folder(output):
    """A folder to write to, which becomes `output` if all goes well and disappears if not."""
    partial = output.with_name(f".{output.name}.partial")
    partial.mkdir(exist_ok=True)
    with _locked(partial / LOCK):
        try:
            for leftover in partial.iterdir():
                if leftover.name != LOCK:
                    leftover.unlink()
            yield partial
            (partial / LOCK).unlink(missing_ok=True)
            if output.exists():
                output.rmdir()  # it is empty
            os.replace(partial, output)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


@contextlib.contextmanager
def _locked(path):
    """Scope in which no other process may hold the file's lock, which goes with the process however that ends."""
    if fcntl is None:
        yield
        return
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"`output`: another process is preparing it in {str(path.parent)!r}") from None
        yield


def _write(dataset, folder, made_with, progress):
    arrays = {
        f"{split_name}-{part}-{name}": array
        for split_name, split in dataset.splits.items()
        for part in PARTS
        for name, array in getattr(split, part).items()
    }
    written, total = 0, sum(array.nbytes for array in arrays.values())
    progress(written, total)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
        written += array.nbytes
        progress(written, total)
    index = {
        "format": FORMAT,
        "name": dataset.name,
        **made_with,
        **{key: getattr(dataset, key) for key in ("tasks", "num_classes", "vocabulary_sizes", "description")},
        "splits": {
            split_name: {part: list(getattr(split, part)) for part in PARTS}
            for split_name, split in dataset.splits.items()
        },
        "shapes": {name: array.shape for name, array in arrays.items()},
    }
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n")


def _read(folder, name, rows, seed):
    try:
        return _read_indexed(folder, json.loads((folder / INDEX).read_text()), name, rows, seed)
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(f"{folder / INDEX} is damaged: {error!r}; prepare the data set again") from None


def _read_indexed(folder, index, name, rows, seed):
    if index.get("format") != FORMAT:
        raise ValueError(f"{folder} was prepared by another version of comet_keras; prepare it again")
    if index["name"] != name:
        raise ValueError(f"`data_dir`: {folder} was prepared for {index['name']}, not for {name}")
    for argument, value in (("rows", rows), ("seed", seed)):
        if value != index[argument] and not (argument == "rows" and value is None):
            raise ValueError(
                f"`{argument}`: {folder} was prepared with {argument}={index[argument]}. Received: {argument}={value}. "
                "Prepare another folder, or give the original files as `data_dir`"
            )
    splits = {
        split_name: Split(
            **{
                part: {name: _open(folder, f"{split_name}-{part}-{name}", index) for name in array_names}
                for part, array_names in parts.items()
            }
        )
        for split_name, parts in index["splits"].items()
    }
    described = {key: index[key] for key in ("tasks", "num_classes", "vocabulary_sizes", "description")}
    return Dataset(name, **splits, **described)


def _open(folder, name, index):
    path = folder / f"{name}.npy"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if list(array.shape) != index["shapes"][name]:
        raise ValueError(f"{path} must have the shape {index['shapes'][name]}. Found: {list(array.shape)}")
    return array
