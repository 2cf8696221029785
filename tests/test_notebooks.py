"""Notebooks run from beginning to end, and hold the outputs of such a run."""

import sys
from pathlib import Path

import pytest
from helpers import BACKEND

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

pytestmark = pytest.mark.skipif(BACKEND != "tensorflow", reason="Notebooks are run once.")


def tool():
    sys.path.insert(0, str(FOLDER))
    try:
        import execute
    finally:
        sys.path.remove(str(FOLDER))
    return execute


def outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_on_less_data(path, monkeypatch):
    monkeypatch.setenv("COMET_KERAS_QUICK", "1")
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    for name in ("MOVIELENS_DIR", "FASHION_MNIST_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert outputs(tool().execute(path))  # raises at the first error


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_and_figures_are_stored(path):
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    stored = outputs(notebook)
    assert any("image/png" in output.get("data", {}) for output in stored)
    assert any(output.output_type == "stream" for output in stored)
    assert not [output for output in stored if output.output_type == "error" or output.get("name") == "stderr"]
    # Run from top to bottom: cells are numbered in their order.
    numbers = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert numbers == list(range(1, len(numbers) + 1))


def test_there_are_five():
    assert [path.stem[0] for path in NOTEBOOKS] == list("12345")
