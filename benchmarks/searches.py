"""Searches with every gate on slices of the paper's data sets, and what their best trials reach.

    python benchmarks/searches.py --data-dir movielens=DIR [multi_mnist=DIR ...] [--gates topk topk+ ...]
                                  [--output-dir runs/searches]
    python benchmarks/searches.py --report-only [--output-dir benchmarks/results/searches]

The spaces of section S1.3 of the COMET paper (KDD 2023), on fewer rows and for fewer epochs (`SLICES` below), so that
two cores do them in hours. Where a slice would leave too few steps the batches are smaller, and the first stage of local
search ends within the epochs. The data are those that folders hold, see `comet-keras data info TASK`. A search that
was killed continues with the same command; what is done is kept in `search.json` and `trials.jsonl` of each folder.
"""

import argparse
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

GATES = ("hash", "hash+", "topk", "topk+", "dselect_k", "comet", "comet+")
IMAGE_GATES = ("topk", "topk+", "dselect_k", "comet", "comet+")


@dataclass(frozen=True)
class Slice:
    """How one task is searched; `changes` to the paper's space are values that a trial draws from."""

    rows: int | None
    epochs: int
    trials: int
    gates: tuple
    changes: dict = field(default_factory=dict)
    evaluated: int | None = None  # validation rows at most; all test rows count


SLICES = {
    "movielens": Slice(60_000, 4, 16, GATES, {"permutation_epochs": (1, 2)}, 40_000),
    "jester": Slice(60_000, 4, 8, GATES, {"permutation_epochs": (1, 2), "batch_size": (512,)}, 20_000),
    "books": Slice(None, 8, 8, GATES, {"permutation_epochs": (1, 2, 3), "batch_size": (256,)}),
    "multi_mnist": Slice(3_000, 6, 8, IMAGE_GATES, {"permutation_epochs": (1, 2, 3), "batch_size": (64,)}),
    "multi_fashion_mnist": Slice(3_000, 6, 8, IMAGE_GATES, {"permutation_epochs": (1, 2, 3), "batch_size": (64,)}),
}
# Of few trials the best 5% are one; a quarter gives a spread.
FRACTION = 0.25


def search_task(task, data_dir, gates, folder):
    from comet_keras import datasets
    from comet_keras.tuning import Choice, search, space

    part = SLICES[task]
    data = datasets.load(task, data_dir, part.rows, seed=0)
    if part.evaluated is not None:
        data = replace(data, validation=data.validation.take(min(part.evaluated, len(data.validation))))
    for gate in gates:
        if gate not in part.gates:
            continue
        parameters = space(task, gate)
        parameters.update({name: Choice(values) for name, values in part.changes.items() if name in parameters})
        print(f"\n{task} {gate}", flush=True)
        search(
            task, gate, part.trials, folder / task / gate, space=parameters, rows=part.rows, epochs=part.epochs,
            patience=None, dataset=data,
        )  # fmt: skip


def report(folder):
    from comet_keras.reports import read_comparable_searches, render_table, trials_table

    for task in SLICES:
        folders = [folder / task / gate for gate in GATES if (folder / task / gate / "trials.jsonl").is_file()]
        if folders:
            print("\n" + render_table(trials_table(read_comparable_searches(folders), FRACTION)))


def folder_of_task(text):
    task, equals, folder = text.partition("=")
    if task not in SLICES or not equals:
        raise argparse.ArgumentTypeError(f"expected TASK=DIR with one of {', '.join(SLICES)}, not {text!r}")
    return task, folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", nargs="+", type=folder_of_task, default=(), metavar="TASK=DIR")
    parser.add_argument("--gates", nargs="+", default=GATES, choices=GATES, metavar="GATE")
    parser.add_argument("--output-dir", type=Path, default=Path("runs/searches"))
    parser.add_argument("--report-only", action="store_true", help="print the tables of the searches that are there")
    arguments = parser.parse_args()
    if not arguments.report_only:
        if not arguments.data_dir:
            parser.error("--data-dir is needed")
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        for task, data_dir in arguments.data_dir:
            search_task(task, data_dir, arguments.gates, arguments.output_dir)
    report(arguments.output_dir)


if __name__ == "__main__":
    main()
