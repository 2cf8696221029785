"""The command line, `comet-keras` or `python -m comet_keras`.

A subcommand is an entry of `COMMANDS`: a function that adds its arguments and one that runs it. This
module loads Keras only once a command runs, so that help and mistakes are answered at once.
"""

import argparse
import dataclasses
import logging
import os
import sys
from pathlib import Path

from comet_keras.cli_report import add_report_arguments
from comet_keras.models.gate_strings import GATES
from comet_keras.models.settings import SETTINGS, TASKS

BAD_ARGUMENTS, INTERRUPTED = 2, 130


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


class BadArguments(Exception):
    """What the user asked for cannot be done; the message says why."""


def make_parser():
    """The parser of all commands."""
    parser = _Parser(
        "comet-keras", allow_abbrev=False, description="Sparse mixtures of experts with COMET gates and local search."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (summary, add_arguments, run) in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=summary, formatter_class=_HelpFormatter, allow_abbrev=False
        )
        add_arguments(command)
        command.set_defaults(run=run)
    return parser


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        # One line, without the usage that argparse prints first.
        self.exit(BAD_ARGUMENTS, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


class _HelpFormatter(argparse.HelpFormatter):
    def __init__(self, prog):
        super().__init__(prog, max_help_position=32, width=100)


def add_train_arguments(parser):
    """Arguments of `train`: those of `TrainingConfig`, without a default of their own."""

    def add(group, flag, help, **kwargs):
        group.add_argument(flag, help=help, default=argparse.SUPPRESS, **kwargs)

    def of_task(name):
        values = {task: f"{getattr(SETTINGS[task], name):g}" for task in TASKS}
        if len(set(values.values())) == 1:
            return f"default: {values[TASKS[0]]}"
        return "default: " + ", ".join(f"{value} for {task}" for task, value in values.items())

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
    add(group, "--data-dir", "folder of the data set; movielens needs it", metavar="DIR")
    add(group, "--rows", "number of training rows (default: all)", type=int, metavar="N")

    group = parser.add_argument_group("mixture")
    add(group, "--experts", f"number of experts ({of_task('num_experts')})", type=int, metavar="N", dest="num_experts")
    add(group, "--k", f"experts a sample; for topk, dselect_k, comet ({of_task('k')})", type=int, metavar="K")
    add(group, "--gamma", f"width of the smooth step; for dselect_k, comet ({of_task('gamma')})", type=float)
    add(
        group,
        "--entropy-weight",
        f"lambda, drives dselect_k and comet to hard choices ({of_task('entropy_weight')})",
        type=float,
        metavar="LAMBDA",
    )

    group = parser.add_argument_group("local search, for gates with +")
    add(
        group,
        "--permutation-epochs",
        f"length of the first stage ({of_task('permutation_epochs')})",
        type=int,
        metavar="N",
    )
    add(group, "--zeta", "weight of the permutation's entropy (default: 0.0001)", type=float, metavar="ZETA")
    add(
        group,
        "--cold-start",
        "start the Sinkhorn rounds of each step cold, as in the paper",
        action="store_false",
        dest="warm_start",
    )

    group = parser.add_argument_group("training")
    add(group, "--learning-rate", f"of Adam ({of_task('learning_rate')})", type=float, metavar="RATE")
    add(group, "--batch-size", f"rows a step ({of_task('batch_size')})", type=int, metavar="N")
    add(group, "--epochs", f"at most ({of_task('epochs')})", type=int, metavar="N")
    add(
        group,
        "--patience",
        "epochs without a better validation loss before training stops, 0 for no early stopping (default: 25)",
        type=int,
        metavar="N",
    )
    weights = "; ".join(
        " ".join(f"{name}={weight:g}" for name, weight in SETTINGS[task].task_weights.items()) for task in TASKS
    )
    add(
        group,
        "--task-weights",
        f"weight of each task's loss (default: {weights})",
        nargs="+",
        metavar="NAME=WEIGHT",
    )
    add(group, "--seed", "of data, initial weights and shuffling (default: 0)", type=int, metavar="N")

    group = parser.add_argument_group("output")
    add(group, "--output-dir", "for model.keras and results.json (default: runs/TASK-GATE)", metavar="DIR")
    add(group, "--verbose", "0 silent, 1 a line an epoch, 2 a progress bar (default: 1)", type=int, choices=(0, 1, 2))


def run_train(arguments):
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
        options["task_weights"] = _parse_weights(options["task_weights"])
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


def _parse_weights(pairs):
    weights = {}
    for pair in pairs:
        name, _, weight = pair.partition("=")
        if name in weights:
            raise BadArguments(f"--task-weights gives {name!r} more than once.")
        try:
            weights[name] = float(weight)
        except ValueError:
            raise BadArguments(f"--task-weights takes NAME=WEIGHT, such as watch=0.9. Received: {pair!r}") from None
    return weights


def run_report(arguments):
    """Prints the report that was asked for."""
    try:
        print(arguments.make_report(arguments))
    except (ValueError, OSError) as error:
        raise BadArguments(error) from None
    return 0


COMMANDS = {
    "train": ("Train one model and evaluate it on the test rows.", add_train_arguments, run_train),
    "report": ("Report on a trained model.", add_report_arguments, run_report),
}
