"""Searches over hyperparameters."""

import contextlib
import os

from comet_keras.tuning.objectives import check_objective, make_objective
from comet_keras.tuning.results import SearchResults
from comet_keras.tuning.spaces import space as paper_space
from comet_keras.tuning.study import Study


def search(
    task,
    gate,
    trials=500,
    folder=None,
    data_dir=None,
    tuner="random",
    space=None,
    objective="val_loss",
    seed=0,
    executions=1,
    rows=None,
    epochs=None,
    patience=25,
    task_weights=None,
    dataset=None,
    overwrite=False,
    workers=1,
    listen=None,
    connect=None,
    verbose=1,
):
    """Searches the hyperparameters of a task's model with a gate, as section S1.3 of the COMET paper does.

    Each trial trains with other hyperparameters (`comet_keras.train.train`, early stopping included) and is
    written down when it ends. A search that was killed or interrupted continues when it is called again with
    the same arguments: trials that have ended are kept, and those that have not are run again. A trial that
    fails is recorded with its reason, and the search goes on, unless the first three fail with the same.

    Same arguments, same trials: their hyperparameters follow from the seed, also across interruptions;
    with several workers only random search's do, since others look at the trials that ended before.

    Args:
        task: str, such as `"movielens"`.
        gate: str, one of `comet_keras.models.GATES`.
        trials: int, how many in the end. Default 500 (S1.3). It may be raised to continue a search.
        folder: path, where the search is kept. Default: `runs/search-TASK-GATE`.
        data_dir: see `TrainingConfig`.
        tuner: `"random"` (the paper's), `"bayesian"` or `"hyperband"`. Hyperband trains many for few epochs and
            those that do best for more, each time from the beginning. Default `"random"`.
        space: dict from a name of `TrainingConfig` to `LogUniform`, `Choice` or `Fixed`. Default: the
            paper's, `space(task, gate)`.
        objective: name of a figure of an epoch, such as `"val_watch_auc"`, what trials are ranked by.
            Default `"val_loss"`. It counts in the epoch whose weights a training ends with: that of the best
            validation loss, or the last without `patience`.
        seed: int >= 0, of the data, the hyperparameters, and the first execution's training. Default 0.
        executions: int, trainings a trial, with seeds `seed`, `seed + 1`, ...; figures are their mean. Default 1.
        rows, epochs, patience, task_weights: see `TrainingConfig`.
        dataset: `comet_keras.datasets.Dataset` of the task. Default: loaded as the arguments say.
        overwrite: bool, whether to remove what the folder holds of another search. Default False.
        workers: int, processes on this machine. Default 1: this process. (A script that asks for more needs
            `if __name__ == "__main__":`.)
        listen: `"HOST:PORT"` or None, where this process serves workers of other machines, which must see the
            same folder. Then `workers` may be 0.
        connect: `"HOST:PORT"` or None, a search that listens there: this process only works for it.
            KerasTuner's own variables (`KERASTUNER_TUNER_ID`, `KERASTUNER_ORACLE_IP`, `KERASTUNER_ORACLE_PORT`)
            say the same as `listen` and `connect`.
        verbose: 0 silent, 1 a line a trial. Default 1.

    Returns:
        `SearchResults`.

    Raises:
        ValueError: if an argument is not allowed, or the folder holds a search with other arguments.
        FileNotFoundError: if the data are not there.
        RuntimeError: if the first trials all failed with the same reason.

    Example:

    >>> from comet_keras.tuning import Fixed, LogUniform, search
    >>> space = {"learning_rate": LogUniform(1e-3, 1e-2), "num_experts": Fixed(4)}
    >>> results = search("multi_digits", "topk", 1, space=space, epochs=1, rows=64, verbose=0)
    >>> [trial.trial_id for trial in results.trials]
    ['0']
    """
    from comet_keras.models.training_config import TrainingConfig

    parameters = paper_space(task, gate) if space is None else space
    config = TrainingConfig(
        task, gate, epochs=epochs, patience=patience, task_weights=task_weights, rows=rows, data_dir=data_dir, seed=seed
    )  # fmt: skip
    from comet_keras.tuning.hypermodel import TaskHyperModel

    hypermodel = TaskHyperModel(config, parameters, dataset)
    if objective != "val_loss":
        _set_objective(hypermodel, objective)
    description = {
        "task": task,
        "gate": gate,
        "task_weights": config.task_weights,
        "rows": config.rows,
        "patience": config.patience,
        "data_dir": config.data_dir,
        "space": {name: parameter.to_dict() for name, parameter in hypermodel.parameters.items()},
    }
    folder = folder or f"runs/search-{task}-{gate}"
    study = Study(folder, hypermodel, description, tuner, trials, seed, executions, config.epochs, verbose)
    return _run(study, overwrite, workers, listen, connect)


def search_model(
    build,
    data,
    objective="val_loss",
    trials=100,
    folder="runs/search",
    tuner="random",
    seed=0,
    executions=1,
    epochs=10,
    patience=None,
    batch_size=32,
    callbacks=(),
    overwrite=False,
    workers=1,
    listen=None,
    connect=None,
    verbose=1,
):
    """Searches the hyperparameters of your own model, as `search` does those of the paper's.

    Args:
        build: function from `keras_tuner.HyperParameters` to a compiled `keras.Model`.
        data: `comet_keras.datasets.Dataset`, or the training, validation and (optionally) test data: each
            `(x, y)`, `(x, y, sample_weight)` or a `tf.data.Dataset`.
        objective: name of a figure of an epoch's validation, or a pair of it and `"min"` or `"max"` where the name
            does not tell. It is checked before the first trial. Default `"val_loss"`.
        trials, folder, tuner, seed, executions, overwrite, workers, listen, connect, verbose: see `search`.
        epochs: int, at most. Default 10.
        patience: int or None, epochs without a better objective before a training stops; the best epoch's
            weights are restored. Default None: no early stopping.
        batch_size: int, of data that is not in batches already. Default 32.
        callbacks: Keras callbacks, such as `HardenPermutation(3)`; each training gets copies.

    Returns:
        `SearchResults`.

    Raises:
        ValueError: as `search`; also if the model has no such objective.
        RuntimeError: if the first trials all failed with the same reason.

    Example:

    >>> import keras, numpy as np
    >>> from comet_keras.tuning import search_model
    >>> def build(hp):
    ...     model = keras.Sequential([keras.layers.Dense(hp.Int("units", 1, 8)), keras.layers.Dense(1)])
    ...     model.compile("adam", "mse")
    ...     return model
    >>> x = np.arange(12.0).reshape(6, 2)
    >>> results = search_model(build, [(x, x[:, 0]), (x, x[:, 1])], trials=2, epochs=1, verbose=0)
    >>> list(results.best().hyperparameters)
    ['units']
    """
    from comet_keras.tuning.model_hypermodel import ModelHyperModel

    hypermodel = ModelHyperModel(build, data, epochs, patience, batch_size, callbacks, seed)
    _set_objective(hypermodel, objective)
    description = {
        "task": "own model",
        "gate": hypermodel.name,
        "task_weights": {},
        "patience": patience,
        "batch_size": batch_size,
    }
    study = Study(folder, hypermodel, description, tuner, trials, seed, executions, epochs, verbose)
    return _run(study, overwrite, workers, listen, connect)


def _set_objective(hypermodel, objective):
    """Before the first trial, not after it: one step tells what figures the model has."""
    import keras
    import keras_tuner

    hp = keras_tuner.HyperParameters()
    check_objective(objective, hypermodel.probe(hypermodel.build(hp)))
    keras.utils.clear_session(free_memory=False)
    hypermodel.objective = make_objective(objective)


def _run(study, overwrite, workers, listen, connect):
    from comet_keras.tuning.workers import parse_address, role_of_environment, run_chief, run_worker, run_workers

    if listen and connect:
        raise ValueError("`listen` and `connect` exclude each other.")
    if not isinstance(workers, int) or workers < (0 if listen else 1):
        raise ValueError(f"`workers` must be an integer of at least 1, or 0 with `listen`. Received: {workers!r}")
    role, address = (None, None) if listen or connect else role_of_environment() or (None, None)
    try:
        if connect:
            run_workers(study, workers, parse_address(connect, "connect"))
        elif role == "worker":
            run_worker(study, os.environ["KERASTUNER_TUNER_ID"], address)
        elif listen or role == "chief" or workers > 1:
            address = parse_address(listen, "listen") if listen else address
            with study.open(overwrite), _without_role():
                study.check_hopeful(run_chief(study, 0 if role else workers, address))
        else:
            if overwrite or not study.has_ended():
                study.hypermodel.prepare()
            with study.open(overwrite):
                tuner = study.make_tuner()
                tuner.search()
                study.check_hopeful(tuner.oracle.journal)
    except KeyboardInterrupt:
        if study.verbose:
            print(
                f"\nThe search in {study.folder} was interrupted; the same command continues it.", flush=True
            )
        raise
    return SearchResults(study.folder, lambda trial_id: _load(study, trial_id))


def _load(study, trial_id):
    with _without_role():
        tuner = study.make_tuner()
        return tuner.load_model(tuner.oracle.get_trial(trial_id))


@contextlib.contextmanager
def _without_role():
    """Scope without KerasTuner's variables: a chief here serves by itself."""
    names = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")
    with contextlib.ExitStack() as stack:
        for name in names:
            if name in os.environ:
                stack.callback(os.environ.__setitem__, name, os.environ.pop(name))
        yield
