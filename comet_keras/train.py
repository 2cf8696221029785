"""One training run: data, model, callbacks, results."""

import json
import platform
import time
from dataclasses import dataclass, fields
from pathlib import Path

from comet_keras.files import write_whole
from comet_keras.models.gate_strings import wants_permutation
from comet_keras.models.training_config import TrainingConfig

__all__ = [
    "TrainingConfig",
    "TrainingResult",
    "build_model",
    "load_dataset",
    "make_callbacks",
    "resumable_config",
    "train",
]

EVALUATION_BATCH = 2048
CHECKPOINT = "checkpoint.npz"


@dataclass(eq=False, repr=False)
class TrainingResult:
    """What a training run reached.

    Attributes:
        config: `TrainingConfig`.
        model: the trained `keras.Model`.
        test: dict with `loss` and `tasks` (see `comet_keras.models.evaluate_exactly`), and `routing`:
            for each gate what `comet_keras.metrics.routing_statistics` returns.
        history: dict from name to a list with a float for each epoch.
        epochs: int, epochs completed.
        seconds: float, wall time of training without the evaluation.
        interrupted: bool, whether Ctrl-C ended the training.
    """

    config: TrainingConfig
    model: object
    test: dict
    history: dict
    epochs: int
    seconds: float
    interrupted: bool

    @property
    def experts_per_sample(self):
        """Dict from gate to its mean number of experts a test row."""
        return {gate: figures["experts_per_sample"] for gate, figures in self.test["routing"].items()}

    def to_dict(self):
        """Everything but the model as plain JSON values (None for NaN), with the versions in use."""
        return _plain(
            {
                "config": self.config.to_dict(),
                "test": {**self.test, "experts_per_sample": self.experts_per_sample},
                "epochs": self.epochs,
                "seconds": self.seconds,
                "interrupted": self.interrupted,
                "history": self.history,
                "versions": _versions(),
            }
        )

    def save(self, output_dir):
        """Writes `model.keras` and `results.json`; a file is there complete or not at all."""
        folder = Path(output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "model.keras", self.model.save)
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
        write_whole(folder / "results.json", lambda path: path.write_text(text))


def load_dataset(config):
    """The data set of a configuration, a `comet_keras.datasets.Dataset`.

    Raises:
        FileNotFoundError: if there is no data: the folder lacks it, or without a folder
            tensorflow-datasets has none. Says what to download and where to put it.
        ValueError: if a file is malformed or `rows` is too large.
    """
    from comet_keras import datasets

    return datasets.load(config.task, config.data_dir, config.rows, config.seed)


def build_model(config, dataset):
    """The compiled model of a configuration for a data set, a `keras.Model`."""
    from comet_keras import models

    names = ("gate", "num_experts", "k", "gamma", "entropy_weight", "zeta", "permutation_start", "seed")
    model = models.build(config.task, dataset, **{name: getattr(config, name) for name in names})
    return models.compile_for(model, dataset, config.learning_rate, config.task_weights)


def resumable_config(folder):
    """The configuration of the training whose checkpoint a folder holds, to be given to `train(resume=True)`.

    Args:
        folder: the training's `output_dir`; it may have been moved since.

    Returns:
        `TrainingConfig` with `output_dir=folder`.

    Raises:
        FileNotFoundError: if there is no checkpoint, as after a training that has ended.
        ValueError: if it is damaged.
    """
    from comet_keras.callbacks.checkpoint import read_description

    folder = Path(folder)
    if not (folder / CHECKPOINT).is_file():
        ended = " It holds the results of a training that has ended." if (folder / "results.json").is_file() else ""
        raise FileNotFoundError(f"Nothing to resume in {str(folder)!r}: it has no {CHECKPOINT}.{ended}")
    return TrainingConfig(**{**read_description(folder / CHECKPOINT), "output_dir": folder})


def train(config, dataset=None, verbose=1, callbacks=(), resume=False):
    """Trains, evaluates on the test split and saves.

    The permutations of a gate with `+` harden after `permutation_epochs`. With `patience`, training
    stops by the validation loss (which holds no regularization terms: gates add them in training
    only), and the best epoch's weights are restored. The test loss is the weighted sum of the tasks'
    losses, exact over the split. Ctrl-C ends the training; what it reached is evaluated and saved.

    With an `output_dir` a checkpoint is written there after every epoch, and removed once the training has
    ended. A training that was killed, or ended by Ctrl-C, continues from it with `resume=True`, to the
    same result as if it had not been (to the reproducibility of the machine's arithmetic).

    Args:
        config: `TrainingConfig`.
        dataset: `comet_keras.datasets.Dataset` of the configuration's task. Default: loaded as the
            configuration says; give it to share one between runs.
        verbose: 0 silent, 1 a line an epoch, 2 the Keras progress bar. Default 1.
        callbacks: further Keras callbacks; they run before those of this function, so that they still
            see soft permutations at the end of the first stage. They are told the number of each epoch,
            but what they remember themselves is not in the checkpoint.
        resume: bool, whether to continue the training in `config.output_dir`; `resumable_config` gives
            its configuration. Default False: start afresh, whatever is there.

    Returns:
        `TrainingResult`.

    Raises:
        ValueError, FileNotFoundError: see `load_dataset` and `resumable_config`.

    Example:

    >>> from comet_keras.train import TrainingConfig, train
    >>> config = TrainingConfig("multi_digits", gate="topk", epochs=1, rows=256)
    >>> result = train(config, verbose=0)
    >>> sorted(result.test["tasks"]["top_left"])
    ['accuracy', 'loss', 'rows']
    """
    import keras

    from comet_keras import metrics, models

    if resume:
        _check_resumable(config)
    dataset = load_dataset(config) if dataset is None else dataset
    keras.utils.set_random_seed(config.seed)
    model = build_model(config, dataset)
    log = _make_log(config, verbose)
    callbacks = [*callbacks, *make_callbacks(config, verbose), log]
    checkpoint = _make_checkpoint(config, callbacks, resume)
    started = time.perf_counter()
    interrupted = _fit(model, config, dataset, callbacks, checkpoint, verbose)
    seconds = checkpoint.seconds if checkpoint else time.perf_counter() - started
    if interrupted and verbose:
        print(f"\nInterrupted in epoch {log.completed + 1}; evaluating what was reached.", flush=True)
    test = models.evaluate_exactly(
        model, dataset.test, dataset.tasks, config.task_weights, EVALUATION_BATCH
    )
    test["routing"] = metrics.routing_statistics(model, dataset.test.batches(EVALUATION_BATCH))
    result = TrainingResult(config, model, test, log.history, log.completed, seconds, interrupted)
    if config.output_dir is not None:
        result.save(config.output_dir)
        if not interrupted:
            checkpoint.path.unlink()
    return result


def _check_resumable(config):
    if config.output_dir is None:
        raise ValueError("`resume` needs an `output_dir`, the folder of the training to continue.")
    begun = resumable_config(config.output_dir)
    names = [field.name for field in fields(config) if field.name != "data_dir"]  # data may have moved
    differing = [name for name in names if getattr(config, name) != getattr(begun, name)]
    if differing:
        raise ValueError(
            f"`resume` continues a training as it was begun. Different in `config`: {', '.join(differing)}."
        )


def _make_checkpoint(config, callbacks, resume):
    from comet_keras.callbacks import TrainingCheckpoint

    if config.output_dir is None:
        return None
    folder = Path(config.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    return TrainingCheckpoint(folder / CHECKPOINT, callbacks, config.to_dict(), resume)


def make_callbacks(config, verbose=0):
    """The callbacks of a training: local search, routing statistics, early stopping, an end at NaN."""
    import keras

    from comet_keras.callbacks import HardenPermutation, RoutingMonitor

    callbacks = [RoutingMonitor(warn=bool(verbose)), keras.callbacks.TerminateOnNaN()]
    if wants_permutation(config.gate):
        # First: the others see the hard permutation that validation uses.
        callbacks.insert(0, HardenPermutation(config.permutation_epochs, verbose=int(verbose > 1)))
    if config.patience is not None:
        stop = keras.callbacks.EarlyStopping(
            "val_loss", mode="min", patience=config.patience, restore_best_weights=True
        )
        callbacks.append(stop)
    return callbacks


def _fit(model, config, dataset, callbacks, checkpoint, verbose):
    """Returns whether Ctrl-C ended the training; the model is in a usable state either way."""
    import keras

    first = checkpoint.epoch if checkpoint else 0
    try:
        model.fit(
            dataset.train.endless_batches(config.batch_size, config.seed, first),
            steps_per_epoch=dataset.train.steps(config.batch_size),
            validation_data=dataset.validation.batches(max(config.batch_size, EVALUATION_BATCH)),
            epochs=config.epochs,
            # None are left to a training that early stopping had ended.
            initial_epoch=config.epochs if checkpoint and checkpoint.stopped else first,
            callbacks=[*callbacks, checkpoint] if checkpoint else callbacks,
            verbose=1 if verbose > 1 else 0,
            shuffle=False,  # the data set does, and Keras would warn that it cannot
        )
        return False
    except KeyboardInterrupt:
        # What `on_train_end` would have done: the best weights, and a hard permutation that fits them.
        for callback in callbacks:
            if isinstance(callback, keras.callbacks.EarlyStopping) and callback.best_weights is not None:
                model.set_weights(callback.best_weights)
        for layer in model.get_layer("mixture").permutation_layers:
            layer.round()
        return True


def _make_log(config, verbose):
    from comet_keras.callbacks import TrainingLog

    return TrainingLog(config.epochs, show=verbose == 1)


def _plain(value):
    """Numpy values as JSON knows them; NaN and infinity, which it does not know, as None."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def _versions():
    import keras
    import numpy

    import comet_keras

    backend = keras.backend.backend()
    return {
        "python": platform.python_version(),
        "comet_keras": comet_keras.__version__,
        "keras": keras.__version__,
        "backend": backend,
        backend: getattr(__import__(backend), "__version__", "unknown"),
        "numpy": numpy.__version__,
    }
