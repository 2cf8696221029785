import subprocess
import sys
from pathlib import Path

import pytest
from reports.synthetic_searches import ALPHA, failed, random_trials, trial, write

from comet_keras.reports import read_comparable_searches, read_searches
from comet_keras.reports.searches import has_losses
from comet_keras.tuning.trials import Trial, write_search


def test_searches_come_in_the_order_of_the_papers_tables(tmp_path):
    gates = ("comet+", "topk", "hash", "comet", "softmax", "topk+")
    folders = [write(tmp_path / gate, gate, random_trials(3), num_experts=16) for gate in gates]
    records = read_searches(folders)
    assert [r.gate_name for r in records] == ["Softmax", "Hash-r", "Top-k", "Top-k+", "COMET", "COMET+"]
    first = records[0]
    assert (first.task, first.task_weights, first.num_experts, len(first.trials)) == ("movielens", ALPHA, 16, 3)
    assert first.folder == str(tmp_path / "softmax")
    assert (first.alpha, first.title) == (0.9, "MovieLens (alpha = 0.9)")
    assert first.metrics == {"watch": "auc", "rating": "mse"}
    assert list(read_comparable_searches(folders)) == [r.gate for r in records]


def test_image_tasks_have_no_alpha(tmp_path):
    weights = {"top_left": 0.5, "bottom_right": 0.5}
    folder = write(tmp_path / "a", "topk", random_trials(2, kind="images"), "multi_mnist", weights)
    (record,) = read_searches([folder])
    assert (record.alpha, record.title, record.num_experts) == (None, "MultiMNIST", None)


def test_the_number_of_experts_may_stand_with_the_trials(tmp_path):
    done = trial(0, 0.5, 0.5)
    done.hyperparameters["num_experts"] = 9
    (record,) = read_searches([write(tmp_path / "a", "topk", [done])])
    assert record.num_experts == 9


def test_a_search_of_ones_own_model_keeps_its_name(tmp_path):
    done = [trial(0, 0.5, 0.5), trial(1, 0.4, None)]
    own = write(tmp_path / "own", "build", done, "own model", {})
    records = read_searches([own, write(tmp_path / "a", "topk", random_trials(2))])
    assert [r.gate_name for r in records] == ["Top-k", "build"]
    assert (records[1].title, records[1].metrics, records[1].num_experts) == ("own model", {}, None)


def test_mistakes_are_named(tmp_path):
    good = write(tmp_path / "good", "topk", random_trials(2))
    with pytest.raises(FileNotFoundError, match="no/such"):
        read_searches([good, "no/such"])
    with pytest.raises(ValueError, match="no completed trial with a test loss .1 have"):
        read_searches([write(tmp_path / "failed", "topk", [failed(0)])])
    with pytest.raises(ValueError, match="Several searches of topk.*good.*again"):
        read_searches([good, write(tmp_path / "again", "topk", random_trials(2))])
    write_search(tmp_path / "lacking", {"task": "movielens"})
    with pytest.raises(ValueError, match="lacks gate, task_weights"):
        read_searches([tmp_path / "lacking"])
    with pytest.raises(ValueError, match="At least one"):
        read_comparable_searches([])


@pytest.mark.parametrize(
    "other",
    [{"task": "books"}, {"task_weights": {"watch": 0.1, "rating": 0.9}}, {"rows": 100}],
    ids=["task", "weights", "rows"],
)
def test_searches_of_different_settings_are_not_compared(tmp_path, other):
    folders = [
        write(tmp_path / "a", "topk", random_trials(2)),
        write(tmp_path / "b", "comet", random_trials(2), **other),
    ]
    assert len(read_searches(folders)) == 2
    with pytest.raises(ValueError, match="cannot be compared"):
        read_comparable_searches(folders)


def test_reading_searches_loads_no_keras():
    root = Path(__file__).parents[2] / "comet_keras"
    script = f"""
import sys, types
package = types.ModuleType("comet_keras")  # without what the package itself imports
package.__path__ = [{str(root)!r}]
sys.modules["comet_keras"] = package
import comet_keras.reports, comet_keras.cli.report
heavy = {{"keras", "tensorflow", "jax", "torch", "matplotlib", "scipy"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_trials_without_finite_losses_are_not_ranked():
    for loss in (float("nan"), float("inf"), None):
        assert not has_losses(Trial("0", "completed", {}, loss, 0.5))
        assert not has_losses(Trial("0", "completed", {}, 0.5, loss))
    assert has_losses(Trial("0", "completed", {}, 0.5, 0.5))
