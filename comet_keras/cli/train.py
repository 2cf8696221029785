"""`comet-keras train`: one training run, or the rest of a killed one."""

import argparse
import dataclasses
from pathlib import Path

from comet_keras.cli.arguments import INTERRUPTED, BadArguments, parse_weights
from comet_keras.models.gate_strings import GATES, PERMUTATION_STARTS
from comet_keras.models.settings import SETTINGS, TASKS

SUMMARY = "Train one model and evaluate it on the test rows."


def add_arguments(parser):
    """Arguments of `train`: those of `TrainingConfig`, without a default of their own."""

    def add(group, flag, help, **kwargs):
        group.add_argument(flag, help=help, default=argparse.SUPPRESS, **kwargs)

    group = parser.add_argument_group("what to train")
    add(group, "--task", f"data set and model: {', '.join(TASKS)}", choices=TASKS, metavar="TASK")
    add(
        group,
        "--resume",
        "continue the killed training in DIR, with the settings it was begun with",
        metavar="DIR",
    )
    add(
        group,
        "--gate",
        f"router, with + for local search: {', '.join(GATES)} (default: comet+)",
        choices=GATES,
        metavar="GATE",
    )
    add(group, "--data-dir", "folder of the data set's files; see: comet-keras data info TASK", metavar="DIR")
    add(group, "--rows", "number of training rows (default: all)", type=int, metavar="N")

    group = parser.add_argument_group("mixture")
    add(group, "--experts", "number of experts (default: by task)", type=int, metavar="N", dest="num_experts")
    add(group, "--k", "experts a sample; for topk, dselect_k, comet (default: by task)", type=int, metavar="K")
    add(group, "--gamma", "width of the smooth step; for dselect_k, comet (default: by task)", type=float)
    add(
        group,
        "--entropy-weight",
        "lambda, drives dselect_k and comet to hard choices (default: by task)",
        type=float,
        metavar="LAMBDA",
    )

    group = parser.add_argument_group("local search, for gates with +")
    add(
        group,
        "--permutation-epochs",
        "length of the first stage (default: by task)",
        type=int,
        metavar="N",
    )
    add(group, "--zeta", "weight of the permutation's entropy (default: 0.0001)", type=float, metavar="ZETA")
    add(
        group,
        "--permutation-start",
        "how the first stage starts: soft (default), or nearly hard at the paper's temperatures, with warm or, as "
        "in the paper, cold Sinkhorn rounds",
        choices=tuple(PERMUTATION_STARTS),
        metavar="START",
    )

    group = parser.add_argument_group("training")
    add(group, "--learning-rate", "of Adam (default: by task)", type=float, metavar="RATE")
    add(group, "--batch-size", "rows a step (default: by task)", type=int, metavar="N")
    add(group, "--epochs", "at most (default: by task)", type=int, metavar="N")
    add(
        group,
        "--patience",
        "epochs without a better validation loss before training stops, 0 for no early stopping (default: 25)",
        type=int,
        metavar="N",
    )
    add(
        group,
        "--task-weights",
        "weight of each task's loss (default: by task)",
        nargs="+",
        metavar="NAME=WEIGHT",
    )
    add(group, "--seed", "of data, initial weights and shuffling (default: 0)", type=int, metavar="N")

    group = parser.add_argument_group("output")
    add(group, "--output-dir", "for model.keras and results.json (default: runs/TASK-GATE)", metavar="DIR")
    parser.epilog = default_table()
    add(group, "--verbose", "0 silent, 1 a line an epoch, 2 a progress bar (default: 1)", type=int, choices=(0, 1, 2))


def default_table():
    """The defaults that differ by task, as text."""
    from comet_keras.reports.tables import text_table

    columns = {
        "experts": "num_experts",
        "k": "k",
        "gamma": "gamma",
        "lambda": "entropy_weight",
        "stage": "permutation_epochs",
        "rate": "learning_rate",
        "batch": "batch_size",
        "epochs": "epochs",
    }
    rows = []
    for task, settings in SETTINGS.items():
        weights = settings.task_weights
        equal = len(set(weights.values())) == 1 and len(weights) > 1
        shown = "equal" if equal else " ".join(f"{name}={weight:g}" for name, weight in weights.items())
        rows.append([task, *(f"{getattr(settings, name):g}" for name in columns.values()), shown])
    return "defaults by task:\n" + text_table(rows, ["task", *columns, "weights"])


def run(arguments):
    """Trains one model, and prints a summary of what it reached on the test rows."""
    from comet_keras.train import load_dataset, train

    options = vars(arguments).copy()
    for name in ("command", "run"):
        del options[name]
    verbose = options.pop("verbose", 1)
    resume = options.pop("resume", None)
    try:
        config = _resumed_config(resume, options) if resume is not None else _new_config(options)
        _check_folder(config.output_dir)
        dataset = load_dataset(config)
        # Before hours of training, not after.
        Path(config.output_dir).mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        raise BadArguments(error) from None
    if verbose:
        print(f"{config.task}: {dataset.description}", flush=True)
    result = train(config, dataset, verbose=verbose, resume=resume is not None)
    print(f"\n{summarize(result)}")
    return INTERRUPTED if result.interrupted else 0


def _new_config(options):
    from comet_keras.train import TrainingConfig

    if "task" not in options:
        raise BadArguments("--task is required, or --resume DIR.")
    if options.get("patience") == 0:
        options["patience"] = None
    if "task_weights" in options:
        options["task_weights"] = parse_weights(options["task_weights"])
    options.setdefault("output_dir", f"runs/{options['task']}-{options.get('gate', 'comet+')}")
    return TrainingConfig(**options)


def _resumed_config(folder, options):
    from comet_keras.train import resumable_config

    # A folder of data may have moved; everything else is as it was.
    others = sorted("--" + name.replace("_", "-") for name in set(options) - {"data_dir"})
    if others:
        raise BadArguments(f"--resume continues with the settings of DIR and takes no {', '.join(others)}.")
    return dataclasses.replace(resumable_config(folder), **options)


def _check_folder(path):
    if not path:
        raise BadArguments("--output-dir must name a folder.")
    if Path(path).exists() and not Path(path).is_dir():
        raise BadArguments(f"--output-dir: {path} is a file.")


def summarize(result):
    """The outcome of a run as an aligned table."""
    from comet_keras.reports import text_table

    config, test = result.config, result.test
    rows = [["gate", f"{config.gate}, {config.num_experts} experts"], ["test loss", f"{test['loss']:.4f}"]]
    for task, figures in test["tasks"].items():
        for name, value in figures.items():
            rows.append([f"{task} {name}", f"{value}" if name == "rows" else f"{value:.4f}"])
    for gate, experts in result.experts_per_sample.items():
        rows.append([f"{gate} experts per sample".strip(), f"{experts:.2f}"])
    trained = f"{result.epochs} epochs, {result.seconds:.1f} s"
    rows.append(["trained", f"{trained} (interrupted)" if result.interrupted else trained])
    rows.append(["saved in", config.output_dir])
    return text_table(rows)
