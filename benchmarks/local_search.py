"""What in local search helps: the soft first stage or the search, and does a softer start search more?

    python benchmarks/local_search.py --data-dir DIR [--seeds 0-2] [--gates hash+ topk+ comet+]
                                      [--variants warm frozen_warm ...] [--output benchmarks/results/local_search.jsonl]
    python benchmarks/local_search.py --report-only [--format markdown]

The setting of Table 1 (`benchmarks/table1.py`) with other first stages (`VARIANTS`): how soft the first matrix is
and how far U can move against its own spread decide what can be searched. Multiplying U, the
temperatures and the learning rate of U by one number changes nothing, so a smaller U is a larger learning rate of U.
In the controls U is frozen: S hardens as in the others, but nothing is searched. "Moved" counts experts of the final
permutation that the first U had placed elsewhere.
"""

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import table1

GATES = ("hash+", "topk+", "comet+")


@dataclass(frozen=True)
class Variant:
    """A start of `comet_keras.models.make_permutation`, from U times `scale`, with U learning or frozen."""

    title: str
    start: str
    searched: bool = True
    scale: float = 1.0


# U / tau lies within 50 at first in the warm starts, with a U a hundredth as large within 0.5.
VARIANTS = {
    "warm": Variant("warm (the paper's temperatures)", "warm"),
    "frozen_warm": Variant("warm, U frozen", "warm", searched=False),
    "frozen_cold": Variant("cold, U frozen", "cold", searched=False),
    "soft": Variant("soft (the default)", "soft"),
    "frozen_soft": Variant("soft, U frozen", "soft", searched=False),
    "mobile": Variant("warm, U a tenth as large", "warm", scale=0.1),
    "soft_mobile": Variant("warm, U a hundredth as large", "warm", scale=0.01),
}


def key(run):
    return run["gate"], run["variant"], run["seed"], run["rows"], run["epochs"]


def read(path):
    """The runs of a file, by (gate, variant, seed, rows, epochs)."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return {key(run): run for run in map(json.loads, filter(str.strip, lines))}


def run_one(run, data_dir, dataset):
    import keras
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    from comet_keras.train import TrainingConfig, train

    variant = VARIANTS[run["variant"]]

    class FirstStage(keras.callbacks.Callback):
        """Makes U what the variant says, and notes where it places the experts."""

        def on_train_begin(self, logs=None):
            (permutation,) = self.model.get_layer("mixture").permutation_layers
            permutation.logits.assign(permutation.logits * variant.scale)
            permutation.logits.trainable = variant.searched
            self.placed = linear_sum_assignment(keras.ops.convert_to_numpy(permutation.logits), maximize=True)[1]

    keras.utils.clear_session()
    config = TrainingConfig(
        "movielens", run["gate"], seed=run["seed"], rows=run["rows"], epochs=run["epochs"], data_dir=data_dir,
        permutation_start=variant.start, **table1.SETTINGS,
    )  # fmt: skip
    first = FirstStage()
    result = train(config, dataset, verbose=0, callbacks=[first])
    if result.interrupted:
        raise KeyboardInterrupt
    (permutation,) = result.model.get_layer("mixture").permutation_layers
    return {
        **run,
        "loss": result.test["loss"],
        "moved": int(np.sum(first.placed != keras.ops.convert_to_numpy(permutation.assignment))),
        "validation_loss": result.history["val_loss"],
        "seconds": round(result.seconds, 1),
    }


def run_missing(arguments):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from comet_keras import datasets

    wanted = [
        {"gate": gate, "variant": variant, "seed": seed, "rows": arguments.rows, "epochs": arguments.epochs}
        for seed in arguments.seeds
        for gate in arguments.gates
        for variant in arguments.variants
    ]
    missing = [run for run in wanted if key(run) not in read(arguments.output)]
    if not missing:
        return
    dataset = datasets.movielens(arguments.data_dir, rows=arguments.rows, seed=0)
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    for i, run in enumerate(missing):
        result = run_one(run, arguments.data_dir, dataset)
        with open(arguments.output, "a") as file:
            file.write(json.dumps(result) + "\n")
        left = (time.perf_counter() - started) / (i + 1) * (len(missing) - i - 1)
        print(
            f"{i + 1}/{len(missing)}  {run['gate']} {run['variant']} seed {run['seed']}  loss {100 * result['loss']:.3f}  "
            f"moved {result['moved']}  {result['seconds']:.0f} s  {left / 60:.0f} min left",
            flush=True,
        )


def table(path):
    """Test loss x 100 by gate and variant: mean and standard error over the seeds."""
    from comet_keras.reports.significance import mean_and_error
    from comet_keras.reports.table_formats import Measured, Table

    rows = []
    for gate in GATES:
        for name, variant in VARIANTS.items():
            runs = [run for run in read(path).values() if (run["gate"], run["variant"]) == (gate, name)]
            if runs:
                runs.sort(key=lambda run: run["seed"])
                mean, error = mean_and_error([run["loss"] for run in runs])
                moved = ", ".join(str(run["moved"]) for run in runs)
                rows.append([gate, variant.title, len(runs), Measured(100 * mean, 100 * error, 3), moved])
    headers = ["Gate", "First stage", "Seeds", "Test loss", "Experts moved, of 16"]
    return Table("First stages of local search: test loss (× 0.01), mean ± standard error", headers, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with the paper's own pairs (comet_split)")
    parser.add_argument("--seeds", type=table1.parse_seeds, default=range(3), help="such as 0-2 or 0,3 (default: 0-2)")
    parser.add_argument("--gates", nargs="+", default=GATES, choices=GATES, metavar="GATE")
    parser.add_argument("--variants", nargs="+", default=tuple(VARIANTS), choices=tuple(VARIANTS), metavar="VARIANT")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", default="benchmarks/results/local_search.jsonl", metavar="FILE")
    parser.add_argument("--report-only", action="store_true", help="print the table of the runs that are there")
    parser.add_argument("--format", default="text", choices=("text", "markdown"))
    arguments = parser.parse_args()
    if not arguments.report_only:
        if arguments.data_dir is None:
            parser.error("--data-dir is needed")
        run_missing(arguments)
    from comet_keras.reports import render_table

    print(render_table(table(arguments.output), arguments.format))


if __name__ == "__main__":
    main()
