"""The data sets of `comet-keras data`.

An action is an entry of `ACTIONS`: a function that adds its arguments and one that does it. The latter
returns the text to print, and raises ValueError or OSError for what the user got wrong. This module loads
neither Keras nor TensorFlow; preparing MovieLens from tensorflow-datasets does.
"""

import sys
import textwrap
import time

from comet_keras.cli.arguments import BadArguments
from comet_keras.datasets.registry import DATASETS, info, names

SUMMARY = "List, describe and prepare data sets."
SPLITS = ("train", "validation", "test")


def add_arguments(parser):
    """A subcommand for each action."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (summary, add_arguments, make) in ACTIONS.items():
        action = actions.add_parser(
            name,
            help=summary,
            description=summary,
            formatter_class=parser.formatter_class,
            allow_abbrev=False,
        )
        add_arguments(action)
        action.set_defaults(make_text=make)


def run(arguments):
    """Does what was asked for and prints its text."""
    try:
        print(arguments.make_text(arguments))
    except (ValueError, OSError) as error:
        raise BadArguments(error) from None
    return 0


def add_list_arguments(parser):
    """`data list` takes no arguments."""


def list_datasets(arguments):
    """All data sets, a line each: tasks, the paper's split sizes and where the data comes from."""
    from comet_keras.reports.tables import text_table

    rows = [
        [entry.name, ", ".join(entry.tasks), *(_paper_rows(entry) or [None] * len(SPLITS)), _sources(entry)]
        for entry in DATASETS.values()
    ]
    titles = ["name", "tasks", *(f"{split:>10}" for split in SPLITS), "source"]
    return text_table(rows, titles) + "\n\nRows are the COMET paper's."


def add_info_arguments(parser):
    """Arguments of `data info`."""
    _add_name(parser)


def describe_dataset(arguments):
    """What is known about a data set before it is loaded."""
    entry = info(arguments.name)
    sizes = ", ".join(f"{size.strip()} {split}" for split, size in zip(SPLITS, _paper_rows(entry)))
    facts = {
        "source": entry.source,
        "licence": entry.licence,
        **{f"task {task}": question for task, question in entry.tasks.items()},
        "rows": f"{sizes or 'not'} in the COMET paper. {entry.paper_note}",
    }
    lines = [f"{entry.name}: {entry.title}", ""]
    lines += [_wrapped(f"{name}: ", text) for name, text in facts.items()]
    if not entry.files:
        return "\n".join([*lines, "", "Needs no files."])
    lines += ["", "The data folder may hold, the first found being used:"]
    lines += [_wrapped(f"  {number}. ", files) for number, files in enumerate(entry.files, 1)]
    if entry.ids:
        lines += [f"or what `comet-keras data prepare {entry.name}` wrote."]
    return "\n".join([*lines, "", _wrapped("", entry.advice)])


def add_prepare_arguments(parser):
    """Arguments of `data prepare`."""
    _add_name(parser)
    parser.add_argument("--output", help="new folder for the prepared arrays", required=True, metavar="DIR")
    parser.add_argument("--data-dir", help="folder of the original files (default: tensorflow-datasets)", metavar="DIR")
    parser.add_argument("--rows", help="number of training rows (default: all)", type=int, metavar="N")
    parser.add_argument("--seed", help="of draws and splits (default: 0)", type=int, default=0, metavar="N")


def prepare_dataset(arguments):
    """Prepares a data set, with its progress on the error output, and sums up what it wrote."""
    from comet_keras.datasets.cache import prepare
    from comet_keras.reports.tables import text_table

    started = time.perf_counter()
    source = arguments.data_dir or "tensorflow-datasets or packages"
    print(f"{arguments.name}: reading {source}", file=sys.stderr, flush=True)
    dataset = prepare(
        arguments.name,
        arguments.output,
        arguments.data_dir,
        arguments.rows,
        arguments.seed,
        progress=ProgressBar("writing", sys.stderr),
    )
    rows = [[name, f"{len(split):>10,}", *_shares(dataset, split)] for name, split in dataset.splits.items()]
    binary = [task for task, kind in dataset.tasks.items() if kind == "binary"]
    table = text_table(rows, ["split", f"{'rows':>10}", *(f"{task} = 1" for task in binary)])
    sizes = ", ".join(f"{size:,} {name}s" for name, size in dataset.vocabulary_sizes.items())
    return "\n".join(
        [
            dataset.description,
            "",
            table,
            *(["", f"{sizes}."] if sizes else []),
            "",
            f"Prepared in {time.perf_counter() - started:.1f} s. Use it with --data-dir {arguments.output}",
        ]
    )


class ProgressBar:
    """A bar of bytes on one line of a terminal; elsewhere a line at the beginning and at the end.

    Args:
        label: str before the bar.
        stream: text file.
    """

    WIDTH = 30

    def __init__(self, label, stream):
        self.label, self.stream = label, stream

    def __call__(self, done, total):
        """Shows that `done` of `total` bytes are written."""
        filled = self.WIDTH * done // max(total, 1)
        bar = f"{self.label} [{'#' * filled:<{self.WIDTH}}] {done / 1e6:.1f} of {total / 1e6:.1f} MB"
        if self.stream.isatty():
            print(f"\r{bar}", end="\n" if done == total else "", file=self.stream, flush=True)
        elif done in (0, total):
            print(bar, file=self.stream, flush=True)


def _add_name(parser):
    parser.add_argument("name", help=f"data set: {', '.join(names())}", choices=names(), metavar="NAME")


def _paper_rows(entry):
    return [f"{entry.paper_rows[split]:>10,}" for split in SPLITS] if entry.paper_rows else []


def _wrapped(label, text):
    return textwrap.fill(
        text, 100, initial_indent=label, subsequent_indent="  " if label.endswith(": ") else " " * len(label),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _sources(entry):
    return " or ".join([*(["files"] if entry.files else ["scikit-learn"]), *(["tfds"] if entry.tfds else [])])


def _shares(dataset, split):
    return [f"{split.targets[task].mean():.1%}" for task, kind in dataset.tasks.items() if kind == "binary"]


ACTIONS = {
    "list": ("All data sets.", add_list_arguments, list_datasets),
    "info": ("What a data set is, which files it is read from and where to get them.", add_info_arguments,
             describe_dataset),
    "prepare": ("Keep a data set's three splits as plain arrays, which open at once.", add_prepare_arguments,
                prepare_dataset),
}  # fmt: skip
