"""Tables and figures of training runs, and what inference costs."""

from comet_keras.reports.flops import flops
from comet_keras.reports.plots import (
    expert_load,
    loss_curves,
    permutation_heat_maps,
    save_figure,
)
from comet_keras.reports.significance import mean_and_error, p_value_below
from comet_keras.reports.tables import text_table

__all__ = [
    "expert_load",
    "flops",
    "loss_curves",
    "mean_and_error",
    "p_value_below",
    "permutation_heat_maps",
    "save_figure",
    "text_table",
]
