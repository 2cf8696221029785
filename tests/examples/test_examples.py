"""Every example runs with few epochs and prints what it promises."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
ARGUMENTS = {
    "own_gate": ["--epochs", "1"],
    "own_experts": ["--epochs", "1"],
    "two_task_recommender": ["--epochs", "1"],
    "images": ["--epochs", "1", "--rows", "128", "--gate", "topk"],
    "search": ["--trials", "2", "--epochs", "1", "--rows", "128"],
    "analyse_search": [],
}
PRINTS = {
    "own_gate": "experts per sample",
    "own_experts": "share of weight",
    "two_task_recommender": "stars mse",
    "images": "experts an image",
    "search": "validation loss",
    "analyse_search": "Tuning reduction",
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Epoch")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # what an example writes goes to runs/
    load(name).main(ARGUMENTS[name])
    assert PRINTS[name] in capsys.readouterr().out


def test_all_are_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == {*ARGUMENTS, "demo"}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_is_short_enough_to_read(name):
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 80
