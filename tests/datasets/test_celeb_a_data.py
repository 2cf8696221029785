import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

from comet_keras.datasets.celeb_a import ATTRIBUTES, celeb_a
from comet_keras.datasets.celeb_a_files import read_attributes

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "celeba"
needs_real_files = pytest.mark.skipif(not REAL.is_dir(), reason="the CelebA table is not beside the repository")

NAMES = ("Bald", "Male", "Smiling", "Young")
TABLE, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
COUNT = 20


def value(image, attribute):
    return 1 if (image * 7 + attribute * 3) % 4 < 2 else -1


def table_lines(count=COUNT, total=COUNT):
    rows = [f"{i:06}.jpg " + " ".join(f"{value(i, a):2}" for a in range(4)) for i in range(1, count + 1)]
    return [str(total), " ".join(NAMES) + " ", *rows]


def partition_lines(count=COUNT):
    """12 images for training, 4 for validation, 4 for test."""
    return [f"{i:06}.jpg {0 if i <= 12 else 1 if i <= 16 else 2}" for i in range(1, count + 1)]


def pixels_of(image):
    """A smooth image of 22 x 18 pixels, which JPEG keeps well."""
    row, column = np.mgrid[:22, :18]
    return np.stack([5 * row + image, 6 * column + image, 100 + row + column], axis=-1).astype("uint8")


def write_folder(folder, count=COUNT, newline="\n"):
    from PIL import Image

    (folder / "img_align_celeba").mkdir(parents=True)
    (folder / TABLE).write_text(newline.join(table_lines(count)))  # no line end after the last line
    (folder / PARTITION).write_text(newline.join([*partition_lines(count), ""]))
    for i in range(1, count + 1):
        Image.fromarray(pixels_of(i)).save(folder / "img_align_celeba" / f"{i:06}.jpg", quality=98)


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path)
    return tmp_path


def test_published_split_and_labels(folder):
    data = celeb_a(folder, attributes=NAMES, image_size=(22, 18))
    assert [len(split) for split in data.splits.values()] == [12, 4, 4]
    assert data.tasks == dict.fromkeys(NAMES, "binary")
    for split, images in zip(data.splits.values(), (range(1, 13), range(13, 17), range(17, 21))):
        assert split.features["image"].tolist() == [f"{i:06}.jpg" for i in images]
        for a, name in enumerate(NAMES):
            assert split.targets[name].dtype == "float32"
            assert split.targets[name].tolist() == [max(value(i, a), 0) for i in images]


def test_images_are_decoded_resized_and_scaled(folder):
    data = celeb_a(folder, attributes=["Male"], image_size=(22, 18))
    batch = next(iter(data.validation.batches(4)))[0]["image"].numpy()
    assert batch.dtype == "float32" and batch.shape == (4, 22, 18, 3)
    for found, i in zip(batch, range(13, 17)):
        np.testing.assert_allclose(255 * found, pixels_of(i), atol=6)
    half = celeb_a(folder, attributes=["Male"], image_size=(11, 9)).validation
    assert half.input_shapes == {"image": (11, 9, 3)}
    means = pixels_of(13).reshape(11, 2, 9, 2, 3).mean(axis=(1, 3))
    # Away from the border, where the filter of the resizing is cut.
    np.testing.assert_allclose(255 * next(iter(half.batches(1)))[0]["image"][0, 1:-1, 1:-1], means[1:-1, 1:-1], atol=6)
    assert vars(pickle.loads(pickle.dumps(half.transform))) == vars(half.transform)


def test_dos_line_ends_gzip_and_a_folder_of_its_own(tmp_path):
    write_folder(tmp_path / "celeba", newline="\r\n")
    for name in (TABLE, PARTITION):
        path = tmp_path / "celeba" / name
        path.with_name(name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    data = celeb_a(tmp_path, attributes=["Young"])
    assert data.test.targets["Young"].tolist() == [max(value(i, 3), 0) for i in range(17, 21)]


def test_images_that_are_not_there_are_left_out(folder):
    for i in (1, 5, 20):
        (folder / "img_align_celeba" / f"{i:06}.jpg").unlink()
    data = celeb_a(folder, attributes=["Bald"])
    assert [len(split) for split in data.splits.values()] == [10, 4, 3]
    assert "3 listed images are missing" in data.description
    assert data.train.targets["Bald"].tolist() == [max(value(i, 0), 0) for i in range(2, 13) if i != 5]


def test_a_table_of_a_part_serves_the_images_of_that_part(folder):
    (folder / TABLE).write_text("\n".join(table_lines(18, total=202599)))
    for i in (19, 20):
        (folder / "img_align_celeba" / f"{i:06}.jpg").unlink()
    assert len(celeb_a(folder, attributes=["Bald"]).test) == 2


@pytest.mark.parametrize("name, lines", [(TABLE, table_lines(18, 202599)), (PARTITION, partition_lines(18))])
def test_images_without_labels_or_split_are_an_error(folder, name, lines):
    (folder / name).write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"{name} lists 18 images, but not 000019.jpg and 1 others"):
        celeb_a(folder, attributes=["Bald"])


def test_a_split_without_images_is_an_error(folder):
    for i in range(13, 17):
        (folder / "img_align_celeba" / f"{i:06}.jpg").unlink()
    with pytest.raises(ValueError, match="no image of the validation split"):
        celeb_a(folder, attributes=["Bald"])


@pytest.mark.parametrize(
    "name, row, line, match",
    [
        (TABLE, 0, "Bald Male", "number in line 1"),
        (TABLE, 4, "000003.jpg 1 -1 1", "line 5: expected a name and 4 integers. Found: '000003.jpg 1 -1 1'"),
        (TABLE, 4, "000003.jpg 1 -1 1 0", "line 5: expected values of 1 and -1"),
        (TABLE, 4, "000003.jpg 1 -1 1 x", "expected a name and 4 integers"),
        (PARTITION, 2, "000003.jpg", "line 3: expected a name and 1 integers"),
        (PARTITION, 2, "000003.jpg 3", "line 3: expected 0, 1 or 2"),
    ],
)
def test_malformed_lines_are_named(folder, name, row, line, match):
    lines = (folder / name).read_text().split("\n")
    lines[row] = line
    (folder / name).write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"{name}.*{match}"):
        celeb_a(folder, attributes=["Bald"])


def test_cut_and_empty_tables(folder):
    (folder / TABLE).write_text("")
    with pytest.raises(ValueError, match=f"{TABLE} is empty"):
        celeb_a(folder)
    (folder / TABLE).unlink()
    (folder / f"{TABLE}.gz").write_bytes(gzip.compress("\n".join(table_lines()).encode())[:-12])
    with pytest.raises(ValueError, match=f"{TABLE}.gz is not a complete gzip file"):
        celeb_a(folder)


def test_missing_parts_are_named(folder):
    (folder / PARTITION).unlink()
    with pytest.raises(FileNotFoundError, match=f"lacks {PARTITION}. .*mmlab"):
        celeb_a(folder)
    with pytest.raises(FileNotFoundError, match="img_align_celeba.*mmlab"):
        celeb_a(folder / "img_align_celeba")


def test_rows_and_seed(folder):
    data = celeb_a(folder, rows=6, attributes=["Male"])
    assert [len(split) for split in data.splits.values()] == [6, 2, 2]
    images = [int(name[:6]) for name in data.train.features["image"]]
    assert len(set(images)) == 6 and set(images) <= set(range(1, 13))
    assert data.train.targets["Male"].tolist() == [max(value(i, 1), 0) for i in images]
    other = celeb_a(folder, rows=6, seed=1, attributes=["Male"])
    assert other.train.features["image"].tolist() != data.train.features["image"].tolist()
    with pytest.raises(ValueError, match="`rows` must be at most 12"):
        celeb_a(folder, rows=13, attributes=["Male"])


@pytest.mark.parametrize(
    "arguments, match",
    [
        ({"attributes": ["Male", "Hungry"]}, r"`attributes` must be of Bald, Male.*\['Hungry'\]"),
        ({"attributes": []}, "`attributes`"),
        ({"attributes": ["Male", "Male"]}, "`attributes`"),
        ({"image_size": 64}, "`image_size`"),
        ({"image_size": (64, 0)}, "`image_size`"),
    ],
)
def test_wrong_arguments(folder, arguments, match):
    with pytest.raises(ValueError, match=match):
        celeb_a(folder, **arguments)


def test_tensorflow_datasets_is_the_source_without_a_folder():
    tfds = pytest.importorskip("tensorflow_datasets")
    with tfds.testing.mock_data(num_examples=6):
        data = celeb_a(rows=3, image_size=(24, 20))
        with pytest.raises(ValueError, match=r"`attributes` must be of .*\['Hungry'\]"):
            celeb_a(attributes=["Hungry"])
    assert [len(split) for split in data.splits.values()] == [3, 3, 3]
    features, targets, _ = next(iter(data.train.batches(3)))
    assert features["image"].shape == (3, 24, 20, 3) and 0 <= features["image"].numpy().min()
    assert set(targets) == set(ATTRIBUTES)


@needs_real_files
def test_labels_of_the_real_table():
    path = REAL / "list_attr_celeba.txt.gz"
    names, labels = read_attributes(path, ATTRIBUTES)
    lines = gzip.open(path, "rt").read().split("\n")
    columns = lines[1].split()
    assert lines[0] == "202599" and len(names) == len(lines) - 2 == 20_000
    assert names[0] == "000001.jpg" and names[-1] == "020000.jpg"
    for attribute in ATTRIBUTES:
        positives = sum(line.split()[1 + columns.index(attribute)] == "1" for line in lines[2:])
        assert labels[attribute].sum() == positives
    # The default: the ten whose share is nearest to a half.
    shares = np.array([line.split()[1:] for line in lines[2:]], int) == 1
    nearest = np.argsort(abs(shares.mean(axis=0) - 0.5))[:10]
    assert {columns[i] for i in nearest} == set(ATTRIBUTES)


@needs_real_files
def test_the_real_table_without_images():
    with pytest.raises(FileNotFoundError, match=f"lacks {PARTITION}, img_align_celeba/"):
        celeb_a(REAL)
