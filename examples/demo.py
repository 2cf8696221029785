"""Six gates on pairs of overlapping digits, side by side. `make demo` runs this.

Trains Softmax, Top-k, Top-k+, DSelect-k, COMET and COMET+ on the packaged `multi_digits` data, prints a
table, saves the best model and draws three figures: loss curves, expert load, and COMET+'s permutation
before and after it hardens. Takes a few minutes on two cores.

    python examples/demo.py
    python examples/demo.py --epochs 2 --pairs 1000 --output-dir runs/quick
"""

import argparse
import logging
import os
import time
import warnings
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
logging.getLogger("tensorflow").setLevel(logging.ERROR)  # six models are traced six times, as they must

import numpy as np

from comet_keras.callbacks import PermutationHistory
from comet_keras.reports import (
    expert_load,
    loss_curves,
    permutation_heat_maps,
    save_figure,
    text_table,
)
from comet_keras.train import TrainingConfig, load_dataset, train

GATES = {
    "Softmax": "softmax",
    "Top-k": "topk",
    "Top-k+": "topk+",
    "DSelect-k": "dselect_k",
    "COMET": "comet",
    "COMET+": "comet+",
}
FIRST_STAGE = 3  # epochs

# The width of the smooth step and the weight of the entropy, within the paper's ranges for MultiMNIST.
# Found with about ten runs of COMET of one seed; the other gates were not tuned, so the table ranks nothing.
# With them COMET uses k = 2 experts a sample from the first epochs on. A weaker entropy leaves it denser
# (gamma=5 with 0.01: 3 to 4 experts after ten epochs), a narrower step settles sooner (gamma=0.1: one
# expert a task from the first epoch).
GAMMA, ENTROPY_WEIGHT = 1.0, 0.05


def main(argv=None):
    parser = argparse.ArgumentParser(description="Six gates on pairs of overlapping digits, side by side.")
    parser.add_argument("--epochs", type=int, default=10, help="epochs a gate (default: 10)")
    parser.add_argument("--pairs", type=int, default=10_000, help="training pairs (default: 10000)")
    parser.add_argument("--output-dir", default="runs/demo", help="default: runs/demo")
    arguments = parser.parse_args(argv)
    folder = Path(arguments.output_dir)
    started = time.perf_counter()

    results, permutation, dataset = {}, None, None
    for label, gate in GATES.items():
        config = TrainingConfig(
            "multi_digits",
            gate=gate,
            gamma=GAMMA,
            entropy_weight=ENTROPY_WEIGHT,
            permutation_epochs=min(FIRST_STAGE, arguments.epochs),
            epochs=arguments.epochs,
            rows=arguments.pairs,
            output_dir=folder / gate,
        )
        dataset = dataset or load_dataset(config)
        print(f"\n{label}", flush=True)
        keep = PermutationHistory()
        results[label] = train(config, dataset, callbacks=[keep])
        if gate == "comet+":
            permutation = keep

    print(f"\n{make_table(results)}\n")
    best = min(results, key=lambda label: min(results[label].history["val_loss"]))
    results[best].model.save(folder / "best.keras")
    print(f"Best on the validation pairs: {best}, saved in {folder / 'best.keras'}")
    for path in draw(results, permutation, folder):
        print(f"Drew {path}")
    print(f"{time.perf_counter() - started:.0f} s in all")
    return results


def make_table(results):
    tasks = list(next(iter(results.values())).test["tasks"])
    headers = ["gate", "test loss", *(f"{task} accuracy" for task in tasks), "experts per sample", "seconds"]
    rows = []
    for label, result in results.items():
        experts = result.experts_per_sample.values()
        accuracies = [f"{result.test['tasks'][task]['accuracy']:.3f}" for task in tasks]
        mean = f"{sum(experts) / len(experts):.2f}"
        rows.append([label, f"{result.test['loss']:.4f}", *accuracies, mean, f"{result.seconds:.1f}"])
    return text_table(rows, headers)


def draw(results, permutation, folder):
    loads = {
        label: {task: result.test["routing"][task]["expert_usage"] for task in result.test["tasks"]}
        for label, result in results.items()
    }
    yield save_figure(loss_curves({k: r.history for k, r in results.items()}), folder / "loss.png")
    yield save_figure(expert_load(loads), folder / "expert_load.png")
    (matrices,), (hard,) = permutation.soft.values(), permutation.hard.values()
    soft = matrices[max(matrices)]
    titles = (f"S before hardening, ||S - P|| = {np.linalg.norm(soft - hard):.2f}", "P after hardening")
    figure = permutation_heat_maps(soft, hard, titles)
    yield save_figure(figure, folder / "permutation.png")


if __name__ == "__main__":
    # Gates that settle on few experts are worth a line: these two tasks need no more.
    warnings.formatwarning = lambda message, *_: f"note: {str(message).split('. A balancing')[0]}.\n"
    main()
