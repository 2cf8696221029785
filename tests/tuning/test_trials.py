import json

import pytest

from comet_keras.tuning.trials import Trial, append_trial, read_trials, write_search

TRIALS = [Trial(str(number), "completed", {"rate": 0.1 * number}, validation_loss=1.0 / number) for number in (1, 2, 3)]


@pytest.fixture
def folder(tmp_path):
    write_search(tmp_path, {"task": "t", "gate": "topk", "task_weights": {}})
    return tmp_path


def test_trials_are_read_as_they_were_written(folder):
    assert read_trials(folder) == []
    for trial in TRIALS:
        append_trial(folder, trial)
    assert read_trials(folder) == TRIALS


@pytest.mark.parametrize("kept", [0, 1, 30])
@pytest.mark.parametrize("padding", [0, 10_000])
def test_a_line_without_an_end_is_cut_off_by_the_next(folder, kept, padding):
    """A kill in the middle of a write, of a short line or one longer than what is read at once."""
    append_trial(folder, TRIALS[0])
    line = json.dumps({**TRIALS[1].to_dict(), "reason": "x" * padding})
    with open(folder / "trials.jsonl", "a") as file:
        file.write(line[: len(line) - kept])
    assert read_trials(folder) == TRIALS[:1]
    append_trial(folder, TRIALS[2])
    assert read_trials(folder) == [TRIALS[0], TRIALS[2]]


def test_a_first_line_without_an_end_is_cut_off(folder):
    (folder / "trials.jsonl").write_text('{"trial_id": "1", "sta')
    append_trial(folder, TRIALS[0])
    assert read_trials(folder) == TRIALS[:1]


def test_a_damaged_line_is_named(folder):
    append_trial(folder, TRIALS[0])
    with open(folder / "trials.jsonl", "a") as file:
        file.write("{nonsense\n")
    append_trial(folder, TRIALS[1])
    with pytest.raises(ValueError, match="trials.jsonl, line 2"):
        read_trials(folder)


@pytest.mark.parametrize(
    "change", [{"tasks": None}, {"validation_loss": "0.5"}, {"hyperparameters": 3}, {"epochs": True}]
)
def test_a_value_of_the_wrong_kind_is_damage_too(folder, change):
    with open(folder / "trials.jsonl", "w") as file:
        file.write(json.dumps({**TRIALS[0].to_dict(), **change}) + "\n")
    with pytest.raises(ValueError, match=f"line 1 is no trial: {next(iter(change))}"):
        read_trials(folder)


@pytest.mark.parametrize("text", ["5", "[]", "{"])
def test_a_damaged_description_is_named(folder, text):
    (folder / "search.json").write_text(text)
    with pytest.raises(ValueError, match="search.json is damaged"):
        read_trials(folder)


def test_a_folder_without_a_search_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="search.json"):
        read_trials(tmp_path)
