"""Searches whose processes are killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from comet_keras.tuning import read_trials
from comet_keras.tuning.workers import parse_address, role_of_environment, wait_for
from tuning.search_models import search_in

ROOT = Path(__file__).parents[2]
PATIENCE = 240
VARIABLES = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")


def begin(folder, trials, workers=1, hang_at=None, **address):
    """A search as a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    if hang_at is not None:
        environment["HANG_AT"] = str(hang_at)
    script = str(ROOT / "tests" / "tuning" / "search_models.py")
    command = [sys.executable, "-W", "ignore", script, str(folder), str(trials), str(workers)]
    command += [f"{option}={value}" for option, value in address.items()]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def number_of_the_hanging(folder, search):
    limit = time.monotonic() + PATIENCE
    while not (folder / "hung").exists():
        assert search.poll() is None, search.communicate()
        assert time.monotonic() < limit
        time.sleep(0.1)
    return int((folder / "hung").read_text())


def outcomes(folder):
    """By trial, what a search is: which hyperparameters, which scores."""
    return {trial.trial_id: (trial.hyperparameters, trial.score, trial.status) for trial in read_trials(folder)}


def trainings(folder):
    return sorted((folder / "begun").read_text().splitlines())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    search_in(folder, 5, verbose=0)
    return folder


@pytest.mark.slow
def test_a_search_killed_in_a_trial_continues(tmp_path, whole):
    search = begin(tmp_path, 5, hang_at=3)
    os.kill(number_of_the_hanging(tmp_path, search), signal.SIGKILL)
    assert search.wait() == -signal.SIGKILL
    assert list(outcomes(tmp_path)) == ["0", "1"]
    again = begin(tmp_path, 5)
    out, error = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, error
    assert [line[:9] for line in out.splitlines()] == ["trial 3/5", "trial 4/5", "trial 5/5"]
    assert outcomes(tmp_path) == outcomes(whole)
    interrupted = f"{outcomes(whole)['2'][0]['learning_rate']}"
    assert trainings(tmp_path) == sorted([*trainings(whole), interrupted])


@pytest.mark.slow
def test_a_worker_killed_in_a_trial_is_replaced(tmp_path, whole):
    """O42: chief and two workers."""
    search = begin(tmp_path, 5, workers=2, hang_at=3)
    os.kill(number_of_the_hanging(tmp_path, search), signal.SIGKILL)
    out, error = search.communicate(timeout=PATIENCE)
    assert search.returncode == 0, error
    assert "killed by SIGKILL" in out
    found, expected = outcomes(tmp_path), outcomes(whole)
    assert found == expected and len((tmp_path / "trials.jsonl").read_text().splitlines()) == 5
    # One training more: the killed one's, with the same hyperparameters.
    again = trainings(tmp_path)
    for rate in trainings(whole):
        again.remove(rate)
    assert len(again) == 1 and float(again[0]) in [values[0]["learning_rate"] for values in expected.values()]


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.slow
def test_machines_that_join_a_search_share_its_trials(tmp_path, whole):
    """O42: as on several machines, on one of which the working process is killed in a trial."""
    address = free_address()
    chief = begin(tmp_path, 5, workers=0, listen=address)
    machines = [begin(tmp_path, 5, hang_at=3, connect=address) for _ in range(2)]
    os.kill(number_of_the_hanging(tmp_path, chief), signal.SIGKILL)
    error = chief.communicate(timeout=PATIENCE)[1]
    assert chief.returncode == 0, error
    left = [machine.communicate(timeout=PATIENCE) for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], left
    assert outcomes(tmp_path) == outcomes(whole)
    assert len((tmp_path / "trials.jsonl").read_text().splitlines()) == 5


@pytest.fixture
def oracle(tmp_path):
    """An oracle of 3 trials with two workers in the first two."""
    import keras_tuner

    from comet_keras.tuning.journal import Journal
    from comet_keras.tuning.objectives import Objective
    from comet_keras.tuning.oracles import make_oracle
    from comet_keras.tuning.spaces import LogUniform
    from comet_keras.tuning.trials import write_search

    write_search(tmp_path, {"task": "t", "gate": "g", "task_weights": {}})
    objective = Objective("val_loss", "min")
    made = make_oracle("random", objective, 3, 0, 1, Journal(tmp_path, objective, 3, verbose=0))
    made._set_project_dir(tmp_path, "trials")
    hp = keras_tuner.HyperParameters()
    LogUniform(0.1, 1.0).declare(hp, "rate")
    made.update_space(hp)
    made.begun = [made.create_trial(name) for name in ("a", "b")]
    return made


def end(oracle, trial, score=1.0):
    from comet_keras.tuning.journal import write_record
    from comet_keras.tuning.trials import Trial

    write_record(oracle.journal.folder, Trial(trial.trial_id, "completed", {}, score, score=score))
    oracle.update_trial(trial.trial_id, {"val_loss": score})
    trial.status = "COMPLETED"
    oracle.end_trial(trial)


def test_the_trial_of_a_silent_worker_goes_to_one_that_waits(oracle):
    first, second = oracle.begun
    end(oracle, first)
    third = oracle.create_trial("a")
    end(oracle, third)
    # All trials are begun, and b is still in one: a waits.
    assert oracle.create_trial("a").status == "IDLE" and "a" in oracle.tuner_ids
    assert oracle.release("b") == second.trial_id
    taken = oracle.create_trial("a")
    assert (taken.trial_id, taken.hyperparameters.values) == (second.trial_id, second.hyperparameters.values)
    end(oracle, taken)
    assert oracle.create_trial("a").status == "STOPPED" and oracle.stopped and not oracle.tuner_ids
    # b was only slow: what it brings late changes nothing.
    from keras_tuner.engine.trial import Trial as TunerTrial

    oracle.end_trial(TunerTrial(second.hyperparameters, second.trial_id, "COMPLETED"))
    assert sorted(oracle.end_order) == ["0", "1", "2"] and len(read_trials(oracle.journal.folder)) == 3


def test_a_worker_that_returns_goes_on_with_its_trial(oracle):
    assert oracle.create_trial("b").trial_id == oracle.begun[1].trial_id


def test_releasing_a_worker_without_a_trial_frees_nothing(oracle):
    end(oracle, oracle.begun[0])
    assert oracle.release("a") is None and oracle.release("nobody") is None
    assert oracle.tuner_ids == {"b"}


def test_kerastuners_variables_give_a_role(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert role_of_environment() is None
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "chief")
    with pytest.raises(ValueError, match="KERASTUNER_ORACLE_IP, KERASTUNER_ORACLE_PORT"):
        role_of_environment()
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "10.0.0.5")
    monkeypatch.setenv("KERASTUNER_ORACLE_PORT", "8000")
    assert role_of_environment() == ("chief", ("10.0.0.5", 8000))
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "tuner7")
    assert role_of_environment() == ("worker", ("10.0.0.5", 8000))


@pytest.mark.parametrize("text", ["", "host", ":80", "host:port", "host:70000"])
def test_an_address_has_host_and_port(text):
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


def test_a_chief_that_does_not_answer_is_told():
    address = free_address()
    with pytest.raises(OSError, match=f"{address} does not answer"):
        wait_for(parse_address(address), seconds=0.3)


def test_what_workers_cannot_be_sent_is_told(tmp_path):
    with pytest.raises(ValueError, match="pickled"):
        search_in(tmp_path, 2, workers=2, verbose=0, callbacks=[lambda: None])
