"""Figures of routing: classes to experts, and how a permutation was found."""

import numpy as np

from comet_keras.reports.plots import COLORS, WIDTH, make_panels

COLOR_MAP = "cividis"
MOST_MATRICES = 4


def class_routing_heat_maps(routings, title=None):
    """Share of each class's rows that go to each expert: a panel a gate and task.

    Args:
        routings: list of `ClassRouting`, as `class_routing` returns.
        title: str or None.

    Returns:
        `matplotlib.figure.Figure`. A panel's title has the mutual information of expert and class.

    Raises:
        ValueError: if there is none.

    Example:

    >>> import numpy as np
    >>> from comet_keras.reports import ClassRouting, class_routing_heat_maps
    >>> counts = np.array([[3, 0], [1, 2]])
    >>> routing = ClassRouting("", "watch", ["0", "1"], np.array([3, 3]), counts, counts, 0.46, 1.0)
    >>> class_routing_heat_maps([routing]).axes[0].get_xlabel()
    'expert'
    """
    if not routings:
        raise ValueError("`routings` must hold at least one routing.")
    columns = min(2, len(routings))
    rows = -(-len(routings) // columns)
    tallest = max(len(routing.labels) for routing in routings)
    height = rows * (1.1 + min(3.0, 0.24 * tallest + 0.4))
    figure, panels = make_panels(rows, columns, (WIDTH, height))
    for panel, routing in zip(panels, routings):
        shares = routing.shares
        image = panel.imshow(shares, cmap=COLOR_MAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        _grid(panel, *shares.shape)
        panel.set_xticks(_ticks(shares.shape[1], 8))
        places = _ticks(len(routing.labels), 20)
        panel.set_yticks(places, [routing.labels[i] for i in places])
        information = f"I = {routing.mutual_information:.2f} of {routing.label_entropy:.2f} bits"
        panel.set_title(f"{routing.title}\n{information}", fontsize=10)
        panel.set(xlabel="expert", ylabel="class")
    for panel in panels[len(routings) :]:
        panel.set_visible(False)
    figure.colorbar(image, ax=list(panels), label="share of the class's rows", shrink=0.9)
    figure.suptitle(title)
    return figure


def permutation_evolution(soft, hard, title=None):
    """How a soft permutation became a hard one: matrices by epoch, and their distance to the hard one.

    Args:
        soft: dict from epoch to the soft matrix `(n, n)`, as `PermutationHistory.soft` holds for each
            permutation. Up to four are shown, the first and last among them.
        hard: array `(n, n)` of zeros and ones, the permutation at the end.
        title: str or None.

    Returns:
        `matplotlib.figure.Figure`: matrices above, row an expert and column a gate output; below them the
        Frobenius norm of S - P by epoch.

    Raises:
        ValueError: if there is no soft matrix, or they are not square and of one size.

    Example:

    >>> import numpy as np
    >>> from comet_keras.reports import permutation_evolution
    >>> figure = permutation_evolution({0: np.full((4, 4), 0.25), 1: np.eye(4)}, np.eye(4))
    >>> figure.axes[-1].get_ylabel()
    'distance ||S - P||'
    """
    hard = np.asarray(hard, float)
    soft = {epoch: np.asarray(matrix, float) for epoch, matrix in sorted(soft.items())}
    shapes = {hard.shape, *(matrix.shape for matrix in soft.values())}
    if not soft or len(shapes) > 1 or hard.ndim != 2 or hard.shape[0] != hard.shape[1]:
        raise ValueError(
            "`soft` must hold at least one matrix, and all be square and of one size with `hard`. "
            f"Received: {sorted(shapes)}"
        )
    epochs = list(soft)
    shown = sorted({round(i) for i in np.linspace(0, len(epochs) - 1, min(MOST_MATRICES, len(epochs)))})
    figure = _figure(WIDTH, 4.3, title)
    above, below = figure.subfigures(2, 1, height_ratios=(1.0, 1.1))
    panels = above.subplots(1, len(shown) + 1, sharey=True)
    titles = [f"S, epoch {epochs[i]}" if epochs[i] else "S, start" for i in shown]
    for panel, matrix, name in zip(panels, [*(soft[epochs[i]] for i in shown), hard], [*titles, "P, hard"]):
        image = panel.imshow(matrix, cmap=COLOR_MAP, vmin=0, vmax=1, interpolation="nearest")
        _grid(panel, *matrix.shape)
        ticks = _ticks(len(matrix), 4)
        panel.set(xlabel="gate output", xticks=ticks, yticks=ticks)
        panel.set_title(name, fontsize=9)
    panels[0].set_ylabel("expert")
    above.colorbar(image, ax=list(panels), shrink=0.8, label="share")
    distances = below.subplots()
    distances.spines[["top", "right"]].set_visible(False)
    values = [float(np.linalg.norm(matrix - hard)) for matrix in soft.values()]
    distances.plot(epochs, values, color=COLORS[0], marker="o", markersize=4.5, linewidth=1.6)
    distances.set(xlabel="epoch", ylabel="distance ||S - P||")
    if min(values) > 0 and max(values) > 10 * min(values):
        distances.set_yscale("log")
    else:
        distances.set_ylim(0, None)
    distances.xaxis.get_major_locator().set_params(integer=True)
    distances.grid(alpha=0.25, linewidth=0.5)
    return figure


def _figure(width, height, title):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title)
    return figure


def _ticks(count, most):
    return np.arange(0, count, max(1, -(-count // most)))


def _grid(panel, rows, columns):
    """Thin lines between cells."""
    style = {"color": "white", "linewidth": 0.4, "alpha": 0.4}
    panel.hlines(np.arange(rows - 1) + 0.5, -0.5, columns - 0.5, **style)
    panel.vlines(np.arange(columns - 1) + 0.5, -0.5, rows - 0.5, **style)
