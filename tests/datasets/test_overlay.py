import numpy as np
import pytest

from comet_keras.datasets import overlay

# Values of the authors' construction (generate_mnist_dataset.py) on 2 x 2 images, worked out by hand.
CASES = [
    (
        [[10.0, 20.0], [30.0, 40.0]],
        [[1.0, 2.0], [3.0, 250.0]],
        [[10.0, 20.0, 0.0], [30.0, 41.0, 2.0], [0.0, 3.0, 250.0]],
        [[10.0, 20.0, 0.0], [30.0, 41.0, 2.0], [0.0, 3.0, 250.0]],
    ),
    (
        [[0.0, 255.0], [255.0, 0.0]],
        [[255.0, 255.0], [0.0, 10.0]],
        [[0.0, 255.0, 0.0], [255.0, 255.0, 255.0], [0.0, 0.0, 10.0]],
        [[0.0, 255.0, 0.0], [255.0, 255.0, 255.0], [0.0, 0.0, 10.0]],
    ),
    (
        [[0.0, 0.0], [0.0, 200.0]],
        [[100.0, 0.0], [0.0, 0.0]],
        [[0.0, 0.0, 0.0], [0.0, 300.0, 0.0], [0.0, 0.0, 0.0]],
        [[0.0, 0.0, 0.0], [0.0, 255.0, 0.0], [0.0, 0.0, 0.0]],
    ),
]


@pytest.mark.parametrize("top_left, bottom_right, added, clipped", CASES)
def test_images_lie_in_opposite_corners_and_add_where_they_overlap(top_left, bottom_right, added, clipped):
    batch = np.array([top_left]), np.array([bottom_right])
    np.testing.assert_array_equal(overlay(*batch, shift=1), [added])
    np.testing.assert_array_equal(overlay(*batch, shift=1, clip=255), [clipped])


@pytest.mark.parametrize("shift", [0, 1, 3, 8])
def test_every_pixel_of_both_images_is_on_the_canvas(shift):
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 5, 4, 6, 3))
    canvas = overlay(first, second, shift)
    expected = np.zeros((5, 4 + shift, 6 + shift, 3))
    for n, row, column, channel in np.ndindex(5, 4, 6, 3):
        expected[n, row, column, channel] += first[n, row, column, channel]
        expected[n, row + shift, column + shift, channel] += second[n, row, column, channel]
    np.testing.assert_allclose(canvas, expected, rtol=1e-12)


def test_bytes_do_not_overflow():
    white = np.full((1, 2, 2), 255, "uint8")
    assert overlay(white, white, 0).max() == 510
    assert overlay(white, white, 0, clip=255).max() == 255


def test_floats_keep_their_dtype():
    image = np.ones((1, 2, 2), "float32")
    assert overlay(image, image, 1).dtype == "float32"
    assert overlay(image, image, 1, clip=1).dtype == "float32"


def test_arguments_are_left_as_they_are():
    first, second = np.ones((1, 2, 2)), np.ones((1, 2, 2))
    overlay(first, second, 0, clip=1)
    assert (first == 1).all() and (second == 1).all()


@pytest.mark.parametrize("shift", [-1, 1.5])
def test_impossible_shift_is_refused(shift):
    with pytest.raises(ValueError, match="shift"):
        overlay(np.ones((1, 2, 2)), np.ones((1, 2, 2)), shift)


@pytest.mark.parametrize("shapes", [((1, 2, 2), (1, 3, 3)), ((2, 2), (2, 2)), ((2, 2, 2), (1, 2, 2))])
def test_images_that_do_not_match_are_refused(shapes):
    with pytest.raises(ValueError, match="Received: shapes"):
        overlay(np.ones(shapes[0]), np.ones(shapes[1]), 1)
