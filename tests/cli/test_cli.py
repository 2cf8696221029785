import json
import subprocess
import sys

import pytest

from comet_keras import cli
from comet_keras.models import GATES

# The package's own __init__ loads Keras; a bare package in its place shows what the command line loads.
LOADS_NO_KERAS = """
import sys, types
package = types.ModuleType("comet_keras")
package.__path__ = [sys.argv[1]]
sys.modules["comet_keras"] = package
from comet_keras.cli import main
for line in ("--help", "train --help", "data info jester", "search --help", "report --help", "train --gate none"):
    try:
        main(line.split())
    except SystemExit:
        pass
print("loaded:", sorted({"keras", "tensorflow", "jax", "torch", "matplotlib"} & set(sys.modules)))
"""


def test_help_and_mistakes_load_no_keras():
    folder = cli.__file__.rsplit("/", 2)[0]
    done = subprocess.run([sys.executable, "-c", LOADS_NO_KERAS, folder], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded: []", done.stderr


def run(capsys, *arguments):
    """Exit code, standard output and error output of a command line."""
    try:
        code = cli.main(list(arguments))
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_tells_choices_and_defaults(capsys):
    code, out, _ = run(capsys, "train", "--help")
    assert code == 0
    for word in (*GATES, "movielens", "multi_digits", "watch=0.9", "0.00016", "default: 25", "--permutation-start"):
        assert word in out
    assert max(len(line) for line in out.splitlines()) <= 100


@pytest.mark.parametrize(
    "arguments, word",
    [
        ([], "COMMAND"),
        (["fly"], "fly"),
        (["train"], "--task"),
        (["train", "--task", "mnist"], "mnist"),
        (["train", "--task", "multi_digits", "--gate", "top2"], "top2"),
        (["train", "--task", "multi_digits", "--gate", "hash"], "no ids"),
        (["train", "--task", "multi_digits", "--experts", "many"], "--experts"),
        (["train", "--task", "multi_digits", "--gate", "topk", "--k", "9"], "num_experts"),
        (["train", "--task", "multi_digits", "--gamma", "-1"], "gamma"),
        (["train", "--task", "multi_digits", "--task-weights", "top_left"], "NAME=WEIGHT"),
        (["train", "--task", "multi_digits", "--task-weights", "left=1"], "top_left"),
        (["train", "--task", "multi_digits", "--learn", "1"], "--learn"),
        (["train", "--task", "jester"], "data_dir"),
        (["train", "--task", "movielens", "--data-dir", "/no/such/folder"], "/no/such/folder"),
    ],
)
def test_mistakes_give_one_line_and_code_2(capsys, monkeypatch, tmp_path, arguments, word):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1 and "error: " in err and word in err
    assert list(tmp_path.iterdir()) == []


def test_trains_in_a_process_of_its_own(tmp_path):
    arguments = "--task multi_digits --gate topk --rows 64 --epochs 1 --experts 4 --seed 3 --patience 0"
    weights = ["--task-weights", "top_left=0.25", "bottom_right=0.75"]
    done = subprocess.run(
        [sys.executable, "-m", "comet_keras", "train", *arguments.split(), *weights, "--output-dir", tmp_path / "run"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "epoch 1/1" in done.stdout and "test loss" in done.stdout
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["config"]["task_weights"] == {"top_left": 0.25, "bottom_right": 0.75}
    assert (results["config"]["patience"], results["config"]["seed"]) == (None, 3)
    assert f"{results['test']['loss']:.4f}" in done.stdout
    assert (tmp_path / "run" / "model.keras").is_file()
