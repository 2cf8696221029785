"""CelebA's tables and images, as they are published."""

import os

import numpy as np

from comet_keras.datasets.gzipped import read_bytes
from comet_keras.datasets.text_table import find_file

TABLE, PARTITION, IMAGES = "list_attr_celeba.txt", "list_eval_partition.txt", "img_align_celeba"
SUBFOLDERS = ("", "celeba", "celeb_a")
SPLITS = ("train", "validation", "test")  # numbered 0, 1, 2 in the partition


def read_folder(data_dir, attributes, info):
    """File names and labels of the images that are there, by split.

    Args:
        data_dir: folder, str or path.
        attributes: tuple of str.
        info: `DatasetInfo`, for errors.

    Returns:
        None if nothing of CelebA is there. Else the images' folder as str, three pairs of file names
        `(N,)` and dicts of float32 labels `(N,)` by attribute, and a note of what was left out.

    Raises:
        FileNotFoundError, ValueError: see `celeb_a`.
    """
    for folder in (info.require(data_dir) / subfolder for subfolder in SUBFOLDERS):
        table, partition, images = find_file(folder / TABLE), find_file(folder / PARTITION), folder / IMAGES
        lacking = [
            name
            for name, there in ((TABLE, table), (PARTITION, partition), (IMAGES + "/", images.is_dir()))
            if not there
        ]
        if not lacking:
            return str(images), *_read_parts(table, partition, images, attributes)
        if len(lacking) < 3:
            raise FileNotFoundError(f"{str(folder)!r} lacks {', '.join(lacking)}. {info.advice}")
    return None


def read_attributes(path, attributes):
    """Labels of the table of attributes.

    Args:
        path: `list_attr_celeba.txt`, plain or gzipped. Its first line, the number of images, does not
            decide anything: tables of a part of the images keep that of all.
        attributes: tuple of str.

    Returns:
        Image names, str `(N,)`, and a dict from attribute to float32 labels `(N,)`, 0 or 1.

    Raises:
        ValueError: if a line is malformed (naming file and line), or there is no such attribute.
    """
    lines = _lines(path)
    known = lines[1].split() if len(lines) > 1 else []
    if not lines[0].strip().isdigit() or not known:
        raise ValueError(f"{path}: expected a number in line 1 and attributes in line 2. Found: {lines[0][:80]!r}")
    check_known(attributes, known)
    names, values = _columns(path, lines[2:], 3, len(known))
    _reject(path, (values != 1) & (values != -1), lines[2:], 3, "expected values of 1 and -1")
    columns = {attribute: values[:, known.index(attribute)] for attribute in attributes}
    return names, {attribute: (column == 1).astype("float32") for attribute, column in columns.items()}


def check_known(attributes, known):
    """Raises ValueError if there is no such attribute."""
    unknown = [attribute for attribute in attributes if attribute not in known]
    if unknown:
        raise ValueError(f"`attributes` must be of {', '.join(known)}. Received: {unknown}")


def _read_parts(table, partition, images, attributes):
    names, labels = read_attributes(table, attributes)
    lines = _lines(partition)
    split_names, numbers = _columns(partition, lines, 1, 1)
    _reject(partition, (numbers < 0) | (numbers >= len(SPLITS)), lines, 1, "expected 0, 1 or 2 after the name")
    there = np.array(sorted(entry.name for entry in os.scandir(images) if entry.name.endswith(".jpg")), dtype=str)
    for path, listed in ((table, names), (partition, split_names)):
        unlisted = there[~np.isin(there, listed)]
        if len(unlisted):
            raise ValueError(
                f"{path} lists {len(listed)} images, but not {unlisted[0]} and {len(unlisted) - 1} others that are in "
                f"{images}. Is it cut off?"
            )
    split_of = dict(zip(split_names.tolist(), numbers[:, 0].tolist()))
    kept = np.isin(names, there)
    codes = np.array([split_of[name] if keep else -1 for name, keep in zip(names.tolist(), kept)], dtype=int)
    splits = []
    for code, split in enumerate(SPLITS):
        rows = np.flatnonzero(codes == code)
        if not len(rows):
            raise ValueError(f"{images} holds no image of the {split} split.")
        splits.append((names[rows], {attribute: values[rows] for attribute, values in labels.items()}))
    missing = len(names) - int(kept.sum())
    return splits, f" ({missing} listed images are missing)" if missing else ""


def _lines(path):
    lines = read_bytes(path).decode("latin-1").replace("\r\n", "\n").rstrip("\n").split("\n")
    if lines == [""]:
        raise ValueError(f"{path} is empty")
    return lines


def _columns(path, lines, first_line, columns):
    """Names and integers `(N, columns)` of lines of a name and integers."""
    names, rests = [], []
    for number, line in enumerate(lines, first_line):
        name, _, rest = line.partition(" ")
        if len(line.split()) != 1 + columns:
            raise ValueError(
                f"{path}, line {number}: expected a name and {columns} integers. Found: {line[:80]!r}"
            )
        names.append(name)
        rests.append(rest)
    try:
        values = np.loadtxt(rests, dtype="int8", ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"{path}, lines {first_line} on: expected a name and {columns} integers. {error}") from error
    return np.array(names), values.reshape(len(names), columns)


def _reject(path, bad, lines, first_line, message):
    if bad.any():
        row = int(np.argmax(bad.any(axis=1)))
        raise ValueError(f"{path}, line {row + first_line}: {message}. Found: {lines[row][:80]!r}")
