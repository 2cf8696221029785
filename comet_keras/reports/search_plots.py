"""Figures of searches."""

import numpy as np

from comet_keras.reports.plots import COLORS, MARKERS, WIDTH, make_panels
from comet_keras.reports.searches import GATE_NAMES, gate_name

MOST_TICKS = 6
# COMET in black, the paper's other gates in colours; models of one's own in the colours left.
STYLES = dict(zip(GATE_NAMES, zip((*COLORS[:4], COLORS[6]), MARKERS)))
OTHER_STYLES = tuple(zip(COLORS[4:6], MARKERS[5:]))


def bootstrap_curves(panels, title=None):
    """Expected test loss of the best trial by the number of trials: the paper's Figures 2 and 3.

    A gate and the same with local search share their colour; local search is drawn solid with a filled
    marker, without it dashed with an open one. Bands are one standard error to either side.

    Args:
        panels: dict from title of a panel (a task) to a dict from gate string to `BootstrapCurve`.
        title: str or None.

    Returns:
        `matplotlib.figure.Figure`; the axis of trials is logarithmic.

    Raises:
        ValueError: if there is no panel, or one without curves.

    Example:

    >>> import numpy as np
    >>> from comet_keras.reports import BootstrapCurve, bootstrap_curves
    >>> curve = BootstrapCurve(np.array([1, 2]), np.array([0.5, 0.4]), np.array([0.1, 0.1]))
    >>> bootstrap_curves({"MovieLens": {"topk": curve, "topk+": curve}}).axes[0].get_xscale()
    'log'
    """
    if not panels or not all(panels.values()):
        raise ValueError("`panels` must hold at least one panel, each with at least one curve.")
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = make_panels(rows, columns, (WIDTH, 3.1 * rows + 0.7))
    styles, handles = _styles(panels), {}
    for panel, (name, curves) in zip(axes, panels.items()):
        for gate, curve in curves.items():
            handles[gate_name(gate)] = _draw(panel, gate, curve, *styles[gate.removesuffix("+")])
        _set_axis_of_trials(panel, curves.values())
        panel.set_title(name, fontsize=10)
        panel.grid(alpha=0.25, linewidth=0.5)
    for panel in axes[len(panels) :]:
        panel.set_visible(False)
    for panel in axes[::columns]:
        panel.set_ylabel("expected test loss")
    legend, names, columns = _legend(handles)
    figure.legend(legend, names, loc="outside lower center", ncols=columns, frameon=False)
    figure.suptitle(title)
    return figure


def _styles(panels):
    """Colour and marker of each gate, the same in all panels."""
    families = dict.fromkeys(gate.removesuffix("+") for curves in panels.values() for gate in curves)
    others = [family for family in families if family not in STYLES]
    return STYLES | {family: OTHER_STYLES[i % len(OTHER_STYLES)] for i, family in enumerate(others)}


def _legend(handles):
    """Lines, names and the number of columns: one a gate, local search below the same without."""
    from matplotlib.lines import Line2D

    found = dict.fromkeys(name.removesuffix("+") for name in handles)
    families = [name for name in GATE_NAMES.values() if name in found]
    families += [name for name in found if name not in families]
    pairs = [(name, f"{name}+") for name in families]
    if not any(name.endswith("+") for name in handles):
        pairs = [(name,) for name in families]
    names = [name for pair in pairs for name in pair]
    blank = Line2D([], [], linestyle="none")
    return (
        [handles.get(name, blank) for name in names],
        [name if name in handles else " " for name in names],
        len(families),
    )


def _draw(panel, gate, curve, color, marker):
    local_search = gate.endswith("+")
    errors = np.nan_to_num(curve.errors)
    panel.fill_between(
        curve.budgets, curve.means - errors, curve.means + errors, color=color, alpha=0.12, linewidth=0
    )
    (line,) = panel.plot(
        curve.budgets,
        curve.means,
        color=color,
        linestyle="-" if local_search else "--",
        linewidth=1.5,
        marker=marker,
        markersize=4.5,
        markerfacecolor=color if local_search else "white",
        # Not on every point of the paper's 52.
        markevery=_apart(curve.budgets),
    )
    return line


def _apart(budgets):
    """Places of budgets that lie at least a factor of 1.3 apart."""
    places, last = [], 0
    for i, budget in enumerate(budgets):
        if budget >= 1.3 * last:
            places.append(i)
            last = budget
    return places


def _set_axis_of_trials(panel, curves):
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    budgets = sorted({int(budget) for curve in curves for budget in curve.budgets})
    ticks = [base * 10**power for power in range(7) for base in (1, 2, 5)]
    ticks = [tick for tick in ticks if budgets[0] <= tick <= budgets[-1]]
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(budgets if len(budgets) <= MOST_TICKS else ticks))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("number of trials")
