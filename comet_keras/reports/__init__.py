"""Tables and figures of training runs and searches, and what inference costs.

What reads trials, and what draws, needs no Keras. What runs a model loads it when it is called.
"""

from comet_keras.reports.bootstrap import (
    BootstrapCurve,
    TuningReduction,
    bootstrap_curve,
    draw_bootstrap,
    tuning_reduction,
)
from comet_keras.reports.class_routing import ClassRouting, class_routing
from comet_keras.reports.flops import flops
from comet_keras.reports.paper_tables import paper_tables
from comet_keras.reports.plots import (
    expert_load,
    loss_curves,
    permutation_heat_maps,
    save_figure,
)
from comet_keras.reports.routing_plots import (
    class_routing_heat_maps,
    permutation_evolution,
)
from comet_keras.reports.search_plots import bootstrap_curves
from comet_keras.reports.search_tables import (
    bootstrap_table,
    reduction_table,
    trials_table,
)
from comet_keras.reports.searches import (
    SearchRecord,
    read_comparable_searches,
    read_searches,
)
from comet_keras.reports.seed_table import read_seed_runs, seed_table
from comet_keras.reports.significance import mean_and_error, p_value_below
from comet_keras.reports.table_formats import Measured, Table, render_table
from comet_keras.reports.tables import text_table
from comet_keras.reports.top_fraction import (
    TopFraction,
    compare_with_best_existing,
    top_fraction,
)

__all__ = [
    "BootstrapCurve",
    "ClassRouting",
    "Measured",
    "SearchRecord",
    "Table",
    "TopFraction",
    "TuningReduction",
    "bootstrap_curve",
    "bootstrap_curves",
    "bootstrap_table",
    "class_routing",
    "class_routing_heat_maps",
    "compare_with_best_existing",
    "draw_bootstrap",
    "expert_load",
    "flops",
    "loss_curves",
    "mean_and_error",
    "p_value_below",
    "paper_tables",
    "permutation_evolution",
    "permutation_heat_maps",
    "read_comparable_searches",
    "read_searches",
    "read_seed_runs",
    "reduction_table",
    "render_table",
    "save_figure",
    "seed_table",
    "text_table",
    "top_fraction",
    "trials_table",
    "tuning_reduction",
]
