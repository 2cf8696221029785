import numpy as np
import pytest

from comet_keras.reports import BootstrapCurve, bootstrap_curves, save_figure


def curve(level, budgets=(1, 2, 5, 10, 15, 20, 25, 30)):
    budgets = np.array(budgets)
    return BootstrapCurve(budgets, level + 0.1 / budgets, np.full(len(budgets), 0.01))


def test_curves_bands_and_labels(tmp_path):
    movielens = {"topk": curve(0.5), "topk+": curve(0.4), "comet": curve(0.3)}
    panels = {"MovieLens": movielens, "Books": {"hash": curve(1.0)}}
    figure = bootstrap_curves(panels)
    left, right = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["MovieLens", "Books"]
    assert left.get_ylabel() == "expected test loss" and left.get_xlabel() == right.get_xlabel() == "number of trials"
    assert left.get_xscale() == "log"
    assert [tuple(line.get_ydata()) for line in left.lines] == [tuple(c.means) for c in panels["MovieLens"].values()]
    plain, local_search, comet = left.lines
    assert plain.get_color() == local_search.get_color() != comet.get_color()
    assert (plain.get_linestyle(), local_search.get_linestyle()) == ("--", "-")
    assert plain.get_markerfacecolor() == "white" != local_search.get_markerfacecolor()
    band = left.collections[0].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx(0.5 + 0.1 + 0.01)
    assert band[:, 1].min() == pytest.approx(0.5 + 0.1 / 30 - 0.01)
    assert list(left.get_xticks()) == [1, 2, 5, 10, 20]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["Hash-r", " ", "Top-k", "Top-k+", "COMET", " "]
    save_figure(figure, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_few_budgets_are_the_ticks_and_unknown_errors_make_no_band():
    unknown = BootstrapCurve(np.array([1, 3]), np.array([0.5, 0.4]), np.array([0.1, np.nan]))
    figure = bootstrap_curves({"a": {"topk": unknown}})
    (axes,) = figure.axes
    assert list(axes.get_xticks()) == [1, 3]
    assert np.isfinite(axes.collections[0].get_paths()[0].vertices).all()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Top-k"]


def test_three_panels_hide_the_fourth():
    figure = bootstrap_curves({name: {"topk": curve(0.5)} for name in "abc"})
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]


def test_models_of_ones_own_have_styles_too():
    figure = bootstrap_curves({"own model": {"build": curve(0.5), "other": curve(0.4), "comet": curve(0.3)}})
    colors = {line.get_color() for line in figure.axes[0].lines}
    assert len(colors) == 3
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["COMET", "build", "other"]


@pytest.mark.parametrize("panels", [{}, {"a": {}}])
def test_wrong_arguments(panels):
    with pytest.raises(ValueError, match="`"):
        bootstrap_curves(panels)
