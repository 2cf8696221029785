"""Tables 2, 3 and 7 of the COMET paper, with the figures of one's own searches beside the paper's."""

from comet_keras.reports import paper_numbers as paper
from comet_keras.reports.searches import GATE_ORDER, gate_name
from comet_keras.reports.table_formats import Measured, Table
from comet_keras.reports.top_fraction import (
    FRACTION,
    SIGNIFICANT,
    compare_with_best_existing,
    top_fraction,
)

PERCENT = 100  # losses, AUC and accuracy are in hundredths


def paper_tables(records, fraction=FRACTION):
    """The paper's Tables 2, 3 and 7 for the searches that there are.

    Searches with a yes-or-no task and one of regression make rows of Table 2 and the first part of Table
    7, all others of Table 3 and its second part. In a setting (a task, its alpha and rows) the gates that the
    paper has and the searches have not are left empty on our side, and the other way round. An asterisk
    marks p < 0.05 in the one-sided t-test against the best existing gate of the same column; ours marks
    every gate for which it holds. The lowest test loss of a column is set in bold.

    Args:
        records: list of `SearchRecord`, such as `read_searches` returns.
        fraction: float, share of the trials that count, see `top_fraction`. Default 0.05.

    Returns:
        List of `comet_keras.reports.table_formats.Table`, for `render_table`.

    Raises:
        ValueError: if there is no search.

    Example:

    >>> from comet_keras.reports import SearchRecord, paper_tables
    >>> from comet_keras.tuning import Trial
    >>> trial = Trial("0", "completed", {}, 0.07, 0.065, {"top": {"accuracy": 0.98}}, {"top": 4.0})
    >>> record = SearchRecord("multi_mnist", "topk", {"top": 1.0}, [trial], num_experts=16)
    >>> [table.caption[:7] for table in paper_tables([record])]
    ['Table 3', 'Table 7']
    """
    if not records:
        raise ValueError("`records` must hold at least one search.")
    settings = {}
    for record in records:
        settings.setdefault(record.setting, []).append(record)
    settings = [_Setting(group, fraction) for group in sorted(settings.values(), key=_place)]
    ratings = [setting for setting in settings if setting.alpha is not None]
    others = [setting for setting in settings if setting.alpha is None]
    tables = []
    for group, name in ((ratings, "Table 2"), (others, "Table 3")):
        if group:
            tables.append(_loss_table(group, name))
    for group, metrics in ((ratings, ("auc", "mse")), (others, ("accuracy",))):
        if group:
            tables.append(_metric_table(group, metrics))
    return tables


class _Setting:
    """The searches of one task and its weights, and what the paper has of it."""

    def __init__(self, records, fraction):
        first = records[0]
        self.task, self.alpha, self.title, self.rows = first.task, first.alpha, first.title, first.rows
        self.key = (self.task, self.alpha)
        self.top = {record.gate: top_fraction(record.trials, fraction) for record in records}
        experts = {record.num_experts for record in records if record.num_experts is not None}
        self.num_experts = experts.pop() if len(experts) == 1 else paper.NUM_EXPERTS.get(self.task)
        self.p_values = compare_with_best_existing(self.top)[1]
        self.digits = 3 if self.key == ("jester", 0.9) else 2

    def gates(self, printed):
        """Those searched and those in the paper, in its order; what it has not comes last."""
        known = [gate for gate in GATE_ORDER if gate in self.top or gate in printed]
        return known + [gate for gate in self.top if gate not in GATE_ORDER]

    def selected(self):
        """How many trials count, of how many, and the training rows if not all, as text."""
        counts = sorted({(len(top.selected), top.ended) for top in self.top.values()})
        rows = "" if self.rows is None else f" ({self.rows} training rows)"
        return f"{self.title} {', '.join(f'{m} of {n}' for m, n in counts)}{rows}"


def _loss_table(settings, name):
    rows = []
    for setting in settings:
        printed = {**paper.TABLE_2, **paper.TABLE_3}.get(setting.key, {})
        ours = {gate: top.loss for gate, top in setting.top.items()}
        best, best_printed = _lowest(ours), _lowest({gate: figures[0] for gate, figures in printed.items()})
        for gate in setting.gates(printed):
            loss, per_sample, their_loss, their_per_sample = None, None, None, None
            if gate in ours:
                significant = setting.p_values.get(gate, 1.0) < SIGNIFICANT
                loss = _scaled(ours[gate], PERCENT, setting.digits, significant, gate == best)
                per_sample = _scaled(setting.top[gate].experts_per_sample)
            if gate in printed:
                marked = gate in paper.SIGNIFICANT.get(setting.key, ())
                their_loss = Measured(*printed[gate][0], setting.digits, marked, gate == best_printed)
                their_per_sample = Measured(*printed[gate][1])
            rows.append(
                [
                    setting.title,
                    setting.num_experts,
                    gate_name(gate),
                    loss,
                    their_loss,
                    per_sample,
                    their_per_sample,
                ]
            )
    headers = ["Dataset", "n", "Model", "Test loss", "Test loss (paper)", "n/s", "n/s (paper)"]
    caption = (
        f"{name} of the COMET paper: test loss (× 0.01, the smaller the better) and experts per sample "
        "(n/s). * p < 0.05 against the best existing gate, one-sided unpaired t-test."
    )
    return Table(caption, headers, rows, _note(settings))


def _metric_table(settings, metrics):
    printed_table = paper.TABLE_7_RATINGS if "auc" in metrics else paper.TABLE_7_IMAGES
    rows = []
    for setting in settings:
        printed = printed_table.get(setting.key, {})
        for gate in setting.gates(printed):
            row = [setting.title, gate_name(gate)]
            for i, metric in enumerate(metrics):
                # The MSE is printed as it is, with four decimals.
                factor, digits = (1, 4) if metric == "mse" else (PERCENT, setting.digits)
                top = setting.top.get(gate)
                row.append(_scaled(top and top.metric(metric), factor, digits))
                row.append(Measured(*printed[gate][i], digits) if gate in printed else None)
            rows.append(row)
    names = {"auc": "Test AUC", "mse": "Test MSE", "accuracy": "Test accuracy"}
    headers = ["Dataset", "Gate"]
    for metric in metrics:
        headers += [names[metric], f"{names[metric]} (paper)"]
    subject = "AUC (× 0.01) and mean squared error" if "auc" in metrics else "accuracy (× 0.01), mean over tasks"
    return Table(f"Table 7 of the COMET paper: test {subject}.", headers, rows, _note(settings))


def _note(settings):
    selected = "; ".join(setting.selected() for setting in settings)
    return f"Ours: mean ± standard error of the best trials by validation loss: {selected}."


def _scaled(figure, factor=1, digits=2, significant=False, best=False):
    if figure is None:
        return None
    mean, error = figure
    return Measured(factor * mean, factor * error, digits, significant, best)


def _lowest(figures):
    return min(figures, key=lambda gate: figures[gate][0], default=None)


def _place(records):
    """The order of the paper's tables; what it has not comes last, by name."""
    known = [*paper.TABLE_2, *paper.TABLE_3]
    key = (records[0].task, records[0].alpha)
    return known.index(key) if key in known else len(known), records[0].title, records[0].rows or 0
