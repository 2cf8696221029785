"""Files that are there complete or not at all."""

import os
from pathlib import Path


def write_whole(path, write):
    """Calls `write` with a path beside `path` and renames what it wrote, which is atomic.

    The name ends as `path` does, for writers that look at it.
    """
    path = Path(path)
    partial = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
