import numpy as np
import pytest

from comet_keras.reports import (
    expert_load,
    loss_curves,
    permutation_heat_maps,
    save_figure,
)

HISTORIES = {"COMET": {"loss": [1.0, 0.1], "val_loss": [1.1, 0.05]}, "Top-k": {"loss": [0.9, 0.8, 0.7]}}


def check_written(figure, path):
    save_figure(figure, path)
    assert path.stat().st_size > 1000
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_loss_curves(tmp_path):
    figure = loss_curves(HISTORIES, title="runs")
    (axes,) = figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("epoch", "loss", "runs")
    lines = {(line.get_linestyle(), tuple(line.get_ydata())) for line in axes.lines}
    assert lines == {("--", (1.0, 0.1)), ("-", (1.1, 0.05)), ("--", (0.9, 0.8, 0.7))}
    assert list(axes.lines[0].get_xdata()) == [1, 2]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["COMET", "Top-k", "validation", "training"]
    assert axes.get_yscale() == "log"
    check_written(figure, tmp_path / "new" / "loss.png")


def test_expert_load(tmp_path):
    loads = {name: {"a": [0.5, 0.5, 0.0], "b": [0.2, 0.3, 0.5]} for name in ("COMET", "Top-k", "Hash", "Softmax")}
    figure = expert_load(loads)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == list(loads)
    assert all(axes.get_xlabel() == "expert" for axes in shown)
    assert shown[0].get_ylabel() == shown[3].get_ylabel() == "share of weight"
    assert [bar.get_height() for bar in shown[0].patches] == [0.5, 0.5, 0.0, 0.2, 0.3, 0.5]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    check_written(figure, tmp_path / "load.pdf")


def test_permutation_heat_maps(tmp_path):
    soft, hard = np.full((16, 16), 1 / 16), np.eye(16)[::-1]
    figure = permutation_heat_maps(soft, hard)
    left, right, bar = figure.axes
    np.testing.assert_array_equal(left.images[0].get_array(), soft)
    np.testing.assert_array_equal(right.images[0].get_array(), hard)
    assert left.get_xlabel() == right.get_xlabel() == "gate output"
    assert left.get_ylabel() == "expert"
    assert bar.get_ylabel() == "share of the gate output"
    assert left.images[0].get_clim() == right.images[0].get_clim() == (0, 1)
    check_written(figure, tmp_path / "permutation.svg")


def test_figures_leave_pyplot_alone():
    import matplotlib.pyplot

    loss_curves(HISTORIES)
    assert matplotlib.pyplot.get_fignums() == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda: loss_curves({}),
        lambda: loss_curves({"COMET": {"val_loss": [1.0]}}),
        lambda: expert_load({}),
        lambda: permutation_heat_maps(np.eye(3), np.eye(4)),
        lambda: permutation_heat_maps(np.ones((2, 3)), np.ones((2, 3))),
    ],
)
def test_wrong_arguments(draw):
    with pytest.raises(ValueError, match="`"):
        draw()
