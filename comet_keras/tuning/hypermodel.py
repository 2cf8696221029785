"""The paper's models as a KerasTuner hypermodel. Imports KerasTuner; import it only to search."""

import math
from dataclasses import replace

import keras
import keras_tuner

from comet_keras.tuning.executions import Execution, TrialFailed, final_epoch
from comet_keras.tuning.objectives import make_objective
from comet_keras.tuning.spaces import check_space, space


class TaskHyperModel(keras_tuner.HyperModel):
    """Builds and trains the model of a task and gate with the hyperparameters of a trial.

    `comet_keras.tuning.search` searches with it; KerasTuner's own tuners can too.

    Args:
        config: `TrainingConfig`, all that is not searched.
        parameters: dict from a name of `TrainingConfig` to `LogUniform`, `Choice` or `Fixed`. Default:
            `space(config.task, config.gate)`.
        dataset: `comet_keras.datasets.Dataset`. Default: loaded as the configuration says, when needed.
        objective: name of a figure of an epoch. Default `"val_loss"`. The early stopping of a task's
            training always watches the validation loss.

    Raises:
        ValueError: if a parameter is unknown or one of its values is not allowed.

    Example:

    ```python
    import keras_tuner
    from comet_keras.train import TrainingConfig
    from comet_keras.tuning import TaskHyperModel

    hypermodel = TaskHyperModel(TrainingConfig("multi_digits", "comet+", epochs=1, rows=128))
    tuner = keras_tuner.RandomSearch(hypermodel, objective="val_loss", max_trials=1, overwrite=True)
    tuner.search(verbose=0)
    ```
    """

    declares = True  # the whole space without a model

    def __init__(self, config, parameters=None, dataset=None, objective="val_loss"):
        super().__init__(name=config.task)
        self.config = config
        self.parameters = space(config.task, config.gate) if parameters is None else dict(parameters)
        check_space(self.parameters, config)
        self.objective = make_objective(objective)
        self._dataset = dataset

    @property
    def dataset(self):
        """The `Dataset`, loaded once."""
        if self._dataset is None:
            from comet_keras.train import load_dataset

            self._dataset = load_dataset(self.config)
        return self._dataset

    def prepare(self):
        """Loads the data: what is missing is said before the first trial."""
        return self.dataset

    def declare_hyperparameters(self, hp):
        """Declares the space to KerasTuner."""
        for name, parameter in self.parameters.items():
            parameter.declare(hp, name)

    def configure(self, hp, seed=None):
        """The `TrainingConfig` of a trial."""
        values = {name: parameter.declare(hp, name) for name, parameter in self.parameters.items()}
        if "tuner/epochs" in hp.values:  # Hyperband's budget
            values["epochs"] = hp.values["tuner/epochs"]
        return replace(self.config, seed=self.config.seed if seed is None else seed, **values)

    def hyperparameters(self, hp):
        """What a trial is recorded with: a dict of the searched values, and the epochs of Hyperband."""
        config = self.configure(hp)
        names = [*self.parameters, *(["epochs"] if "tuner/epochs" in hp.values else [])]
        return {name: getattr(config, name) for name in names}

    def build(self, hp):
        """The compiled model of a trial."""
        from comet_keras.train import build_model

        return build_model(self.configure(hp), self.dataset)

    def fit(self, hp, model, callbacks=(), **kwargs):
        """Trains a model that `build` returned, for KerasTuner's own tuners; returns the Keras history."""
        from comet_keras.train import EVALUATION_BATCH, make_callbacks

        config = self.configure(hp)
        options = {"epochs": config.epochs, "verbose": 0, **kwargs}
        return model.fit(
            self.dataset.train.batches(config.batch_size, shuffle=True, seed=config.seed),
            validation_data=self.dataset.validation.batches(max(config.batch_size, EVALUATION_BATCH)),
            callbacks=[*callbacks, *make_callbacks(config)],
            shuffle=False,
            **options,
        )

    def probe(self, model):
        """One step on validation rows; returns the names of the figures of an epoch's validation."""
        figures = model.evaluate(self.dataset.validation.batches(32), steps=1, return_dict=True, verbose=0)
        return [f"val_{name}" for name in figures]

    def execute(self, hp, execution):
        """Trains and evaluates the model of a trial.

        Args:
            hp: `keras_tuner.HyperParameters` of the trial.
            execution: int, which of its trainings; added to the seed.

        Returns:
            `Execution`.

        Raises:
            TrialFailed: if a loss becomes NaN or infinite.
        """
        from comet_keras.train import train

        config = self.configure(hp, self.config.seed + execution)
        result = train(config, self.dataset, verbose=0, callbacks=[FailOnNaN()])
        if result.interrupted:
            raise KeyboardInterrupt
        loss = make_objective("val_loss")
        epoch = final_epoch(result.history, loss, config.patience is not None)
        return Execution(
            result.model,
            score=result.history[self.objective.name][epoch],
            validation_loss=result.history["val_loss"][epoch],
            test_loss=result.test["loss"],
            tasks=result.test["tasks"],
            experts_per_sample=result.experts_per_sample,
            epochs=result.epochs,
        )


class FailOnNaN(keras.callbacks.Callback):
    """Ends a trial when a loss is NaN or infinite at the end of an epoch."""

    def on_epoch_end(self, epoch, logs=None):
        for name in ("loss", "val_loss"):
            value = (logs or {}).get(name, 0.0)
            if not math.isfinite(value):
                title = "training" if name == "loss" else "validation"
                raise TrialFailed(f"The {title} loss was {float(value)} in epoch {epoch + 1}.")
