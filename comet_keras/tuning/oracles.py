"""KerasTuner's oracles with a state that survives a kill. Imports KerasTuner; import it only to search."""

import json

import keras_tuner
import numpy as np
from keras_tuner.engine.trial import Trial as TunerTrial
from keras_tuner.oracles import BayesianOptimizationOracle, HyperbandOracle, RandomSearchOracle

from comet_keras.files import write_whole

IDLE, STOPPED = "IDLE", "STOPPED"
ENDED = ("COMPLETED", "FAILED")


class _Durable:
    """What every oracle has here beside KerasTuner's.

    - Files are there complete or not at all, so that a kill leaves a state that can be read.
    - After a kill exactly the trials that were begun and have not ended run again, in their order, with
      their hyperparameters.
    - A worker waits while others are in their last trials, and takes over the trial of one that died.
    - A journal is told of each end, before KerasTuner's own state is.
    """

    journal = None
    failure = None
    stopped = False

    @keras_tuner.synchronized
    def create_trial(self, tuner_id):
        if self.journal.hopeless and tuner_id not in self.ongoing_trials:
            self.tuner_ids.discard(tuner_id)
            trial = TunerTrial(self.get_space(), trial_id="", status=STOPPED)
        else:
            trial = super().create_trial(tuner_id)
        if trial.status == STOPPED and self.ongoing_trials:
            self.tuner_ids.add(tuner_id)
            trial.status = IDLE
        self.stopped = trial.status == STOPPED
        return trial

    @keras_tuner.synchronized
    def end_trial(self, trial):
        known = self.trials[trial.trial_id]
        if known.status not in ENDED or known is trial:
            try:
                self.journal.end(trial.trial_id, trial.message)
            except OSError as error:
                self.failure = error
                raise
            # Values that came over the wire have lost digits.
            for name, value in trial.hyperparameters.values.items():
                known.hyperparameters.values.setdefault(name, value)
            self.update_space(trial.hyperparameters)
            trial.hyperparameters = known.hyperparameters
            super().end_trial(trial)
        self.ongoing_trials = {
            tuner: each for tuner, each in self.ongoing_trials.items() if each.trial_id != trial.trial_id
        }
        self.save()

    def release(self, tuner_id):
        """Gives up a worker; its trial, if it was in one, goes to the next that asks. Returns its id or None."""
        self.tuner_ids.discard(tuner_id)
        trial = self.ongoing_trials.pop(tuner_id, None)
        if trial is None or trial.status in ENDED:
            return None
        self._retry_queue.append(trial.trial_id)
        self.save()
        return trial.trial_id

    def save(self):
        _write_json(self._get_oracle_fname(), self.get_state())

    def _save_trial(self, trial):
        _write_json(f"{self._get_trial_dir(trial.trial_id)}/trial.json", trial.get_state())

    def reload(self):
        super().reload()
        # A trial without a place in the order was created in the moment of the kill: it is created again.
        self.trials = {each: self.trials[each] for each in self.start_order}
        waiting = [each for each, trial in self.trials.items() if trial.status not in ENDED]
        self._retry_queue = waiting[::-1]  # taken from its end


class RandomOracle(_Durable, RandomSearchOracle):
    """Random search."""


class BayesianOracle(_Durable, BayesianOptimizationOracle):
    """Bayesian optimization whose draws depend on the seed and the trials before, not on interruptions."""

    def populate_space(self, trial_id):
        self._random_state = np.random.RandomState((self.seed + len(self.trials)) % 2**32)
        return super().populate_space(trial_id)


class HyperbandSearchOracle(_Durable, HyperbandOracle):
    """Hyperband, repeated until there are enough trials."""


def make_oracle(kind, objective, trials, seed, epochs, journal):
    """The oracle of a search.

    Args:
        kind: `"random"`, `"bayesian"` or `"hyperband"`.
        objective: `comet_keras.tuning.objectives.Objective`.
        trials: int, how many at most.
        seed: int >= 0.
        epochs: int, the largest number of epochs of Hyperband's trials.
        journal: `comet_keras.tuning.journal.Journal`.
    """
    # KerasTuner draws parameter j of trial i by the seed `seed + i * parameters + j`, so that nearby seeds
    # share draws, and takes 0 for no seed.
    spread = 1 + int(np.random.SeedSequence(seed).generate_state(1)[0]) % (2**31 - 1)
    options = {
        "objective": keras_tuner.Objective(objective.name, objective.direction),
        "seed": spread,
        # The journal decides when failures end a search.
        "max_consecutive_failed_trials": 10**9,
    }
    if kind == "hyperband":
        oracle = HyperbandSearchOracle(max_epochs=epochs, hyperband_iterations=None, **options)
        oracle.max_trials = trials
    else:
        oracle = {"random": RandomOracle, "bayesian": BayesianOracle}[kind](max_trials=trials, **options)
    oracle.journal, oracle.verbose = journal, 0
    return oracle


def _write_json(path, state):
    text = json.dumps(state)
    write_whole(path, lambda partial: partial.write_text(text))
