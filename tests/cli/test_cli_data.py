import argparse
import contextlib
import io

import numpy as np
import pytest

from comet_keras import datasets
from comet_keras.cli import data as cli_data
from comet_keras.cli.arguments import BadArguments
from comet_keras.cli.data import ProgressBar


def run(*arguments):
    """The text that a command line prints."""
    parser = argparse.ArgumentParser("comet-keras data", allow_abbrev=False)
    cli_data.add_arguments(parser)
    parsed = parser.parse_args([str(argument) for argument in arguments])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cli_data.run(parsed) == 0
    return printed.getvalue().removesuffix("\n")


@pytest.fixture
def folder(tmp_path):
    """Jester of 20 users and 5 jokes, of which three are rated."""
    lines = ["3,1.5,99,-2,99,0"] * 20
    (tmp_path / "jester-data-1.csv").write_text("\n".join(lines))
    return tmp_path


def test_list_has_a_line_for_each_data_set():
    header, _, *lines, blank, note = run("list").splitlines()
    assert header.split() == ["name", "tasks", "train", "validation", "test", "source"]
    assert [line.split()[0] for line in lines] == list(datasets.names())
    assert "389,706      83,509      83,509" in lines[2]
    assert blank == "" and "paper" in note
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("name", datasets.names())
def test_info_says_what_to_download_and_where_to_put_it(name):
    text = run("info", name)
    entry = datasets.DATASETS[name]
    flat = " ".join(text.split())
    for words in (entry.title, entry.source, entry.licence, *entry.tasks, *entry.files, entry.download):
        assert words in flat
    for size in (entry.paper_rows or {}).values():
        assert f"{size:,}" in flat
    assert ("data_dir" in flat) == bool(entry.files)
    assert max(map(len, text.splitlines())) <= 100


def test_prepare_writes_what_load_opens(folder, capsys):
    text = run("prepare", "jester", "--data-dir", folder, "--output", folder / "out", "--rows", 40, "--seed", 3)
    data = datasets.load("jester", folder / "out", seed=3)
    expected = datasets.jester(folder, rows=40, seed=3)
    np.testing.assert_array_equal(data.train.targets["rating"], expected.train.targets["rating"])
    lines = text.splitlines()
    assert lines[0] == expected.description
    assert lines[4].split() == ["train", "40", f"{expected.train.targets['rate'].mean():.1%}"]
    assert "20 users, 5 jokes." in lines and f"--data-dir {folder / 'out'}" in lines[-1]
    captured = capsys.readouterr()
    assert captured.out == ""
    reading, begin, end = captured.err.splitlines()
    assert str(folder) in reading and "0.0 of" in begin and "#" * 30 in end


def test_user_errors_are_raised_in_words(folder):
    for arguments, match in (
        (("jester", "--output", folder / "out"), "`data_dir` is missing"),
        (("jester", "--data-dir", folder / "none", "--output", folder / "out"), "not a folder"),
        (("books", "--data-dir", folder, "--output", folder / "out"), "BX-Book-Ratings.csv"),
        (("jester", "--data-dir", folder, "--output", folder), "`output`"),
        (("jester", "--data-dir", folder, "--output", folder / "out", "--rows", "0"), "`rows`"),
    ):
        with pytest.raises(BadArguments, match=match):
            run("prepare", *arguments)
        assert [path.name for path in folder.iterdir()] == ["jester-data-1.csv"]


@pytest.mark.parametrize("arguments", [(), ("info",), ("info", "mnist"), ("prepare", "jester"), ("list", "x")])
def test_wrong_command_lines_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        run(*arguments)
    assert stop.value.code == 2


def test_bar_moves_on_one_line_of_a_terminal():
    stream = io.StringIO()
    stream.isatty = lambda: True
    bar = ProgressBar("writing", stream)
    for done in (0, 5_000_000, 10_000_000):
        bar(done, 10_000_000)
    frames = stream.getvalue().split("\r")[1:]
    assert [frame.count("#") for frame in frames] == [0, 15, 30]
    assert frames[1] == f"writing [{'#' * 15}{' ' * 15}] 5.0 of 10.0 MB"
    assert stream.getvalue().count("\n") == 1
