import subprocess
import sys
from pathlib import Path

import pytest

import comet_keras
from comet_keras import datasets
from comet_keras.datasets import registry

# The package's own __init__ loads Keras; a bare package in its place shows what the registry loads.
LOADS_LITTLE = """
import sys, types
package = types.ModuleType("comet_keras")
package.__path__ = [sys.argv[1]]
sys.modules["comet_keras"] = package
from comet_keras.datasets import DATASETS, load, names
try:
    load("books")
except FileNotFoundError:
    pass
heavy = {"keras", "tensorflow", "sklearn", "scipy", "tensorflow_datasets", "pandas", "xlrd"}
print("loaded:", sorted(heavy & set(sys.modules)))
"""


def test_all_data_sets_are_there():
    assert datasets.names() == tuple(datasets.DATASETS) == (
        "movielens", "jester", "books", "digits", "multi_mnist", "multi_fashion_mnist", "celeb_a", "multi_digits",
    )  # fmt: skip
    for name, entry in datasets.DATASETS.items():
        assert entry.name == name and entry.title and entry.tasks and entry.source and entry.licence
        assert entry.paper_rows is None or list(entry.paper_rows) == ["train", "validation", "test"]
        assert bool(entry.files) == bool(entry.download)
    assert [name for name, entry in datasets.DATASETS.items() if entry.needs_data_dir] == ["jester", "books"]


def test_loads_neither_keras_nor_tensorflow():
    folder = str(Path(comet_keras.__file__).parent)
    done = subprocess.run([sys.executable, "-c", LOADS_LITTLE, folder], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "loaded: []", done.stderr


def test_tasks_are_those_of_the_data(tmp_path):
    (tmp_path / "jester-data-1.csv").write_text("2,1,2\n" * 10)
    rating = [f"{user}::{movie}::4::1" for user in range(9) for movie in range(user % 2, 12, 2)]
    (tmp_path / "ratings.dat").write_text("\n".join(rating))
    book = ['"User-ID";"ISBN";"Book-Rating"', *(f'"{user}";"{isbn}";"3"' for user in range(5) for isbn in range(5))]
    (tmp_path / "BX-Book-Ratings.csv").write_text("\n".join(book))
    for name in ("movielens", "jester", "books", "multi_digits"):
        entry = datasets.DATASETS[name]
        data = datasets.load(name, tmp_path if entry.files else None, rows=10, seed=1)
        assert (data.name, len(data.train)) == (name, 10)
        assert list(data.tasks) == list(entry.tasks)
        assert bool(data.vocabulary_sizes) == entry.ids


def test_arguments_reach_the_function_of_the_data_set(monkeypatch):
    received = []

    class Module:
        @staticmethod
        def multi_fashion_mnist(**arguments):
            received.append(arguments)

        @staticmethod
        def multi_digits(**arguments):
            received.append(arguments)

    asked = []
    monkeypatch.setattr(registry.importlib, "import_module", lambda name: asked.append(name) or Module)
    datasets.load("multi_fashion_mnist", "folder", rows=7, seed=3)
    datasets.load("multi_digits", rows=12, seed=4)
    datasets.load("multi_digits", rows=3)
    datasets.load("multi_digits")
    assert received == [
        {"data_dir": "folder", "rows": 7, "seed": 3},
        {"train_pairs": 12, "validation_pairs": 2, "test_pairs": 2, "seed": 4},
        {"train_pairs": 3, "validation_pairs": 1, "test_pairs": 1, "seed": 0},
        {"seed": 0},
    ]
    assert asked == ["comet_keras.datasets.multi_mnist"] + ["comet_keras.datasets.multi_digits"] * 3


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="`name` must be one of 'movielens', .*'mnist'"):
        datasets.load("mnist")
    with pytest.raises(ValueError, match="`data_dir`: multi_digits is read from no files"):
        datasets.load("multi_digits", tmp_path)
    with pytest.raises(ValueError, match="`rows`"):
        datasets.load("multi_digits", rows=0)
    for seed in (-1, 0.5):
        with pytest.raises(ValueError, match="`seed` must be an integer of at least 0"):
            datasets.load("multi_digits", seed=seed)
    for name in ("jester", "books"):
        with pytest.raises(FileNotFoundError, match="`data_dir` is missing"):
            datasets.load(name)
