import numpy as np
import pytest

from comet_keras.reports import (
    ClassRouting,
    class_routing_heat_maps,
    permutation_evolution,
    save_figure,
)


def routing(classes=3, experts=4, task="watch", gate=""):
    rng = np.random.default_rng(0)
    used = rng.integers(0, 10, size=(classes, experts))
    labels = [str(i) for i in range(classes)]
    return ClassRouting(gate, task, labels, np.full(classes, 10), used, used, 0.25, 1.5)


def test_heat_maps(tmp_path):
    routings = [routing(), routing(classes=5, experts=16, task="rating", gate="late"), routing()]
    figure = class_routing_heat_maps(routings)
    shown = [axes for axes in figure.axes[:-1] if axes.get_visible()]
    assert len(shown) == 3
    for axes, expected in zip(shown, routings):
        (image,) = axes.images
        np.testing.assert_array_equal(image.get_array(), expected.used / 10)
        assert image.get_clim() == (0, 1)
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("expert", "class")
    assert shown[1].get_title() == "rating, gate late\nI = 0.25 of 1.50 bits"
    assert [text.get_text() for text in shown[0].get_yticklabels()] == ["0", "1", "2"]
    assert figure.axes[-1].get_ylabel() == "share of the class's rows"
    save_figure(figure, tmp_path / "routing.png")
    assert (tmp_path / "routing.png").stat().st_size > 1000


def test_permutation_evolution(tmp_path):
    hard = np.eye(6)[[2, 0, 1, 5, 4, 3]]
    soft = {epoch: share * hard + (1 - share) / 6 for epoch, share in enumerate([0.0, 0.3, 0.6, 0.8, 0.9, 0.95])}
    figure = permutation_evolution(dict(reversed(soft.items())), hard)
    *panels, bar, distances = figure.axes
    titles = [axes.get_title() for axes in panels]
    assert titles == ["S, start", "S, epoch 2", "S, epoch 3", "S, epoch 5", "P, hard"]
    for axes, epoch in zip(panels, (0, 2, 3, 5)):
        np.testing.assert_array_equal(axes.images[0].get_array(), soft[epoch])
    np.testing.assert_array_equal(panels[-1].images[0].get_array(), hard)
    assert panels[0].get_ylabel() == "expert" and panels[2].get_xlabel() == "gate output"
    (line,) = distances.lines
    # ||S - P|| = (1 - share) ||1/n - P|| = (1 - share) sqrt(n - 1)
    expected = [(1 - share) * np.sqrt(5) for share in (0.0, 0.3, 0.6, 0.8, 0.9, 0.95)]
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert list(line.get_xdata()) == [0, 1, 2, 3, 4, 5]
    assert distances.get_yscale() == "log"
    save_figure(figure, tmp_path / "evolution.pdf")
    assert (tmp_path / "evolution.pdf").stat().st_size > 1000


def test_distances_that_reach_zero_are_on_a_linear_scale():
    figure = permutation_evolution({0: np.full((2, 2), 0.5), 1: np.eye(2)}, np.eye(2))
    assert figure.axes[-1].get_yscale() == "linear"
    assert figure.axes[-1].get_ylim()[0] == 0


@pytest.mark.parametrize(
    "draw",
    [
        lambda: class_routing_heat_maps([]),
        lambda: permutation_evolution({}, np.eye(3)),
        lambda: permutation_evolution({0: np.eye(4)}, np.eye(3)),
        lambda: permutation_evolution({0: np.ones((2, 3))}, np.ones((2, 3))),
    ],
)
def test_wrong_arguments(draw):
    with pytest.raises(ValueError, match="`"):
        draw()
