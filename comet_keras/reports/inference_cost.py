"""What the inference of a model costs, as `flops` reports it."""

from dataclasses import dataclass

from comet_keras.reports.tables import text_table


@dataclass(frozen=True)
class InferenceCost:
    """Cost of one sample at inference, the mean over a data set.

    Attributes:
        unit: str, what is counted.
        samples: int, rows of the data set.
        parts: dict from part of the model to its cost.
        dense_parts: the same if every expert ran on every row.
        experts_per_sample: dict from gate to the mean number of experts it gives weight (labels as in
            `RoutingMonitor`). For sequences a sample is a position here.
        experts_run: dict from mixture to the mean number of experts that any of its gates gives weight.
        num_experts: dict from mixture to its number of experts.
    """

    unit: str
    samples: int
    parts: dict
    dense_parts: dict
    experts_per_sample: dict
    experts_run: dict
    num_experts: dict

    @property
    def total(self):
        """Cost of all parts."""
        return sum(self.parts.values())

    @property
    def dense_total(self):
        """Cost of all parts if every expert ran on every row."""
        return sum(self.dense_parts.values())

    def to_dict(self):
        """All figures as plain JSON values."""
        return {**vars(self), "total": self.total, "dense_total": self.dense_total}

    def __str__(self):
        parts = [(name, cost, self.dense_parts[name]) for name, cost in self.parts.items()]
        rows = [
            [name, f"{cost:.0f}", _percent(cost, self.total), f"{dense:.0f}"]
            for name, cost, dense in (*parts, ("total", self.total, self.dense_total))
        ]
        text = [
            f"{self.unit} of one sample, mean of {self.samples} samples",
            text_table(rows, ["part", "cost", "share", "all experts"]),
        ]
        if self.experts_per_sample:
            text.append(text_table(self._expert_rows(), ["experts per sample", "mean"], precision=2))
        return "\n\n".join(text)

    def _expert_rows(self):
        gates = [[label or "gate", mean] for label, mean in self.experts_per_sample.items()]
        run = [[f"{name}, run of {self.num_experts[name]}", mean] for name, mean in self.experts_run.items()]
        return gates + run


def _percent(part, total):
    return f"{100 * part / total:.1f}%" if total else "0.0%"
