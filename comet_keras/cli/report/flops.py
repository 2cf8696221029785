"""`comet-keras report flops`."""

import json
from pathlib import Path

from comet_keras.cli.report.shared import (
    add_model,
    check_file,
    check_folder_of,
    load_model_and_test,
)
from comet_keras.reports import flops

SUMMARY = "Multiply-adds of a sample, part by part."


def add_arguments(parser):
    """Arguments of `report flops`."""
    add_model(parser, "runs/movielens-comet+/model.keras")
    parser.add_argument(
        "--paper-table6",
        help="FLOPs by the rule of Table 6 of the COMET paper, for movielens models",
        action="store_true",
    )
    parser.add_argument("--json", help="write the figures to this file too", metavar="FILE")


def make(arguments):
    """The cost of inference of a saved model on a task's test rows, as a table."""
    check_file("MODEL", arguments.model)
    check_folder_of("--json", arguments.json)
    model, dataset = load_model_and_test(arguments)
    from comet_keras.train import EVALUATION_BATCH

    cost = flops(model, dataset.test.batches(EVALUATION_BATCH), arguments.paper_table6)
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps(cost.to_dict(), indent=2) + "\n")
    return str(cost)
