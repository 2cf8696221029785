"""Arguments and checks that reports share."""

import json
from pathlib import Path

from comet_keras.models.settings import TASKS


def add_folders(parser, nargs="+"):
    """The argument FOLDER..., searches to report on."""
    parser.add_argument("folders", help="folder of a search, one a gate", nargs=nargs, metavar="FOLDER")


def add_fraction(parser):
    """The argument --fraction, of trials that count."""
    parser.add_argument(
        "--fraction",
        help="share of the trials that count, the best by validation loss (default: 0.05)",
        type=float,
        default=0.05,
        metavar="SHARE",
    )


def add_model(parser, example):
    """The arguments MODEL, --task, --data-dir and --seed: a saved model and the data set of its test rows."""
    parser.add_argument("model", help=f"saved model, such as {example}", metavar="MODEL")
    parser.add_argument(
        "--task",
        help=f"data set whose test rows are routed: {', '.join(TASKS)}",
        choices=TASKS,
        required=True,
        metavar="TASK",
    )
    parser.add_argument(
        "--data-dir", help="folder of the data set's files; see: comet-keras data info TASK", metavar="DIR"
    )
    parser.add_argument(
        "--seed",
        help="of the data's draws and splits (default: that of the results.json beside MODEL, else 0)",
        type=int,
        metavar="N",
    )


def check_file(argument, path):
    """Refuses a file that is not there."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{argument}: there is no file {str(path)!r}.")


def check_folder_of(argument, path):
    """Refuses an output file, if one is asked for, whose folder is not there."""
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"{argument}: there is no folder {str(Path(path).parent)!r}.")


def check_figure(argument, path):
    """Refuses a figure, if one is asked for, that cannot be written."""
    check_folder_of(argument, path)
    if path is not None:
        from matplotlib.backend_bases import FigureCanvasBase

        kinds = FigureCanvasBase.get_supported_filetypes()
        if Path(path).suffix.removeprefix(".").lower() not in kinds:
            raise ValueError(f"{argument} must end with a kind of figure, such as .png or .pdf. Received: {path!r}")


def load_model_and_test(arguments):
    """The saved model of an argument MODEL, and the data set of --task, which must fit it."""
    # After the quick checks, since these load Keras.
    import keras

    from comet_keras.train import TrainingConfig, load_dataset

    model = keras.saving.load_model(arguments.model, compile=False)
    settings = _training_settings(arguments)
    dataset = load_dataset(TrainingConfig(arguments.task, data_dir=arguments.data_dir, **settings))
    _check_inputs(model, dataset.test.input_shapes, arguments.task)
    return model, dataset


def _training_settings(arguments):
    """What decides which rows are test rows, as far as the training of the model has left it: with another seed
    they would be rows that the model was trained on."""
    results = Path(arguments.model).with_name("results.json")
    config = json.loads(results.read_text()).get("config", {}) if results.is_file() else {}
    settings = {name: config[name] for name in ("seed", "rows") if config.get("task") == arguments.task}
    return settings if arguments.seed is None else {**settings, "seed": arguments.seed}


def _check_inputs(model, features, task):
    """Refuses a model that takes other inputs than the task has."""
    names = [x.name for x in model.inputs]
    if sorted(names) != sorted(features):
        raise ValueError(
            f"MODEL: --task {task} has the features {', '.join(sorted(features))}, but the model takes "
            f"{', '.join(sorted(names))}."
        )
