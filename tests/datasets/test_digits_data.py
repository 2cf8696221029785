import pickle

import numpy as np
import pytest

from comet_keras.datasets.digits import _split_numbers, digits

PARTS = {"train": 60, "test": 20, "extra": 100}


def write_files(folder, parts=None):
    """MNIST as Keras has it and SVHN as published; images tell their source and number."""
    from scipy.io import savemat

    train, test = np.arange(60), np.arange(10)
    images = {name: np.zeros((len(rows), 28, 28), "uint8") for name, rows in (("train", train), ("test", test))}
    images["train"][:, 0, 0], images["test"][:, 0, 0] = train, 60 + test
    images["train"][:, 27, 27] = images["test"][:, 27, 27] = 9
    np.savez(
        folder / "mnist.npz", x_train=images["train"], y_train=train % 10, x_test=images["test"], y_test=test % 10
    )
    start = 0
    for part, count in (PARTS if parts is None else parts).items():
        numbers = np.arange(start, start + count)
        pixels = np.zeros((32, 32, 3, count), "uint8")
        pixels[1, 2, 0], pixels[3, 4, 1], pixels[5, 6, 2] = numbers, 100, 200
        labels = np.where(numbers % 10 == 0, 10, numbers % 10).astype("uint8")
        savemat(folder / f"{part}_32x32.mat", {"X": pixels, "y": labels[:, None]}, do_compression=True)
        start += count


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    write_files(folder)
    return folder


@pytest.fixture(scope="module")
def data(folder):
    return digits(folder)


def test_splits_join_both_sources(data):
    # MNIST 50, 10, 10; SVHN 180 images, 75000 / 630420 of them for validation and as much for test.
    assert [len(split) for split in data.splits.values()] == [50 + 138, 10 + 21, 10 + 21]
    assert data.tasks == {"digit": "multiclass"} and data.num_classes == {"digit": 10}
    assert data.train.input_shapes == {"image": (32, 32, 3)}


def test_images_and_labels_are_those_of_the_files(data):
    mnist, svhn = [], []
    for split in data.splits.values():
        images, labels = split.features["image"], split.targets["digit"]
        assert images.dtype == "uint8" and labels.dtype == "int32"
        from_svhn = images[:, 5, 6, 2] == 200
        numbers = images[from_svhn, 1, 2, 0]
        assert (images[from_svhn, 3, 4, 1] == 100).all()
        np.testing.assert_array_equal(labels[from_svhn], numbers % 10)
        svhn.append(set(numbers.tolist()))
        padded = images[~from_svhn]
        assert (padded == padded[..., :1]).all()  # three equal channels
        assert (padded[:, 29, 29, 0] == 9).all() and padded[:, :2].max() == padded[:, :, 30:].max() == 0
        np.testing.assert_array_equal(labels[~from_svhn], padded[:, 2, 2, 0] % 10)
        mnist.append(set(padded[:, 2, 2, 0].tolist()))
    assert mnist[0] | mnist[1] == set(range(60)) and not mnist[0] & mnist[1]
    assert mnist[2] == set(range(60, 70))
    assert set.union(*svhn) == set(range(180)) and sum(map(len, svhn)) == 180


def test_batches_are_scaled(data):
    features, targets, _ = next(iter(data.train.batches(200)))
    assert features["image"].dtype == "float32"
    np.testing.assert_allclose(features["image"].numpy(), data.train.features["image"] / 255, rtol=1e-6)
    assert type(pickle.loads(pickle.dumps(data.train.transform))) is type(data.train.transform)


def test_the_paper_s_split_sizes():
    labels = np.random.default_rng(0).integers(10, size=70_000 + 73_257 + 26_032 + 531_131).astype("uint8")
    splits = _split_numbers(labels, 60_000, 10_000, seed=0)
    assert [len(numbers) for numbers in splits] == [530_420, 85_000, 85_000]
    assert (np.bincount(np.concatenate(splits)) == 1).all()
    assert [int((numbers < 70_000).sum()) for numbers in splits] == [50_000, 10_000, 10_000]


def test_rows_and_seed(folder, data):
    some = digits(folder, rows=47)
    assert [len(split) for split in some.splits.values()] == [47, 7, 7]  # a quarter of all
    again, other = digits(folder, rows=47), digits(folder, rows=47, seed=1)
    np.testing.assert_array_equal(some.train.features["image"], again.train.features["image"])
    assert (some.train.features["image"] != other.train.features["image"]).any()
    drawn = {image.tobytes() for image in some.train.features["image"]}
    assert len(drawn) == 47 and drawn <= {image.tobytes() for image in data.train.features["image"]}
    with pytest.raises(ValueError, match="`rows` must be at most 188"):
        digits(folder, rows=189)


def test_svhn_in_its_own_folder(tmp_path, folder, data):
    (tmp_path / "svhn").mkdir()
    (tmp_path / "mnist").mkdir()
    for path in folder.iterdir():
        (tmp_path / ("svhn" if path.suffix == ".mat" else "mnist") / path.name).write_bytes(path.read_bytes())
    np.testing.assert_array_equal(digits(tmp_path).test.features["image"], data.test.features["image"])


def test_mnist_alone_does_not_do(tmp_path):
    write_files(tmp_path, parts={})
    with pytest.raises(FileNotFoundError, match="extra_32x32.mat.*housenumbers"):
        digits(tmp_path)
    write_files(tmp_path, parts={"train": 20})
    with pytest.raises(FileNotFoundError, match="lacks test_32x32.mat, extra_32x32.mat"):
        digits(tmp_path)


def test_damaged_mat_files_are_named(tmp_path, folder):
    from scipy.io import savemat

    write_files(tmp_path)
    path = tmp_path / "test_32x32.mat"
    whole = path.read_bytes()
    for data in (whole[: len(whole) // 2], b"<html>" * 100, b""):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="test_32x32.mat"):
            digits(tmp_path)
    savemat(path, {"X": np.zeros((32, 32, 3, 4), "uint8"), "y": np.ones((5, 1))})
    with pytest.raises(ValueError, match=r"test_32x32.mat: expected X .* and \(5, 1\)"):
        digits(tmp_path)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), "uint8"), "y": np.array([[0], [1]])})
    with pytest.raises(ValueError, match="labels 1..10"):
        digits(tmp_path)


def test_tensorflow_datasets_is_the_source_without_a_folder():
    tfds = pytest.importorskip("tensorflow_datasets")
    with tfds.testing.mock_data(num_examples=200):
        data = digits()
    assert [len(split) for split in data.splits.values()] == [167 + 458, 33 + 71, 200 + 71]
    assert next(iter(data.test.batches(3)))[0]["image"].shape == (3, 32, 32, 3)
