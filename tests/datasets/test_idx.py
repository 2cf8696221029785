import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from comet_keras.datasets.idx import read_idx


def encoded(array, code=8):
    """An idx file by its description."""
    return struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.tobytes()


@given(arrays.arrays("uint8", arrays.array_shapes(max_dims=4, max_side=5)), st.booleans())
def test_reads_what_was_written(tmp_path_factory, array, gzipped):
    path = tmp_path_factory.mktemp("idx") / ("file.gz" if gzipped else "file")
    path.write_bytes(gzip.compress(encoded(array)) if gzipped else encoded(array))
    found = read_idx(path)
    assert found.dtype == "uint8" and found.shape == array.shape
    np.testing.assert_array_equal(found, array)


def test_every_cut_is_noticed(tmp_path):
    whole = encoded(np.arange(24, dtype="uint8").reshape(2, 3, 4))
    path = tmp_path / "images"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="images"):
            read_idx(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="cut off or damaged.*Found: 41 bytes"):
        read_idx(path)


def test_a_cut_gzip_file_is_noticed(tmp_path):
    path = tmp_path / "images.gz"
    whole = gzip.compress(encoded(np.random.default_rng(0).integers(256, size=(9, 9), dtype="uint8")))
    for data in (whole[:-9], whole[:30], b"<html>", b""):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"images\.gz"):
            read_idx(path)


@pytest.mark.parametrize("data", [b"\x89PNG....", b"<html></html>"])
def test_other_files_are_refused(tmp_path, data):
    (tmp_path / "labels").write_bytes(data)
    with pytest.raises(ValueError, match="labels is no idx file: it starts with"):
        read_idx(tmp_path / "labels")


def test_other_types_are_refused(tmp_path):
    (tmp_path / "labels").write_bytes(encoded(np.zeros(3, ">f4"), code=0x0D))
    with pytest.raises(ValueError, match="0x08.*Found: 0x0d"):
        read_idx(tmp_path / "labels")
