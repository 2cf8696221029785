"""`comet-keras report routing`."""

from comet_keras.cli.report.shared import (
    add_model,
    check_figure,
    check_file,
    load_model_and_test,
)
from comet_keras.reports import class_routing, class_routing_heat_maps, save_figure

SUMMARY = "Which experts a trained model routes the test rows of each class to."


def add_arguments(parser):
    """Arguments of `report routing`."""
    add_model(parser, "runs/multi_digits-comet+/model.keras")
    parser.add_argument("--figure", help="draw the heat maps into this file too (.png, .pdf, ...)", metavar="FILE")


def make(arguments):
    """Shares of classes by expert, and the mutual information of experts and labels."""
    check_file("MODEL", arguments.model)
    check_figure("--figure", arguments.figure)
    model, dataset = load_model_and_test(arguments)
    routings = class_routing(model, dataset.test, dataset.tasks)
    if arguments.figure is not None:
        save_figure(class_routing_heat_maps(routings), arguments.figure)
    return "\n\n\n".join(str(routing) for routing in routings)
