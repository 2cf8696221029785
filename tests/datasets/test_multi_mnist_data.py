import gzip
import pickle
import struct
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from comet_keras.datasets.multi_mnist import OverlayPairs, multi_fashion_mnist, multi_mnist

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_real_files = pytest.mark.skipif(
    not (REAL / "mnist").is_dir(), reason="the MNIST files are not beside the repository"
)
TASKS = ("top_left", "bottom_right")

# Values of the authors' construction (generate_mnist_dataset.py) on 2 x 2 images, worked out by hand.
CASES = [
    (
        [[10, 20], [30, 40]],
        [[1, 2], [3, 250]],
        [[10, 20, 0], [30, 41, 2], [0, 3, 250]],
        [[10, 20, 0], [30, 41, 2], [0, 3, 250]],
    ),
    (
        [[0, 255], [255, 0]],
        [[255, 255], [0, 10]],
        [[0, 255, 0], [255, 255, 255], [0, 0, 10]],
        [[0, 255, 0], [255, 255, 255], [0, 0, 10]],
    ),
    (
        [[0, 0], [0, 200]],
        [[100, 0], [0, 0]],
        [[0, 0, 0], [0, 300, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 255, 0], [0, 0, 0]],
    ),
]


def base_images(count, start=0):
    """Images that tell their number in their first and last two pixels, and labels."""
    numbers = np.arange(start, start + count)
    images = np.zeros((count, 28, 28), "uint8")
    for row, column in ((0, 0), (27, 26)):
        images[:, row, column], images[:, row, column + 1] = numbers // 256, numbers % 256
    return images, (numbers % 10).astype("uint8")


def write_idx(path, array):
    data = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)


def write_mnist(folder, train=300, test=50, suffix="", separator="-"):
    folder.mkdir(parents=True, exist_ok=True)
    for part, (images, labels) in (("train", base_images(train)), ("t10k", base_images(test, 1000))):
        write_idx(folder / f"{part}-images{separator}idx3-ubyte{suffix}", images)
        write_idx(folder / f"{part}-labels{separator}idx1-ubyte{suffix}", labels)


def read(split):
    """Images and targets of a split, in order."""
    batches = [(x["image"].numpy(), {task: y[task].numpy() for task in TASKS}) for x, y, _ in split.batches(64)]
    images = np.concatenate([image for image, _ in batches])
    return images, {task: np.concatenate([target[task] for _, target in batches]) for task in TASKS}


def numbers_of(images):
    """The numbers of the base images at the top left and at the bottom right."""
    pixels = np.round(images[..., 0] * 255).astype(int)
    return [256 * pixels[:, r, c] + pixels[:, r, c + 1] for r, c in ((0, 0), (35, 34))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mnist")
    write_mnist(folder)
    return folder


@pytest.fixture(scope="module")
def data(folder):
    return multi_mnist(folder)


@pytest.mark.parametrize("top_left, bottom_right, added, clipped", CASES)
def test_overlay_of_the_numeric_cases(top_left, bottom_right, added, clipped):
    images = np.array([top_left, bottom_right], "uint8")
    for clip, expected in ((False, added), (True, clipped)):
        found = OverlayPairs(images, shift=1, clip=clip)({"top_left": np.array([0]), "bottom_right": np.array([1])})
        np.testing.assert_allclose(found["image"].numpy()[0, ..., 0], np.array(expected) / 255, rtol=1e-6)


def test_sizes_shapes_and_types(data):
    assert [len(split) for split in data.splits.values()] == [500, 100, 100]  # 250, 50 and 50 images, twice
    assert data.train.input_shapes == {"image": (36, 36, 1)}
    features, targets, weights = next(iter(data.train.batches(7, shuffle=True)))
    assert features["image"].dtype == "float32" and features["image"].shape == (7, 36, 36, 1)
    for task in TASKS:
        assert targets[task].dtype == "int32" and (weights[task].numpy() == 1).all()
    assert data.tasks == dict.fromkeys(TASKS, "multiclass") and data.num_classes == dict.fromkeys(TASKS, 10)


def test_images_of_a_pair_and_their_labels(data):
    seen = []
    for split in data.splits.values():
        images, targets = read(split)
        first, second = numbers_of(images)
        np.testing.assert_array_equal(targets["top_left"], first % 10)
        np.testing.assert_array_equal(targets["bottom_right"], second % 10)
        assert set(second) <= set(first)  # partners are of the same split
        assert (np.unique(first, return_counts=True)[1] == 2).all()
        seen.append(set(first))
    assert seen[0] | seen[1] == set(range(300)) and not seen[0] & seen[1]
    assert seen[2] == set(range(1000, 1050))


def test_the_split_is_stratified(data):
    for split, each in zip(data.splits.values(), (50, 10, 10)):
        assert np.bincount(split.targets["top_left"]).tolist() == [each] * 10


def test_partners_are_drawn_from_all_images(tmp_path):
    images, labels = base_images(12)
    np.savez(tmp_path / "mnist.npz", x_train=np.tile(images, (50, 1, 1)), y_train=np.tile(labels % 2, 50), x_test=images,
             y_test=labels % 2)  # fmt: skip
    counts = np.bincount(multi_mnist(tmp_path).train.features["bottom_right"], minlength=500)
    # 1000 draws of 500 images: the last quarter of the images gets about a quarter of them.
    assert abs(counts[375:].sum() - 250) < 70 and counts.max() < 12


@pytest.mark.parametrize(
    "subfolder, suffix, separator", [("", ".gz", "-"), ("mnist", "", "-"), ("mnist", ".gz", "."), ("", "", ".")]
)
def test_every_form_of_the_files_gives_the_same(tmp_path, data, subfolder, suffix, separator):
    write_mnist(tmp_path / subfolder, suffix=suffix, separator=separator)
    check_same(multi_mnist(str(tmp_path)), data)


def test_keras_npz_gives_the_same(tmp_path, data):
    (images, labels), (test_images, test_labels) = base_images(300), base_images(50, 1000)
    np.savez(tmp_path / "mnist.npz", x_train=images, y_train=labels, x_test=test_images, y_test=test_labels)
    check_same(multi_mnist(tmp_path), data)
    (tmp_path / "mnist.npz").rename(tmp_path / "fashion_mnist.npz")
    check_same(multi_fashion_mnist(tmp_path), data)


def check_same(found, expected):
    for split, other in zip(found.splits.values(), expected.splits.values()):
        for part in ("features", "targets"):
            for name, array in getattr(other, part).items():
                np.testing.assert_array_equal(getattr(split, part)[name], array)
        np.testing.assert_array_equal(split.transform.images, other.transform.images)


def test_seed_and_rows(folder, data):
    check_same(multi_mnist(folder, seed=0), data)
    assert (multi_mnist(folder, seed=1).train.features["top_left"] != data.train.features["top_left"]).any()
    some = multi_mnist(folder, rows=50)
    assert [len(split) for split in some.splits.values()] == [50, 10, 10]
    np.testing.assert_array_equal(some.train.features["top_left"], data.train.features["top_left"][:50])
    with pytest.raises(ValueError, match="`rows` must be at most 500"):
        multi_mnist(folder, rows=501)


def test_clip_stops_at_one():
    images = np.full((1, 28, 28), 200, "uint8")
    numbers = {task: np.array([0]) for task in TASKS}
    assert OverlayPairs(images)(numbers)["image"].numpy().max() == pytest.approx(400 / 255)
    assert OverlayPairs(images, clip=True)(numbers)["image"].numpy().max() == 1


def test_bytes_are_all_that_is_kept(data):
    assert data.train.transform.images.dtype == "uint8"
    copy = pickle.loads(pickle.dumps(data.train))
    np.testing.assert_array_equal(read(copy.take(5))[0], read(data.train.take(5))[0])


def test_a_missing_file_is_named(folder, tmp_path):
    write_mnist(tmp_path, train=20, test=10)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match="lacks t10k-labels-idx1-ubyte .*http"):
        multi_mnist(tmp_path)


def test_an_empty_folder_says_what_to_download(tmp_path):
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte.*yann.lecun.com"):
        multi_mnist(tmp_path)
    with pytest.raises(FileNotFoundError, match="fashion-mnist"):
        multi_fashion_mnist(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        multi_mnist(tmp_path / "nowhere")


def test_damaged_files_are_named(tmp_path):
    write_mnist(tmp_path, train=20, test=10)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="train-images-idx3-ubyte is cut off"):
        multi_mnist(tmp_path)
    write_idx(path, base_images(19)[0])
    with pytest.raises(ValueError, match=r"train-images.*\(19, 28, 28\) and \(20,\)"):
        multi_mnist(tmp_path)
    write_idx(path, base_images(20)[0])
    write_idx(tmp_path / "t10k-labels-idx1-ubyte", np.arange(3, 13, dtype="uint8"))
    with pytest.raises(ValueError, match="t10k.*labels 0..9"):
        multi_mnist(tmp_path)


def test_damaged_npz_is_named(tmp_path):
    path = tmp_path / "mnist.npz"
    np.savez(path, x_train=np.zeros(3))
    with pytest.raises(ValueError, match="mnist.npz must hold x_train, y_train"):
        multi_mnist(tmp_path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="mnist.npz is cut off"):
        multi_mnist(tmp_path)


def test_tensorflow_datasets_is_the_source_without_a_folder():
    tfds = pytest.importorskip("tensorflow_datasets")
    with tfds.testing.mock_data(num_examples=120):
        for make in (multi_mnist, multi_fashion_mnist):
            data = make()
            assert [len(split) for split in data.splits.values()] == [200, 40, 240]
            assert read(data.test)[0].shape == (240, 36, 36, 1)


def test_without_tensorflow_datasets_or_network(monkeypatch):
    tfds = pytest.importorskip("tensorflow_datasets")

    def fail(*args, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr(tfds, "load", fail)
    with pytest.raises(FileNotFoundError, match="no route.*yann.lecun.com.*data_dir"):
        multi_mnist()
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(FileNotFoundError, match="not installed.*yann.lecun.com.*data_dir"):
        multi_mnist()


@needs_real_files
@pytest.mark.parametrize("make, name", [(multi_mnist, "mnist"), (multi_fashion_mnist, "fashion_mnist")])
def test_the_real_files(make, name):
    start = time.perf_counter()
    data = make(REAL)
    assert time.perf_counter() - start < 60
    assert [len(split) for split in data.splits.values()] == [100_000, 20_000, 20_000]
    train, test = (
        np.bincount(np.frombuffer(gzip.open(REAL / name / f"{part}-labels-idx1-ubyte.gz").read()[8:], "uint8"))
        for part in ("train", "t10k")
    )
    counts = [np.bincount(split.targets["top_left"]) for split in data.splits.values()]
    np.testing.assert_array_equal(counts[0] + counts[1], 2 * train)
    assert (abs(counts[1] / 2 - train / 6) < 1).all()
    np.testing.assert_array_equal(counts[2], 2 * test)
    for split in data.splits.values():
        # Uniform partners: five standard deviations around the shares of the base images.
        expected = np.bincount(split.targets["top_left"])
        assert (abs(np.bincount(split.targets["bottom_right"]) - expected) < 5 * np.sqrt(expected)).all()
    raw = np.frombuffer(gzip.open(REAL / name / "t10k-images-idx3-ubyte.gz").read()[16:], "uint8").reshape(-1, 28, 28)
    canvas = np.zeros((36, 36))
    canvas[:28, :28] += raw[data.test.features["top_left"][3]]
    canvas[8:, 8:] += raw[data.test.features["bottom_right"][3]]
    np.testing.assert_allclose(read(data.test.take(4))[0][3, ..., 0], canvas / 255, rtol=1e-6)
