"""Table 1 of the COMET paper: does local search help Hash, Top-k and COMET?

    python benchmarks/table1.py --data-dir DIR [--seeds 0-4] [--gates hash hash+ ...] [--starts soft warm cold]
                                [--output benchmarks/results/table1.jsonl] [--report-only]

The setting of section 4.4 (KDD 2023): 200,000 rows of MovieLens, 16 experts, k = 2, ten epochs, batches of
512, learning rate 2.5e-5, gamma 0.01, lambda 1, five epochs of local search, zeta 1e-5, loss weights 0.9 and
0.1. The rows are the same for all seeds; a seed decides initial values, hash table, shuffling and dropout.

Every finished run is one line of JSON in the output file. A run that is already there is not repeated, so the
command can be killed and started again, and two processes with different seeds may share one file. Gates with
local search run with the package's default soft start, with the paper's temperatures and warm-started potentials, and
as in the paper with cold Sinkhorn rounds. The table of what is there: also `comet-keras report tables --runs FILE`.
"""

import argparse
import json
import os
import time
from pathlib import Path

GATES = ("hash", "hash+", "topk", "topk+", "comet", "comet+")
STARTS = ("soft", "warm", "cold")
SETTINGS = {
    "num_experts": 16,
    "k": 2,
    "gamma": 0.01,
    "entropy_weight": 1.0,
    "permutation_epochs": 5,
    "zeta": 1e-5,
    "learning_rate": 2.5e-5,
    "batch_size": 512,
    "task_weights": {"watch": 0.9, "rating": 0.1},
    "patience": None,
}


def read(path):
    """The runs of a file, by (gate, start, seed, rows, epochs)."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    runs = [json.loads(line) for line in lines if line.strip()]
    return {key(run): run for run in runs}


def key(run):
    return tuple(run[name] for name in ("gate", "start", "seed", "rows", "epochs"))


def wanted(arguments):
    """The runs asked for, all gates of a seed before the next seed."""
    for seed in arguments.seeds:
        for gate in arguments.gates:
            for start in arguments.starts if gate.endswith("+") else ("none",):
                yield {"gate": gate, "start": start, "seed": seed, "rows": arguments.rows, "epochs": arguments.epochs}


def run_one(run, data_dir, dataset):
    import keras

    from comet_keras.train import TrainingConfig, train

    keras.utils.clear_session()
    config = TrainingConfig(
        "movielens",
        gate=run["gate"],
        seed=run["seed"],
        rows=run["rows"],
        epochs=run["epochs"],
        permutation_start="soft" if run["start"] == "none" else run["start"],
        data_dir=data_dir,
        **SETTINGS,
    )
    result = train(config, dataset, verbose=0)
    if result.interrupted:
        raise KeyboardInterrupt
    return {
        **run,
        "loss": result.test["loss"],
        "auc": result.test["tasks"]["watch"]["auc"],
        "mse": result.test["tasks"]["rating"]["mse"],
        "experts_per_sample": result.experts_per_sample,
        "validation_loss": result.history["val_loss"],
        "seconds": round(result.seconds, 1),
    }


def parse_seeds(text):
    seeds = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="folder with the paper's own pairs (comet_split)")
    parser.add_argument("--seeds", type=parse_seeds, default=range(5), help="such as 0-4 or 0,3 (default: 0-4)")
    parser.add_argument("--gates", nargs="+", default=GATES, choices=GATES, metavar="GATE")
    parser.add_argument("--starts", nargs="+", default=STARTS, choices=STARTS, metavar="START")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", default="benchmarks/results/table1.jsonl", metavar="FILE")
    parser.add_argument("--report-only", action="store_true", help="print the table of the runs that are there")
    arguments = parser.parse_args()
    if not arguments.report_only:
        if arguments.data_dir is None:
            parser.error("--data-dir is needed")
        run_missing(arguments)
    from comet_keras.reports import read_seed_runs, render_table, seed_table

    print(render_table(seed_table(read_seed_runs(arguments.output))))


def run_missing(arguments):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from comet_keras import datasets

    missing = [run for run in wanted(arguments) if key(run) not in read(arguments.output)]
    if not missing:
        return
    dataset = datasets.movielens(arguments.data_dir, rows=arguments.rows, seed=0)
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    for i, run in enumerate(missing):
        if key(run) in read(arguments.output):  # another process was here meanwhile
            continue
        result = run_one(run, arguments.data_dir, dataset)
        with open(arguments.output, "a") as file:
            file.write(json.dumps(result) + "\n")
        left = (time.perf_counter() - started) / (i + 1) * (len(missing) - i - 1)
        print(
            f"{i + 1}/{len(missing)}  {run['gate']} {run['start']} seed {run['seed']}  "
            f"loss {100 * result['loss']:.3f}  {result['seconds']:.0f} s  {left / 60:.0f} min left",
            flush=True,
        )


if __name__ == "__main__":
    main()
