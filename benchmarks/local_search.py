"""What in local search helps: the soft first stage or the search, and does a softer start search more?

    python benchmarks/local_search.py --data-dir DIR [--seeds 0-2] [--gates hash+ topk+ comet+]
                                      [--variants warm frozen_warm ...] [--output benchmarks/results/local_search.jsonl]
                                      [--report-only]

The setting of Table 1 (`benchmarks/table1.py`) with other first stages (`VARIANTS`): how soft the first matrix is
and how far U can move against its own spread decide what can be searched. Multiplying U, the
temperatures and the learning rate of U by one number changes nothing, so a smaller U is a larger learning rate of U.
The `frozen` ones are the controls: soft matrices, but U does not learn, so that nothing is searched. "moved" counts
experts of the final permutation that the first U had placed elsewhere.
"""

import argparse
import json
import os
import time
from pathlib import Path

import table1

GATES = ("hash+", "topk+", "comet+")


def _first_stage(start, searched=True, scale=1.0):
    """A start of `comet_keras.models.make_permutation`, with or without a search, from U times `scale`."""

    def change(permutation):
        permutation.logits.trainable = searched
        permutation.logits.assign(permutation.logits * scale)

    return start, change


# U / tau lies within 50 at first, with `mobile` within 5, with `soft_mobile` within 0.5, and moves 10 or 100 times as far.
VARIANTS = {
    "warm": _first_stage("warm"),
    "frozen_warm": _first_stage("warm", searched=False),
    "frozen_cold": _first_stage("cold", searched=False),
    "soft": _first_stage("soft"),
    "frozen_soft": _first_stage("soft", searched=False),
    "mobile": _first_stage("warm", scale=0.1),
    "soft_mobile": _first_stage("warm", scale=0.01),
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

    from comet_keras import models
    from comet_keras.callbacks import PermutationHistory
    from comet_keras.train import EVALUATION_BATCH, TrainingConfig, make_callbacks

    keras.utils.clear_session()
    start, change = VARIANTS[run["variant"]]
    config = TrainingConfig(
        "movielens", run["gate"], seed=run["seed"], rows=run["rows"], epochs=run["epochs"], data_dir=data_dir,
        permutation_start=start, **table1.SETTINGS,
    )  # fmt: skip
    keras.utils.set_random_seed(config.seed)
    names = ("gate", "num_experts", "k", "gamma", "entropy_weight", "zeta", "permutation_start", "seed")
    model = models.build(config.task, dataset, **{name: getattr(config, name) for name in names})
    (permutation,) = model.get_layer("mixture").permutation_layers
    change(permutation)
    models.compile_for(model, dataset, config.learning_rate, config.task_weights)
    _, first = linear_sum_assignment(keras.ops.convert_to_numpy(permutation.logits), maximize=True)
    history = PermutationHistory()
    started = time.perf_counter()
    fitted = model.fit(
        dataset.train.endless_batches(config.batch_size, config.seed),
        steps_per_epoch=dataset.train.steps(config.batch_size),
        validation_data=dataset.validation.batches(EVALUATION_BATCH),
        epochs=config.epochs,
        callbacks=[history, *make_callbacks(config)],
        verbose=0,
        shuffle=False,
    )
    seconds = time.perf_counter() - started
    test = models.evaluate_exactly(model, dataset.test, dataset.tasks, config.task_weights, EVALUATION_BATCH)
    last = keras.ops.convert_to_numpy(permutation.assignment)
    return {
        **run,
        "loss": test["loss"],
        "moved": int(np.sum(first != last)),
        "validation_loss": fitted.history["val_loss"],
        "seconds": round(seconds, 1),
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


def report(path):
    """Test loss x 100 by gate and variant: mean and standard error over the seeds."""
    import numpy as np

    from comet_keras.reports import text_table

    runs = read(path).values()
    rows = []
    for gate in GATES:
        for variant in VARIANTS:
            of_both = [run for run in runs if (run["gate"], run["variant"]) == (gate, variant)]
            if not of_both:
                continue
            losses = 100 * np.array([run["loss"] for run in of_both])
            error = f"{losses.std(ddof=1) / len(losses) ** 0.5:.3f}" if len(losses) > 1 else "-"
            moved = ", ".join(str(run["moved"]) for run in of_both)
            rows.append([gate, variant, len(losses), f"{losses.mean():.3f}", error, moved])
    print(text_table(rows, ["gate", "first stage", "seeds", "test loss x 100", "standard error", "moved"]))


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
    arguments = parser.parse_args()
    if not arguments.report_only:
        if arguments.data_dir is None:
            parser.error("--data-dir is needed")
        run_missing(arguments)
    report(arguments.output)


if __name__ == "__main__":
    main()
