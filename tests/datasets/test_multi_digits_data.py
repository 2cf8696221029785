import numpy as np
import pytest

from comet_keras.datasets import multi_digits


@pytest.fixture(scope="module")
def data():
    return multi_digits(train_pairs=3000, validation_pairs=300, test_pairs=300)


def corners(split):
    """The 4 x 4 parts of each canvas that only one of the two images reaches, as bytes."""
    canvas = split.features["image"][..., 0]
    top_left, bottom_right = canvas[:, :4, :4], canvas[:, 8:, 8:]
    return [part.tobytes() for part in top_left], [part.tobytes() for part in bottom_right]


def test_shapes_and_types(data):
    for split, pairs in [(data.train, 3000), (data.validation, 300), (data.test, 300)]:
        assert split.features["image"].shape == (pairs, 12, 12, 1)
        assert split.features["image"].dtype == "float32"
        for target in ("top_left", "bottom_right"):
            assert split.targets[target].shape == (pairs,)
            assert split.targets[target].dtype == "int32"
            assert set(split.targets[target]) == set(range(10))
    assert data.tasks == {"top_left": "multiclass", "bottom_right": "multiclass"}
    assert data.num_classes == {"top_left": 10, "bottom_right": 10}


def test_default_sizes():
    data = multi_digits()
    assert [len(split) for split in data.splits.values()] == [10_000, 2_000, 2_000]


def test_pixels_reach_two_unless_clipped(data):
    assert 1 < data.train.features["image"].max() <= 2
    assert data.train.features["image"].min() == 0
    clipped = multi_digits(train_pairs=3000, validation_pairs=300, test_pairs=300, clip=True)
    np.testing.assert_array_equal(
        clipped.train.features["image"], np.minimum(data.train.features["image"], 1)
    )


def test_labels_belong_to_the_images_in_the_corners(data):
    from sklearn.datasets import load_digits

    digits = load_digits()
    # The corner that one image alone reaches, with the labels of all images that look the same there.
    labels = {}
    for image, digit in zip(digits.images.astype("float32") / 16, digits.target):
        labels.setdefault(("top_left", image[:4, :4].tobytes()), set()).add(digit)
        labels.setdefault(("bottom_right", image[4:, 4:].tobytes()), set()).add(digit)
    for split in data.splits.values():
        for name, parts in zip(("top_left", "bottom_right"), corners(split)):
            for part, digit in zip(parts, split.targets[name]):
                assert digit in labels[name, part]


def test_each_image_is_top_left_equally_often():
    once = multi_digits(train_pairs=1283, validation_pairs=257, test_pairs=257)
    thrice = multi_digits(train_pairs=3 * 1283, validation_pairs=2 * 257, test_pairs=257)
    for name, times in [("train", 3), ("validation", 2), ("test", 1)]:
        counts_once = np.bincount(once.splits[name].targets["top_left"], minlength=10)
        counts = np.bincount(thrice.splits[name].targets["top_left"], minlength=10)
        np.testing.assert_array_equal(counts, times * counts_once)


def test_base_images_are_stratified():
    from sklearn.datasets import load_digits

    shares = np.bincount(load_digits().target) / 1797
    once = multi_digits(train_pairs=1283, validation_pairs=257, test_pairs=257)
    for split in once.splits.values():
        counts = np.bincount(split.targets["top_left"], minlength=10)
        assert (abs(counts - shares * len(split)) < 1.5).all()


def test_partners_are_drawn_from_the_whole_split():
    from comet_keras.datasets.multi_digits import _paired

    images = np.arange(5.0)[:, None, None] * np.ones((5, 2, 2))
    split = _paired(images, np.arange(5), 2000, 2, None, np.random.default_rng(0))
    counts = np.bincount(split.targets["bottom_right"], minlength=5)
    assert (abs(counts - 400) < 90).all()  # five standard deviations; the last image is drawn as often
    assert (np.bincount(split.targets["top_left"]) == 400).all()


def test_no_image_is_in_two_splits():
    from comet_keras.datasets.multi_digits import _split_digits

    _, _, parts = _split_digits(0)
    assert sorted(np.concatenate(parts)) == list(range(1797))
    assert [len(part) for part in parts] == [1283, 257, 257]


def test_seed_decides_the_data():
    small = {"train_pairs": 50, "validation_pairs": 10, "test_pairs": 10}
    first, again, other = multi_digits(**small), multi_digits(**small), multi_digits(**small, seed=1)
    for name in first.splits:
        image = first.splits[name].features["image"]
        np.testing.assert_array_equal(image, again.splits[name].features["image"])
        assert (image != other.splits[name].features["image"]).any()


def test_shift_sets_the_canvas():
    data = multi_digits(train_pairs=20, validation_pairs=10, test_pairs=10, shift=0)
    assert data.train.features["image"].shape == (20, 8, 8, 1)


@pytest.mark.parametrize("argument", ["train_pairs", "validation_pairs", "test_pairs"])
def test_impossible_number_of_pairs_is_refused(argument):
    with pytest.raises(ValueError, match=argument):
        multi_digits(**{argument: 0})
