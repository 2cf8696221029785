"""The reports of `comet-keras report`.

A report is an entry of `REPORTS`: a module with its `SUMMARY`, `add_arguments(parser)`, and
`make(arguments)`, which returns the text to print and raises ValueError or OSError for what the user got
wrong. Keras is loaded only once a report needs it: those of searches never do.
"""

from comet_keras.cli.arguments import BadArguments
from comet_keras.cli.report import bootstrap, flops, routing, tables, trials

SUMMARY = "Report on trained models and on searches."


def add_arguments(parser):
    """A subcommand for each report."""
    reports = parser.add_subparsers(dest="report", metavar="REPORT", required=True)
    for name, module in REPORTS.items():
        report = reports.add_parser(
            name,
            help=module.SUMMARY,
            description=module.SUMMARY,
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        module.add_arguments(report)
        report.set_defaults(make_report=module.make)


def run(arguments):
    """Prints the report that was asked for."""
    try:
        print(arguments.make_report(arguments))
    except (ValueError, OSError) as error:
        raise BadArguments(error) from None
    return 0


REPORTS = {"trials": trials, "bootstrap": bootstrap, "tables": tables, "routing": routing, "flops": flops}
