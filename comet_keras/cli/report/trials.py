"""`comet-keras report trials`."""

from comet_keras.cli.report.shared import add_folders, add_fraction
from comet_keras.reports import read_comparable_searches, render_table, trials_table

SUMMARY = "What the best trials of each gate's search reached."


def add_arguments(parser):
    """Arguments of `report trials`."""
    add_folders(parser)
    add_fraction(parser)


def make(arguments):
    """The top-5% table by gate, with the test against the best existing gate."""
    return render_table(trials_table(read_comparable_searches(arguments.folders), arguments.fraction))
