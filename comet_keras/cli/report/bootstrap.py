"""`comet-keras report bootstrap`."""

from comet_keras.cli.report.shared import add_folders, check_figure
from comet_keras.reports import (
    bootstrap_curves,
    bootstrap_table,
    read_comparable_searches,
    reduction_table,
    render_table,
    save_figure,
)

SUMMARY = "Expected test loss by number of trials, and how many times fewer a gate needs."


def add_arguments(parser):
    """Arguments of `report bootstrap`."""
    add_folders(parser)
    parser.add_argument(
        "--budgets",
        help="numbers of trials (default: 1 2 5 10 15 ... 250, as far as half the trials go)",
        nargs="+",
        type=int,
        metavar="S",
    )
    parser.add_argument("--with-replacement", help="draw trials with replacement", action="store_true")
    parser.add_argument("--figure", help="draw the curves into this file too (.png, .pdf, ...)", metavar="FILE")


def make(arguments):
    """The table by budget and the tuning-reduction factors."""
    check_figure("--figure", arguments.figure)
    records = read_comparable_searches(arguments.folders)
    table, curves = bootstrap_table(records, arguments.budgets, arguments.with_replacement)
    if arguments.figure is not None:
        title = next(iter(records.values())).title
        save_figure(bootstrap_curves({title: curves}), arguments.figure)
    reductions = reduction_table(records, arguments.with_replacement)
    return "\n\n".join(render_table(part) for part in (table, reductions) if part is not None)
