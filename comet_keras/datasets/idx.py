"""The idx format, in which MNIST and Fashion-MNIST are published."""

import math
from pathlib import Path

import numpy as np

from comet_keras.datasets.gzipped import read_bytes

UNSIGNED_BYTES = 0x08


def read_idx(path):
    """Reads an idx file of bytes.

    Two zero bytes, the type of the values, the number of dimensions, each dimension as a big-endian
    32-bit integer, then the values in C order. Source: the description at
    http://yann.lecun.com/exdb/mnist.

    Args:
        path: str or path; gzipped if its name ends in `.gz`.

    Returns:
        uint8 array.

    Raises:
        ValueError: if the file is cut off, too long or no idx file of bytes; names the file.

    Example:

    >>> import pathlib, tempfile
    >>> from comet_keras.datasets.idx import read_idx
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    >>> read_idx(path)
    array([7, 2, 1], dtype=uint8)
    """
    path = Path(path)
    data = read_bytes(path)
    if len(data) < 4 or data[:2] != b"\0\0":
        raise ValueError(f"{path} is no idx file: it starts with {data[:4].hex(' ') or 'nothing'}.")
    if data[2] != UNSIGNED_BYTES:
        raise ValueError(f"{path}: expected values of type 0x08 (unsigned bytes). Found: 0x{data[2]:02x}")
    start = 4 + 4 * data[3]
    shape = tuple(int(size) for size in np.frombuffer(data[4:start][: 4 * (len(data[4:start]) // 4)], ">u4"))
    if len(shape) < data[3] or len(data) != start + math.prod(shape):
        raise ValueError(
            f"{path} is cut off or damaged: its header tells of {data[3]} dimension(s) {shape}, "
            f"{start + math.prod(shape)} bytes in all. Found: {len(data)} bytes"
        )
    return np.frombuffer(data, "uint8", offset=start).reshape(shape)
