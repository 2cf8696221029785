"""The KerasTuner tuner of all searches here. Imports KerasTuner; import it only to search."""

import contextlib
import gc
import io
import json
import time
import traceback
from pathlib import Path

import keras
import keras_tuner

from comet_keras.files import write_whole
from comet_keras.tuning.executions import TrialFailed, completed_trial
from comet_keras.tuning.journal import TRIAL_FOLDERS, read_record, shortened, trial_folder, write_record
from comet_keras.tuning.trials import FAILED, Trial, read_trials

ERROR_FILE, ATTEMPTS_FILE = "error.txt", "attempts"
# A trial in which the process was killed this many times (out of memory, as a rule) has failed.
ATTEMPTS = 3
MODEL_FILE, WEIGHTS_FILE = "model.keras", "model.weights.h5"
IDLE_SECONDS = 0.5
REASON_WIDTH = 500


class SearchTuner(keras_tuner.Tuner):
    """Runs trials with a hypermodel's `execute`, and records each before the oracle hears of it.

    Args:
        oracle: what `comet_keras.tuning.oracles.make_oracle` returns.
        hypermodel: `TaskHyperModel` or `ModelHyperModel`.
        folder: the search's folder.
        executions: int, trainings a trial.
        before_request: function without arguments, called before each word with the oracle.
    """

    def __init__(self, oracle, hypermodel, folder, executions=1, before_request=None):
        self._folder, self._executions, self._ask_first = Path(folder), executions, before_request
        self._ran = True
        with contextlib.redirect_stdout(io.StringIO()):  # it tells of what it reloads
            super().__init__(oracle, hypermodel, directory=str(folder), project_name=TRIAL_FOLDERS)

    def _populate_initial_space(self):
        if not self.hypermodel.declares:
            return super()._populate_initial_space()
        hp = self.oracle.get_space()
        self.hypermodel.declare_hyperparameters(hp)
        self.oracle.update_space(hp)

    def _get_tuner_fname(self):
        # What makes KerasTuner reload a search: its own file is written after the first trial only.
        return self.oracle._get_oracle_fname()

    def save(self):
        if not self._is_worker():
            self.oracle.save()

    def reload(self):
        if not self._is_worker():
            self.oracle.reload()

    def pre_create_trial(self):
        if self._ask_first:
            self._ask_first()
        if not self._ran:
            time.sleep(IDLE_SECONDS)
        self._ran = False

    def on_trial_begin(self, trial):
        self._ran = True

    def on_trial_end(self, trial):
        if self._ask_first:
            self._ask_first()
        super().on_trial_end(trial)

    def run_trial(self, trial, *args, **kwargs):
        """Returns the score; a trial that has a record is not run again."""
        record = read_record(self._folder, trial.trial_id)
        if record is None:
            record = self._run(trial)
            write_record(self._folder, record)
        if not record.completed:
            raise keras_tuner.errors.FailedTrialError(record.reason)
        return {self.oracle.objective.name: record.score}

    def load_model(self, trial):
        """The best trial's model; only its weights are kept."""
        model_file = trial_folder(self._folder, trial.trial_id) / MODEL_FILE
        if model_file.is_file():
            return keras.saving.load_model(model_file)
        model = self.hypermodel.build(self._exact_hyperparameters(trial))
        self.hypermodel.probe(model)  # builds it
        model.load_weights(model_file.with_name(WEIGHTS_FILE))
        return model

    def _run(self, trial):
        hp, started = self._exact_hyperparameters(trial), time.perf_counter()
        folder = trial_folder(self._folder, trial.trial_id)
        attempts = self._count_attempt(folder)
        try:
            if attempts > ATTEMPTS:
                raise TrialFailed(f"The process was killed in this trial {ATTEMPTS} times; out of memory, perhaps.")
            record, model = self._execute(trial.trial_id, hp, started)
            self._save_if_best(model, record, folder)
        except KeyboardInterrupt:
            (folder / ATTEMPTS_FILE).unlink()
            raise
        except Exception as error:
            (folder / ERROR_FILE).write_text(traceback.format_exc())
            values = {name: value for name, value in hp.values.items() if not name.startswith("tuner/")}
            record = Trial(
                trial.trial_id,
                FAILED,
                values,
                seconds=time.perf_counter() - started,
                executions=self._executions,
                reason=_reason(error),
            )
        # New hyperparameters of a user's function.
        trial.hyperparameters = hp
        return record

    def _execute(self, trial_id, hp, started):
        executions = []
        for number in range(self._executions):
            keras.utils.clear_session(free_memory=False)
            gc.collect()
            execution = self.hypermodel.execute(hp, number)
            if executions and not self.hypermodel.objective.better(execution.score, executions[0].score):
                execution.model = None
                executions.append(execution)
            else:
                for other in executions:
                    other.model = None
                executions.insert(0, execution)
        record = completed_trial(
            trial_id, self.hypermodel.hyperparameters(hp), executions, time.perf_counter() - started
        )
        if record.score is None:
            raise TrialFailed(f"{self.hypermodel.objective.name} was NaN or infinite.")
        return record, executions[0].model

    def _save_if_best(self, model, record, folder):
        scores = [trial.score for trial in read_trials(self._folder) if trial.completed]
        if all(self.hypermodel.objective.better(record.score, score) for score in scores):
            if self.hypermodel.declares:
                write_whole(folder / MODEL_FILE, model.save)
            else:  # the class of a user's model is known to `build` only
                write_whole(folder / WEIGHTS_FILE, model.save_weights)

    def _exact_hyperparameters(self, trial):
        """A trial's hyperparameters with all digits, which KerasTuner's wire cuts to float32."""
        hp = trial.hyperparameters.copy()
        state = json.loads((trial_folder(self._folder, trial.trial_id) / "trial.json").read_text())
        hp.values.update(state["hyperparameters"]["values"])
        return hp

    def _count_attempt(self, folder):
        path = folder / ATTEMPTS_FILE
        count = 1 + (int(path.read_text()) if path.is_file() else 0)
        write_whole(path, lambda partial: partial.write_text(str(count)))
        return count


def _reason(error):
    if isinstance(error, TrialFailed):
        return str(error)
    return shortened(f"{type(error).__name__}: {error}", REASON_WIDTH)
