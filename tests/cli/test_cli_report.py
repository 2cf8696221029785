import json

import numpy as np
import pytest

from comet_keras import cli, datasets, models
from comet_keras.cli import main


def run(capsys, *arguments):
    """Exit code, standard output and error output of a command line."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture(scope="module")
def digits_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "model.keras"
    models.multi_digits(gate="topk", num_experts=4).save(path)
    return path


@pytest.fixture(scope="module")
def movielens_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("movielens")
    ratings = [
        f"{user}::{movie}::4::978300760" for user in range(1, 21) for movie in range(1 + user % 2, 11, 2)
    ]
    (folder / "ratings.dat").write_text("\n".join(ratings))
    models.movielens(20, 10, "softmax").save(folder / "model.keras")
    return folder


def test_help(capsys):
    for arguments, word in (
        (["report"], "flops"),
        (["report", "flops"], "--paper-table6"),
        (["report", "routing"], "--figure"),
    ):
        code, out, _ = run(capsys, *arguments, "--help")
        assert code == 0 and word in out
        assert max(len(line) for line in out.splitlines()) <= 100


def test_flops_of_a_digits_model(capsys, tmp_path, digits_model):
    code, out, err = run(
        capsys, "report", "flops", digits_model, "--task", "multi_digits", "--json", tmp_path / "cost.json"
    )
    assert (code, err) == (0, "")
    figures = json.loads((tmp_path / "cost.json").read_text())
    assert figures["samples"] == 2000
    assert figures["parts"]["gates"] == 2 * 144 * 4
    assert figures["experts_per_sample"] == {"top_left": 2.0, "bottom_right": 2.0}
    heads = 2 * (32 * 50 + 50 * 50 + 50 * 10)
    assert figures["parts"]["shared"] == heads
    assert figures["dense_parts"]["experts"] == 4 * (144 * 64 + 64 * 32)
    assert f"{figures['total']:.0f}" in out and "mixture, run of 4" in out


def test_table_6_of_a_movielens_model(capsys, movielens_folder):
    model = movielens_folder / "model.keras"
    arguments = ["--task", "movielens", "--data-dir", movielens_folder, "--paper-table6"]
    code, out, err = run(capsys, "report", "flops", model, *arguments)
    assert (code, err) == (0, "")
    assert "2254881" in out


def test_routing_of_a_digits_model(capsys, tmp_path, digits_model):
    figure = tmp_path / "routing.png"
    code, out, err = run(capsys, "report", "routing", digits_model, "--task", "multi_digits", "--figure", figure)
    assert (code, err) == (0, "")
    assert out.index("top_left: share") < out.index("bottom_right: share")
    rows = [line.split() for line in out.split("bottom_right")[0].splitlines() if line.strip()[:1].isdigit()]
    assert [row[0] for row in rows] == list("0123456789")
    assert sum(int(row[1]) for row in rows) == 2000
    # Two experts a row, shares rounded to whole percents.
    assert all(abs(sum(int(share.rstrip("%")) for share in row[2:]) - 200) <= 2 for row in rows)
    assert out.count("of 3.3") == 2 and figure.stat().st_size > 1000


def test_mistakes_give_one_line_and_code_2(capsys, tmp_path, digits_model):
    digits = ["--task", "multi_digits"]
    broken = tmp_path / "broken.keras"
    broken.write_text("no model")
    for arguments, word in (
        ([], "REPORT"),
        (["cost"], "cost"),
        (["flops"], "MODEL"),
        (["flops", digits_model], "--task"),
        (["flops", digits_model, "--task", "mnist"], "mnist"),
        (["flops", tmp_path / "none.keras", *digits], "none.keras"),
        (["flops", broken, *digits], "broken.keras"),
        (["flops", digits_model, *digits, "--json", tmp_path / "no" / "cost.json"], "--json"),
        (["flops", digits_model, *digits, "--paper-table6"], "paper_table6"),
        (["flops", digits_model, "--task", "movielens", "--data-dir", "/no/such"], "/no/such"),
        (["routing", tmp_path / "none.keras", *digits], "none.keras"),
        (["routing", digits_model, *digits, "--figure", tmp_path / "a.docx"], "--figure"),
    ):
        code, out, err = run(capsys, "report", *arguments)
        assert (code, out) == (2, ""), arguments
        assert len(err.splitlines()) == 1 and "error: " in err and word in err, err


def test_test_rows_are_those_of_the_training(movielens_folder, tmp_path):
    """With another seed they would be rows that the model was trained on."""
    from comet_keras.cli.report.shared import load_model_and_test

    (tmp_path / "model.keras").write_bytes((movielens_folder / "model.keras").read_bytes())
    config = {"task": "movielens", "seed": 3, "rows": 50}
    (tmp_path / "results.json").write_text(json.dumps({"config": config}))

    def report_on(*arguments):
        line = ["report", "routing", tmp_path / "model.keras", "--task", "movielens", "--data-dir", movielens_folder]
        parsed = cli.make_parser().parse_args([str(argument) for argument in (*line, *arguments)])
        return load_model_and_test(parsed)[1]

    for arguments, seed in (((), 3), (("--seed", 5), 5)):
        found, expected = report_on(*arguments), datasets.movielens(movielens_folder, seed=seed)
        assert len(found.train) == 50
        np.testing.assert_array_equal(found.test.features["movie"], expected.test.features["movie"])


def test_a_model_of_another_task_is_refused(capsys, movielens_folder):
    code, _, err = run(capsys, "report", "flops", movielens_folder / "model.keras", "--task", "multi_digits")
    assert code == 2
    assert "image" in err and "movie, user" in err


def test_the_report_is_among_the_commands():
    assert "report" in cli.COMMANDS
