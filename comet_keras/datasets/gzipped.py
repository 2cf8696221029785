"""Files that may be gzipped, read whole."""

import gzip
import zlib
from pathlib import Path


def read_bytes(path):
    """The contents of a file, unpacked if its name ends in `.gz`.

    Raises:
        ValueError: if a gzip file is cut off or damaged; names the file.
    """
    path = Path(path)
    data = path.read_bytes()
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file: {error}") from error
