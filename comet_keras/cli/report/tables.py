"""`comet-keras report tables`."""

from pathlib import Path

from comet_keras.cli.report.shared import add_folders, add_fraction, check_folder_of
from comet_keras.reports import (
    paper_tables,
    read_searches,
    read_seed_runs,
    render_table,
    seed_table,
)
from comet_keras.reports.table_formats import FORMATS

SUMMARY = "The paper's Tables 1, 2, 3 and 7, with the figures of searches beside the paper's."


def add_arguments(parser):
    """Arguments of `report tables`."""
    add_folders(parser, nargs="*")
    add_fraction(parser)
    parser.add_argument(
        "--runs",
        help="runs by seed for Table 1: the JSON lines that benchmarks/table1.py writes",
        metavar="FILE",
    )
    parser.add_argument(
        "--format",
        help=f"{', '.join(FORMATS)} (default: text)",
        choices=FORMATS,
        default="text",
        metavar="FORMAT",
    )
    parser.add_argument("--output", help="write the tables to this file instead of showing them", metavar="FILE")


def make(arguments):
    """The tables for which there are searches or runs, one below the other."""
    if not arguments.folders and arguments.runs is None:
        raise ValueError("FOLDER... or --runs FILE is needed.")
    check_folder_of("--output", arguments.output)
    tables = [] if arguments.runs is None else [seed_table(read_seed_runs(arguments.runs))]
    if arguments.folders:
        tables += paper_tables(read_searches(arguments.folders), arguments.fraction)
    text = "\n\n".join(render_table(table, arguments.format) for table in tables)
    if arguments.output is None:
        return text
    Path(arguments.output).write_text(text + "\n", encoding="utf-8")
    return f"{len(tables)} tables written to {arguments.output}."
