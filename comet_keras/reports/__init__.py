"""Tables and figures of training runs."""

from comet_keras.reports.plots import (
    expert_load,
    loss_curves,
    permutation_heat_maps,
    save_figure,
)
from comet_keras.reports.tables import text_table

__all__ = ["expert_load", "loss_curves", "permutation_heat_maps", "save_figure", "text_table"]
