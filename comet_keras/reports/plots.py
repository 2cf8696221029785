"""Figures of training runs. Each function returns a matplotlib `Figure`; `save_figure` writes it.

Figures are made without pyplot, so that no window or global state is involved and any backend works.
"""

from pathlib import Path

import numpy as np

# Okabe and Ito's palette without its yellow, which is faint on white: distinct to colour-blind eyes.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
WIDTH = 7.0  # inches, the text width of a paper


def loss_curves(histories, title=None):
    """Training loss (dashed) and validation loss (solid) of several runs, by epoch.

    The training loss holds the regularization terms, the validation loss does not.

    Args:
        histories: dict from label to history: a dict with a list `loss` and, if validated, `val_loss`.
        title: str or None.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: if there is no run, or one without `loss`.

    Example:

    >>> from comet_keras.reports import loss_curves
    >>> figure = loss_curves({"COMET": {"loss": [1.0, 0.5], "val_loss": [1.1, 0.7]}})
    >>> figure.axes[0].get_xlabel()
    'epoch'
    """
    from matplotlib.lines import Line2D

    _check_runs(histories, "loss")
    figure, (axes,) = make_panels(1, 1, (WIDTH, 3.8))
    handles = []
    for i, (label, history) in enumerate(histories.items()):
        style = {"color": COLORS[i % len(COLORS)], "linewidth": 1.6}
        marker = {"marker": MARKERS[i % len(MARKERS)], "markersize": 4.5}
        epochs = np.arange(1, len(history["loss"]) + 1)
        axes.plot(epochs, history["loss"], linestyle="--", alpha=0.6, **{**style, "linewidth": 1.1})
        if history.get("val_loss"):
            axes.plot(epochs[: len(history["val_loss"])], history["val_loss"], **style, **marker)
        handles.append(Line2D([], [], label=label, **style, **marker))
    handles.append(Line2D([], [], color="0.3", linewidth=1.6, label="validation"))
    handles.append(Line2D([], [], color="0.3", linewidth=1.1, linestyle="--", label="training"))
    values = [v for history in histories.values() for k in ("loss", "val_loss") for v in history.get(k) or []]
    if min(values) > 0 and max(values) > 10 * min(values):
        axes.set_yscale("log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="epoch", ylabel="loss", title=title)
    axes.grid(alpha=0.25, which="both", linewidth=0.5)
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def expert_load(loads, title=None):
    """Share of the weight that each expert receives: a panel a gate, groups of bars by task.

    Args:
        loads: dict from gate (a panel's title) to a dict from task to usage `(n,)`, such as
            `expert_usage` of `comet_keras.metrics.routing_statistics`.
        title: str or None.

    Returns:
        `matplotlib.figure.Figure`. A dotted line marks equal shares.

    Raises:
        ValueError: if there is no gate.

    Example:

    >>> from comet_keras.reports import expert_load
    >>> figure = expert_load({"COMET": {"watch": [0.5, 0.5], "rating": [1.0, 0.0]}})
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('expert', 'share of weight')
    """
    if not loads:
        raise ValueError("`loads` must hold at least one gate.")
    columns = min(3, len(loads))
    rows = -(-len(loads) // columns)
    figure, panels = make_panels(rows, columns, (WIDTH, 1.9 * rows + 0.8), sharey=True)
    for panel, (gate, usages) in zip(panels, loads.items()):
        num_experts = len(next(iter(usages.values())))
        width = 0.8 / len(usages)
        for i, (task, usage) in enumerate(usages.items()):
            places = np.arange(num_experts) + (i - (len(usages) - 1) / 2) * width
            panel.bar(places, usage, width, color=COLORS[i % len(COLORS)], label=task or "all")
        panel.axhline(1 / num_experts, color="0.35", linewidth=0.9, linestyle=":")
        panel.set_title(gate, fontsize=10)
        panel.set(xlabel="expert", xlim=(-0.6, num_experts - 0.4))
        panel.set_xticks(np.arange(0, num_experts, max(1, num_experts // 8)))
    for panel in panels[len(loads) :]:
        panel.set_visible(False)
    for panel in panels[::columns]:
        panel.set_ylabel("share of weight")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(title)
    return figure


def permutation_heat_maps(soft, hard, titles=("before hardening", "after hardening"), title=None):
    """The soft permutation matrix and the hard one side by side.

    Args:
        soft: array `(n, n)`, S: row an expert, column a gate output, each column summing to 1
            (`Permutation.soft_matrix()`).
        hard: array `(n, n)` of zeros and ones (`Permutation.hard_matrix()`).
        titles: pair of str, of the two panels.
        title: str or None.

    Returns:
        `matplotlib.figure.Figure`.

    Raises:
        ValueError: if the matrices are not square and of one size.

    Example:

    >>> import numpy as np
    >>> from comet_keras.reports import permutation_heat_maps
    >>> figure = permutation_heat_maps(np.full((4, 4), 0.25), np.eye(4))
    >>> figure.axes[0].get_ylabel()
    'expert'
    """
    soft, hard = np.asarray(soft, float), np.asarray(hard, float)
    if soft.ndim != 2 or soft.shape[0] != soft.shape[1] or soft.shape != hard.shape:
        raise ValueError(
            f"`soft` and `hard` must be square and of one size. Received: {soft.shape}, {hard.shape}"
        )
    figure, panels = make_panels(1, 2, (WIDTH, 3.4), sharey=True)
    ticks = np.arange(0, len(soft), max(1, len(soft) // 8))
    for panel, matrix, name in zip(panels, (soft, hard), titles):
        image = panel.imshow(matrix, cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
        panel.set_title(name, fontsize=10)
        panel.set(xlabel="gate output", xticks=ticks, yticks=ticks)
        edges = np.arange(len(soft) - 1) + 0.5
        panel.hlines(edges, -0.5, len(soft) - 0.5, color="white", linewidth=0.4, alpha=0.4)
        panel.vlines(edges, -0.5, len(soft) - 0.5, color="white", linewidth=0.4, alpha=0.4)
    panels[0].set_ylabel("expert")
    figure.colorbar(image, ax=list(panels), label="share of the gate output", shrink=0.85)
    figure.suptitle(title)
    return figure


def save_figure(figure, path, dpi=200):
    """Writes a figure (`.png`, `.pdf`, `.svg`, ...), making the folder if need be. Returns the path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=dpi)
    return path


def make_panels(rows, columns, size, **kwargs):
    """A figure and its axes in a flat array."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs).ravel()
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _check_runs(histories, name):
    if not histories:
        raise ValueError("`histories` must hold at least one run.")
    for label, history in histories.items():
        if not len(history.get(name, ())):
            raise ValueError(f"`histories`: run {label!r} has no {name!r}.")
