import argparse
import subprocess
import sys

import pytest

from comet_keras.cli import search as cli_search
from comet_keras.cli.arguments import BadArguments, parse_weights
from comet_keras.models import GATES
from comet_keras.models.settings import TASKS
from comet_keras.tuning.trials import Trial, append_trial, write_search

# A bare package in the place of comet_keras, whose __init__ loads Keras, shows what the command loads.
LOADS_NO_KERAS = """
import argparse, sys, types
package = types.ModuleType("comet_keras")
package.__path__ = [sys.argv[1]]
sys.modules["comet_keras"] = package
from comet_keras.cli.search import add_arguments
parser = argparse.ArgumentParser()
add_arguments(parser)
parser.format_help()
print("loaded:", sorted({"keras", "keras_tuner", "tensorflow", "jax", "torch", "grpc"} & set(sys.modules)))
"""


def parser():
    made = argparse.ArgumentParser(allow_abbrev=False)
    cli_search.add_arguments(made)
    return made


def test_help_loads_no_keras():
    folder = cli_search.__file__.rsplit("/", 2)[0]
    done = subprocess.run([sys.executable, "-c", LOADS_NO_KERAS, folder], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded: []", done.stderr


def test_help_tells_choices_and_defaults():
    text = parser().format_help()
    for word in (*GATES, *TASKS, "hyperband", "default: 500", "--connect", "--overwrite"):
        assert word in text


@pytest.fixture
def call(monkeypatch):
    """Runs the command with a search in the place of the real one; returns what that was asked for."""
    asked = {}

    def run(*words, results=None):
        def search(**options):
            asked.update(options)
            if isinstance(results, Exception):
                raise results
            return results

        monkeypatch.setattr("comet_keras.tuning.search", search)
        arguments = parser().parse_args(words)
        arguments.command, arguments.run = "search", None
        return cli_search.run(arguments), asked

    return run


def results_of(folder, trials):
    from comet_keras.tuning import SearchResults

    objective = {"name": "val_loss", "direction": "min"}
    write_search(folder, {"task": "movielens", "gate": "comet", "task_weights": {}, "objective": objective})
    for trial in trials:
        append_trial(folder, trial)
    return SearchResults(folder)


TRIALS = [
    Trial("0", "completed", {"learning_rate": 0.000123, "k": 2}, 0.75, 0.76, score=0.75),
    Trial("1", "failed", {"learning_rate": 0.5, "k": 2}, reason="The training loss was nan in epoch 3."),
    Trial("2", "completed", {"learning_rate": 0.000456, "k": 2}, 0.25, 0.26, score=0.25),
]


def test_options_reach_the_search(call, tmp_path):
    words = "--task multi_digits --gate comet+ --trials 7 --patience 0 --seed 3 --workers 2 --rows 90 --overwrite"
    weights = ["--task-weights", "top_left=0.9", "bottom_right=0.1", "--output-dir", "somewhere"]
    code, asked = call(*words.split(), *weights, results=results_of(tmp_path, TRIALS))
    assert code == 0 and asked == {
        "task": "multi_digits",
        "gate": "comet+",
        "trials": 7,
        "patience": None,
        "seed": 3,
        "workers": 2,
        "rows": 90,
        "overwrite": True,
        "task_weights": {"top_left": 0.9, "bottom_right": 0.1},
        "folder": "somewhere",
    }


def test_every_option_is_one_of_the_search(call, tmp_path):
    import inspect

    from comet_keras.tuning import search

    names = {action.dest for action in parser()._actions} - {"help"}
    missing = set(inspect.signature(search).parameters) - names
    assert names <= set(inspect.signature(search).parameters) and missing == {"space", "dataset"}


def test_the_best_trials_are_shown(call, tmp_path, capsys):
    code, _ = call("--task", "multi_digits", "--gate", "topk", results=results_of(tmp_path, TRIALS))
    lines = capsys.readouterr().out.strip().splitlines()
    assert code == 0 and lines[0] == f"3 trials, 1 failed; saved in {tmp_path}"
    assert lines[1].split() == ["trial", "val_loss", "test", "loss", "learning_rate"]  # k is the same in all
    assert lines[3].split() == ["2", "0.2500", "0.2600", "0.000456"] and lines[4].split()[0] == "0"
    assert lines[-1] == "trial 1 failed: The training loss was nan in epoch 3."


def test_a_search_without_a_completed_trial_has_another_code(call, tmp_path):
    assert call("--task", "multi_digits", "--gate", "topk", results=results_of(tmp_path, TRIALS[1:2]))[0] == 1


def test_failures_are_errors_of_one_line(call):
    with pytest.raises(BadArguments, match="first 3 trials"):
        call("--task", "multi_digits", "--gate", "topk", results=RuntimeError("The first 3 trials failed"))


@pytest.mark.parametrize("pairs, word", [(["a"], "NAME=WEIGHT"), (["a=1", "a=2"], "more than once"), (["a=x"], "a=x")])
def test_weights_are_pairs(pairs, word):
    with pytest.raises(BadArguments, match=word):
        parse_weights(pairs)


@pytest.mark.parametrize(
    "words", [[], ["--task", "mnist", "--gate", "topk"], ["--task", "multi_digits", "--gate", "top"]]
)
def test_task_and_gate_are_required_and_known(words, capsys):
    with pytest.raises(SystemExit):
        parser().parse_args(words)
