"""The reports of `comet-keras report`.

A report is an entry of `REPORTS`: a function that adds its arguments and one that makes it. The latter
returns the text to print, and raises ValueError or OSError for what the user got wrong. This module loads
Keras only once a report is made.
"""

import json
from pathlib import Path

from comet_keras.models.settings import TASKS


def add_report_arguments(parser):
    """A subcommand for each report."""
    reports = parser.add_subparsers(dest="report", metavar="REPORT", required=True)
    for name, (summary, add_arguments, make) in REPORTS.items():
        report = reports.add_parser(
            name,
            help=summary,
            description=summary,
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        add_arguments(report)
        report.set_defaults(make_report=make)


def add_flops_arguments(parser):
    """Arguments of `report flops`."""
    example = "runs/movielens-comet+/model.keras"
    parser.add_argument("model", help=f"saved model, such as {example}", metavar="MODEL")
    parser.add_argument(
        "--task",
        help=f"data set whose test rows are routed: {', '.join(TASKS)}",
        choices=TASKS,
        required=True,
        metavar="TASK",
    )
    parser.add_argument("--data-dir", help="folder of the data set; movielens needs it", metavar="DIR")
    parser.add_argument(
        "--paper-table6",
        help="FLOPs by the rule of Table 6 of the COMET paper, for movielens models",
        action="store_true",
    )
    parser.add_argument("--json", help="write the figures to this file too", metavar="FILE")


def report_flops(arguments):
    """The cost of inference of a saved model on a task's test rows, as a table."""
    model = Path(arguments.model)
    if not model.is_file():
        raise FileNotFoundError(f"MODEL: there is no file {str(model)!r}.")
    if arguments.json is not None and not Path(arguments.json).absolute().parent.is_dir():
        raise FileNotFoundError(f"--json: there is no folder {str(Path(arguments.json).parent)!r}.")
    # After the quick checks, since these load Keras.
    import keras

    from comet_keras.reports import flops
    from comet_keras.train import EVALUATION_BATCH, TrainingConfig, load_dataset

    loaded = keras.saving.load_model(model, compile=False)
    test = load_dataset(TrainingConfig(arguments.task, data_dir=arguments.data_dir)).test
    _check_inputs(loaded, test.input_shapes, arguments.task)
    cost = flops(loaded, test.batches(EVALUATION_BATCH), arguments.paper_table6)
    if arguments.json is not None:
        Path(arguments.json).write_text(json.dumps(cost.to_dict(), indent=2) + "\n")
    return str(cost)


def _check_inputs(model, features, task):
    names = [x.name for x in model.inputs]
    if sorted(names) != sorted(features):
        raise ValueError(
            f"MODEL: --task {task} has the features {', '.join(sorted(features))}, but the model takes "
            f"{', '.join(sorted(names))}."
        )


REPORTS = {
    "flops": ("Multiply-adds of a sample, part by part.", add_flops_arguments, report_flops),
}
