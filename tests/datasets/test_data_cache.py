import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import comet_keras
from comet_keras import datasets
from comet_keras.datasets import Dataset, Split, cache, load, prepare

BARE = """
import pathlib, sys, time, types
package = types.ModuleType("comet_keras")  # without Keras, which is not needed
package.__path__ = [sys.argv[1]]
sys.modules["comet_keras"] = package
from comet_keras.datasets import prepare
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder with files of Jester and MovieLens."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(0)
    ratings = np.round(rng.uniform(-10, 10, (30, 12)), 2)
    ratings[rng.random(ratings.shape) < 0.4] = 99
    lines = [f"{(row != 99).sum()}," + ",".join(f"{x:g}" for x in row) for row in ratings]
    (folder / "jester-data-1.csv").write_text("\n".join(lines))
    lines = [f"{user}::{movie}::4::1" for user in range(1, 21) for movie in range(1 + user % 2, 11, 2)]
    (folder / "ratings.dat").write_text("\n".join(lines))
    return folder


def assert_same(first, second):
    for key in ("name", "tasks", "num_classes", "vocabulary_sizes", "description"):
        assert getattr(first, key) == getattr(second, key)
    assert list(first.tasks) == list(second.tasks)
    for name, split in first.splits.items():
        for part in ("features", "targets", "sample_weights"):
            arrays, others = getattr(split, part), getattr(second.splits[name], part)
            assert list(arrays) == list(others)
            for key, array in arrays.items():
                assert array.dtype == others[key].dtype
                np.testing.assert_array_equal(array, others[key])


@pytest.mark.parametrize(
    "name, options",
    [
        ("jester", {}),
        ("jester", {"rows": 20, "seed": 5}),
        ("movielens", {"rows": 30, "seed": 2}),
        ("multi_digits", {"rows": 50}),
    ],
)
def test_what_was_prepared_is_loaded_again(tmp_path, source, name, options):
    options = {"data_dir": source, **options} if datasets.DATASETS[name].files else options
    prepared = prepare(name, tmp_path / "out", **options)
    assert_same(prepared, load(name, **options))
    again = load(name, tmp_path / "out", rows=options.get("rows"), seed=options.get("seed", 0))
    assert_same(prepared, again)
    assert_same(prepared, load(name, tmp_path / "out", seed=options.get("seed", 0)))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (tmp_path / "out" / "lock").exists()


def test_arrays_are_opened_without_being_read_and_train_as_others(tmp_path, source):
    prepare("jester", tmp_path / "out", source)
    data = load("jester", tmp_path / "out")
    array = data.train.features["user"]
    assert isinstance(array.base, np.memmap) or isinstance(array, np.memmap)
    assert len(data.train.take([3, 1]).targets["rating"]) == 2
    batch = next(iter(data.train.batches(8)))
    np.testing.assert_array_equal(batch[0]["user"], array[:8])


def test_output_may_be_an_empty_folder_but_no_other(tmp_path, source):
    (tmp_path / "empty").mkdir()
    prepare("jester", tmp_path / "empty", source)
    (tmp_path / "file").write_text("mine")
    for output in ("empty", "file"):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(ValueError, match="`output` must be a new or empty folder"):
            prepare("jester", tmp_path / output, source)
        assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(FileNotFoundError, match="`output`: there is no folder"):
        prepare("jester", tmp_path / "no" / "out", source)


def test_a_folder_serves_only_for_what_it_was_prepared_for(tmp_path, source):
    prepare("jester", tmp_path / "out", source, rows=40, seed=1)
    for arguments, match in (
        (("books", tmp_path / "out", None, 1), "was prepared for jester, not for books"),
        (("jester", tmp_path / "out", 40, 0), "`seed`: .* was prepared with seed=1. Received: seed=0"),
        (("jester", tmp_path / "out", 30, 1), "`rows`: .* was prepared with rows=40. Received: rows=30"),
    ):
        with pytest.raises(ValueError, match=match):
            load(*arguments)
    index = tmp_path / "out" / "dataset.json"
    index.write_text(json.dumps({**json.loads(index.read_text()), "format": 0}))
    with pytest.raises(ValueError, match="another version"):
        load("jester", tmp_path / "out", seed=1)


def test_damaged_arrays_are_named(tmp_path, source):
    prepare("jester", tmp_path / "out", source)
    path = tmp_path / "out" / "train-features-user.npy"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="train-features-user.npy is damaged"):
        load("jester", tmp_path / "out")
    np.save(path, np.zeros(3, "int32"))
    with pytest.raises(ValueError, match=r"train-features-user.npy must have the shape \[252\]. Found: \[3\]"):
        load("jester", tmp_path / "out")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="train-features-user.npy"):
        load("jester", tmp_path / "out")


def test_inputs_made_batch_by_batch_are_refused(tmp_path):
    split = Split({"x": np.zeros((4, 1))}, {"y": np.zeros(4)}, transform=lambda features: features)
    data = Dataset("multi_mnist", split, split, split, {"y": "binary"})
    with mock.patch.object(cache, "load", return_value=data), pytest.raises(ValueError, match="needs no preparation"):
        prepare("multi_mnist", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("No space left on device")])
def test_interruption_and_a_full_disk_leave_nothing(tmp_path, source, error):
    with mock.patch.object(cache.np, "save", side_effect=error), pytest.raises((KeyboardInterrupt, OSError)):
        prepare("jester", tmp_path / "out", source)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_source_leave_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="jester-data"):
        prepare("jester", tmp_path / "out", tmp_path)
    with pytest.raises(ValueError, match="`name`"):
        prepare("nothing", tmp_path / "out", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_progress_counts_the_bytes(tmp_path, source):
    calls = []
    data = prepare("jester", tmp_path / "out", source, progress=lambda done, total: calls.append((done, total)))
    expected = sum(len(split) for split in data.splits.values()) * 6 * 4
    done = [step for step, _ in calls]
    assert {total for _, total in calls} == {expected}
    assert done[0] == 0 and done[-1] == expected and done == sorted(done) and len(done) == 19


def start(code, *arguments):
    """A process that prepares Jester and stops after some arrays, until it is killed."""
    stop = 'lambda done, total: done > total / 2 and (print("half", flush=True), time.sleep(60))'
    folder = str(Path(comet_keras.__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-c", f"{BARE}\n{code.format(stop=stop)}", folder, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_killed_run_leaves_no_folder_and_the_next_one_cleans_up(tmp_path, source):
    output = tmp_path / "out"
    process = start('prepare("jester", sys.argv[3], sys.argv[2], progress={stop})', source, output)
    try:
        assert process.stdout.readline() == "half\n"
        (partial,) = tmp_path.iterdir()
        assert partial.name == ".out.partial" and len(list(partial.glob("*.npy"))) == 5
        with pytest.raises(ValueError, match="another process is preparing"):
            prepare("jester", output, source)
        assert len(list(partial.glob("*.npy"))) == 5
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(20) == -signal.SIGKILL
    finally:
        process.kill()
        process.communicate()
    assert not output.exists() and partial.exists()
    with pytest.raises(FileNotFoundError):
        load("jester", output)
    (partial / "of-another-time.npy").write_bytes(b"")
    assert_same(prepare("jester", output, source), load("jester", output))
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (output / "of-another-time.npy").exists()


@pytest.mark.parametrize("text", ['{"format": 1}', "[]", "{", '{"format": 1, "name": "jester", "splits": 3}'])
def test_a_damaged_index_is_named(tmp_path, text):
    (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(ValueError, match="dataset.json is damaged|prepared for"):
        load("movielens", tmp_path)
