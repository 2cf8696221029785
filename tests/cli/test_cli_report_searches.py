"""The reports of `comet-keras report` that read searches; those of models are in test_cli_report.py."""

import csv
import io
import json

import pytest
from reports.synthetic_searches import failed, random_trials, write

from comet_keras.cli import main
from comet_keras.reports import top_fraction, tuning_reduction


def run(capsys, *arguments):
    """Exit code, standard output and error output of `comet-keras report`."""
    try:
        code = main(["report", *(str(argument) for argument in arguments)])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


TRIALS = {
    "topk": [*random_trials(39, 0.5, seed=1), failed(39)],
    "topk+": random_trials(40, 0.4, seed=2),
    "comet": random_trials(40, 0.3, seed=3),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("searches")
    return [write(base / gate, gate, trials, num_experts=16) for gate, trials in TRIALS.items()]


@pytest.fixture(scope="module")
def image_folder(tmp_path_factory):
    weights = {"top_left": 0.5, "bottom_right": 0.5}
    folder = tmp_path_factory.mktemp("images") / "topk"
    return write(folder, "topk", random_trials(20, kind="images"), "multi_mnist", weights)


def test_trials(capsys, folders):
    code, out, err = run(capsys, "trials", *folders)
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line.split() for line in out.splitlines() if "±" in line}
    mean, error = top_fraction(TRIALS["topk"]).loss
    assert lines["Top-k"][1:7] == ["40", "1", "2", f"{mean:.4f}", "±", f"{error:.4f}"]
    assert list(lines)[:3] == ["Top-k", "Top-k+", "COMET"]
    code, out, _ = run(capsys, "trials", *folders, "--fraction", 0.5)
    assert code == 0 and "the best 50% of trials" in out


def test_bootstrap(capsys, tmp_path, folders):
    code, out, err = run(capsys, "bootstrap", *folders, "--budgets", 1, 7, "--figure", tmp_path / "curves.png")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines() if line[:2].strip() in ("1", "7")] == ["1", "7"]
    found = tuning_reduction(TRIALS["topk+"], TRIALS["topk"])
    (line,) = [line for line in out.splitlines() if line.startswith("Top-k+")]
    assert line.split()[1:] == ["Top-k", "20", f"{found.target:.4f}", str(found.budget), f"{found.factor:.1f}x"]
    assert (tmp_path / "curves.png").stat().st_size > 1000
    code, out, _ = run(capsys, "bootstrap", *folders, "--with-replacement", "--budgets", 100)
    assert code == 0 and "with replacement" in out


def test_tables(capsys, tmp_path, folders, image_folder):
    code, out, err = run(capsys, "tables", *folders, image_folder)
    assert (code, err) == (0, "")
    captions = [line[:7] for line in out.splitlines() if line.startswith("Table")]
    assert captions == ["Table 2", "Table 3", "Table 7", "Table 7"]
    assert "40.69 ± 0.02" in out and "98.01 ± 0.02" in out
    for format, word in (("markdown", "| --- |"), ("latex", r"\toprule"), ("csv", "Test loss error")):
        path = tmp_path / format
        code, out, _ = run(capsys, "tables", *folders, "--format", format, "--output", path)
        assert code == 0 and "2 tables written" in out
        assert word in path.read_text(encoding="utf-8")
    code, out, _ = run(capsys, "tables", *folders, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out.split("\n\n")[0])))
    ours = {row["Model"]: row["Test loss"] for row in rows}
    assert ours["COMET"] == f"{100 * top_fraction(TRIALS['comet']).loss[0]:.2f}" and ours["COMET+"] == ""


def test_table_1_from_runs_by_seed(capsys, tmp_path):
    runs = [("topk", "none", 0.50), ("topk", "none", 0.52), ("topk+", "warm", 0.40), ("topk+", "warm", 0.42)]
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(dict(zip(("gate", "start", "loss"), run))) + "\n" for run in runs))
    code, out, err = run(capsys, "tables", "--runs", path)
    assert (code, err) == (0, "")
    assert "51.000 ± 1.000" in out and "*41.000 ± 1.000" in out and "53.345 ± 0.033" in out


def test_help(capsys):
    for report, word in (("trials", "--fraction"), ("bootstrap", "--with-replacement"), ("tables", "--format")):
        code, out, _ = run(capsys, report, "--help")
        assert code == 0 and word in out
        assert max(len(line) for line in out.splitlines()) <= 100


def test_mistakes_give_one_line_and_code_2(capsys, tmp_path, folders, image_folder):
    none = write(tmp_path / "none", "topk", [failed(0)])
    for arguments, word in (
        (["trials"], "FOLDER"),
        (["trials", tmp_path / "no"], "no search"),
        (["trials", none], "no completed trial"),
        (["trials", folders[0], image_folder], "cannot be compared"),
        (["trials", folders[0], "--fraction", 2], "fraction"),
        (["bootstrap", folders[0], folders[0]], "Several searches"),
        (["bootstrap", folders[0], "--budgets", 41], "at most the number of trials, 40"),
        (["bootstrap", folders[0], "--budgets", "few"], "--budgets"),
        (["bootstrap", folders[0], "--figure", tmp_path / "no" / "a.png"], "--figure"),
        (["bootstrap", folders[0], "--figure", tmp_path / "a.docx"], "--figure"),
        (["tables"], "FOLDER"),
        (["tables", folders[0], "--format", "html"], "html"),
        (["tables", folders[0], "--output", tmp_path / "no" / "a.txt"], "--output"),
        (["tables", "--runs", tmp_path / "none.jsonl"], "none.jsonl"),
    ):
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, ""), arguments
        assert len(err.splitlines()) == 1 and "error: " in err and word in err, err
