"""The command line, `comet-keras` or `python -m comet_keras`.

A command is an entry of `COMMANDS`: a module with its `SUMMARY`, `add_arguments(parser)`, and
`run(arguments)`, which returns the exit code and raises BadArguments for what the user got wrong. Modules
load Keras only once a command runs, so that help and mistakes are answered at once.
"""

import argparse
import logging
import os
import sys

from comet_keras.cli import data, report, search, train
from comet_keras.cli.arguments import INTERRUPTED, BadArguments

BAD_ARGUMENTS = 2


def main(argv=None):
    """Runs a command and returns its exit code: 0 done, 2 bad arguments, 130 interrupted.

    Args:
        argv: list of str. Default: the process's own arguments.
    """
    parser = make_parser()
    arguments = parser.parse_args(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    try:
        return arguments.run(arguments)
    except BadArguments as error:
        # On one line, whatever the message looks like.
        message = " ".join(str(error).split())
        print(f"comet-keras {arguments.command}: error: {message}", file=sys.stderr)
        return BAD_ARGUMENTS
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED


def make_parser():
    """The parser of all commands."""
    parser = _Parser(
        "comet-keras", allow_abbrev=False, description="Sparse mixtures of experts with COMET gates and local search."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name, help=module.SUMMARY, description=module.SUMMARY, formatter_class=_HelpFormatter, allow_abbrev=False
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        # One line, without the usage that argparse prints first.
        self.exit(BAD_ARGUMENTS, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


class _HelpFormatter(argparse.HelpFormatter):
    def __init__(self, prog):
        super().__init__(prog, max_help_position=32, width=100)

    def _fill_text(self, text, width, indent):
        # A table stays as it is.
        return text if "\n" in text else super()._fill_text(text, width, indent)


COMMANDS = {"train": train, "search": search, "report": report, "data": data}
