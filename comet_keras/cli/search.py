"""The command `comet-keras search`. Loads Keras and KerasTuner only once a search begins."""

import argparse

from comet_keras.cli.arguments import BadArguments, parse_weights
from comet_keras.models.gate_strings import GATES
from comet_keras.models.settings import TASKS
from comet_keras.tuning.spaces import SPACE_TASKS
from comet_keras.tuning.study import TUNERS

SUMMARY = "Search the hyperparameters of a task's model with one gate."
SHOWN = 10
EPILOG = (
    "A search that was killed continues with the same command. On several machines: --listen HOST:PORT on one, "
    "the same command with --connect HOST:PORT on the others, with an --output-dir that all of them see."
)


def add_arguments(parser):
    """Arguments of `search`: those of `comet_keras.tuning.search`, without a default of their own."""
    parser.epilog = EPILOG
    tasks = [task for task in TASKS if task in SPACE_TASKS]

    def add(group, flag, help, **kwargs):
        group.add_argument(flag, help=help, default=argparse.SUPPRESS, **kwargs)

    group = parser.add_argument_group("what to search")
    add(group, "--task", f"data set and model: {', '.join(tasks)}", choices=tasks, required=True, metavar="TASK")
    add(
        group,
        "--gate",
        f"router, with + for local search: {', '.join(GATES)}",
        choices=GATES,
        required=True,
        metavar="GATE",
    )
    add(group, "--trials", "number of trials (default: 500)", type=int, metavar="N")
    add(group, "--data-dir", "folder of the data set's files; see: comet-keras data info TASK", metavar="DIR")
    add(group, "--rows", "number of training rows (default: all)", type=int, metavar="N")

    group = parser.add_argument_group("how to search")
    add(group, "--tuner", f"{', '.join(TUNERS)} (default: random)", choices=TUNERS, metavar="TUNER")
    add(
        group,
        "--objective",
        "figure that is best for the best trial, such as val_watch_auc (default: val_loss)",
        metavar="NAME",
    )
    add(group, "--seed", "of hyperparameters, data and training (default: 0)", type=int, metavar="N")

    group = parser.add_argument_group("training of a trial")
    add(group, "--executions", "trainings with different seeds, whose mean counts (default: 1)", type=int, metavar="N")
    add(group, "--epochs", "at most (default: the task's)", type=int, metavar="N")
    add(
        group,
        "--patience",
        "epochs without a better validation loss before training stops, 0 for no early stopping (default: 25)",
        type=int,
        metavar="N",
    )
    add(group, "--task-weights", "weight of each task's loss (default: the task's)", nargs="+", metavar="NAME=WEIGHT")

    group = parser.add_argument_group("processes")
    add(group, "--workers", "processes on this machine (default: 1)", type=int, metavar="N")
    add(group, "--listen", "serve workers of other machines too", metavar="HOST:PORT")
    add(group, "--connect", "only work for the search that listens there", metavar="HOST:PORT")

    group = parser.add_argument_group("output")
    add(group, "--output-dir", "folder of the search (default: runs/search-TASK-GATE)", metavar="DIR", dest="folder")
    add(group, "--overwrite", "remove what the folder holds of another search", action="store_true")
    add(group, "--verbose", "0 silent, 1 a line a trial (default: 1)", type=int, choices=(0, 1))


def run(arguments):
    """Searches, and prints the best trials.

    Returns:
        int, the exit code: 0, or 1 when no trial was completed.

    Raises:
        BadArguments: for what the user got wrong.
    """
    options = vars(arguments).copy()
    for name in ("command", "run"):
        options.pop(name, None)
    if "task_weights" in options:
        options["task_weights"] = parse_weights(options["task_weights"])
    if options.get("patience") == 0:
        options["patience"] = None
    _check_kerastuner()
    from comet_keras.tuning import search

    try:
        results = search(**options)
    except (ValueError, OSError, RuntimeError) as error:  # RuntimeError: trials failed, or workers died
        raise BadArguments(error) from None
    print(f"\n{summarize(results)}")
    return 0 if results.best_trials(1) else 1


def summarize(results):
    """The best trials of `SearchResults` as an aligned table, and where they are."""
    from comet_keras.reports import text_table

    best = results.best_trials(SHOWN)
    failed = [trial for trial in results.trials if not trial.completed]
    lines = [f"{len(results.trials)} trials, {len(failed)} failed; saved in {results.folder}"]
    if best:
        names = [name for name in best[0].hyperparameters if len({_value(trial, name) for trial in results.trials}) > 1]
        rows = [
            [trial.trial_id, _figure(trial.score), _figure(trial.test_loss), *(_value(trial, name) for name in names)]
            for trial in best
        ]
        lines.append(text_table(rows, ["trial", results.objective.name, "test loss", *names]))
    lines.extend(f"trial {trial.trial_id} failed: {trial.reason}" for trial in failed[:SHOWN])
    return "\n".join(lines)


def _figure(value):
    return "" if value is None else f"{value:.4f}"


def _value(trial, name):
    value = trial.hyperparameters.get(name, "")
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _check_kerastuner():
    from importlib.util import find_spec

    if find_spec("keras_tuner") is None:
        raise BadArguments("A search needs KerasTuner: pip install 'comet_keras[tuner]'")
