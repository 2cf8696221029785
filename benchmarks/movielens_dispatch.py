"""A real training run, every expert on every row against each on its own rows.

    python benchmarks/movielens_dispatch.py --data-dir DIR [--rows 200000] [--epochs 10] [--seed 0] [--output FILE.png]

The paper's MovieLens model with COMET gates, trained twice from one seed: `dispatch="dense"` and the default
`"auto"`, which finds by itself when the trees have become hard. Their losses agree to rounding, which training
amplifies. Prints a line an epoch, and draws losses, seconds and experts a row.
"""

import argparse
import time
from pathlib import Path

import keras

from comet_keras.reports import save_figure, text_table
from comet_keras.train import TrainingConfig, load_dataset, train

SETTINGS = {"batch_size": 512, "learning_rate": 2.5e-5, "num_experts": 16, "k": 2, "gamma": 0.01}


class Run(keras.callbacks.Callback):
    """Sets the dispatch and notes what each epoch took and used."""

    def __init__(self, dispatch):
        super().__init__()
        self.dispatch, self.epochs = dispatch, []

    def on_train_begin(self, logs=None):
        self.model.get_layer("mixture").dispatch = self.dispatch

    def on_epoch_begin(self, epoch, logs=None):
        self.started = time.perf_counter()

    def on_test_begin(self, logs=None):
        self.seconds = time.perf_counter() - self.started

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append({**logs, "seconds": self.seconds})
        print(f"{self.dispatch}: epoch {epoch + 1}, {self.seconds:.1f} s, loss {logs['loss']:.4f}", flush=True)


def experts_per_row(epoch):
    values = [v for key, v in epoch.items() if "experts_per_sample" in key and "val_" not in key]
    return sum(values) / len(values)


def draw(runs, k):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.3), layout="constrained")
    panels = figure.subplots(1, 3)
    # the first line is broad, so that it shows where the second one lies on it
    for (name, run), color, width in zip(runs.items(), ("#E69F00", "#0072B2"), (5, 1.5)):
        epochs = range(1, len(run.epochs) + 1)
        style = {"color": color, "label": name, "linewidth": width, "marker": "o", "markersize": width + 2}
        panels[0].plot(epochs, [e["val_loss"] for e in run.epochs], **style)
        panels[1].plot(epochs, [e["seconds"] for e in run.epochs], **style)
        panels[2].plot(epochs, [experts_per_row(e) for e in run.epochs], **style)
    panels[2].axhline(k, color="0.5", linestyle=":", label=f"k = {k}")
    hard = next((i for i, e in enumerate(run.epochs, 1) if experts_per_row(e) < k + 0.5), None)
    for panel, title in zip(panels, ("validation loss", "training seconds an epoch", "experts a row and task")):
        panel.set(xlabel="epoch", ylabel=title)
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(alpha=0.25, linewidth=0.5)
        if hard:
            panel.axvline(hard, color="0.5", linestyle="--", linewidth=1)
    panels[1].set_ylim(bottom=0)
    panels[2].legend(frameon=False)
    if hard:
        panels[0].annotate(
            "trees hard", (hard, 1), (4, -4), xycoords=("data", "axes fraction"), textcoords="offset points", va="top",
            color="0.35", fontsize=8,
        )  # fmt: skip
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="runs/movielens_dispatch.png")
    arguments = parser.parse_args()
    config = TrainingConfig(
        "movielens",
        gate="comet",
        data_dir=arguments.data_dir,
        rows=arguments.rows,
        epochs=arguments.epochs,
        seed=arguments.seed,
        entropy_weight=1.0,
        patience=None,
        **SETTINGS,
    )
    data = load_dataset(config)
    runs, rows = {}, []
    for dispatch in ("dense", "auto"):
        run = runs[dispatch] = Run(dispatch)
        result = train(config, data, verbose=0, callbacks=[run])
        for i, epoch in enumerate(run.epochs):  # with what the routing monitor added
            epoch.update({name: values[i] for name, values in result.history.items()})
        seconds = [epoch["seconds"] for epoch in run.epochs]
        rows.append(
            [dispatch, f"{result.test['loss']:.4f}", f"{sum(seconds):.0f}", f"{seconds[0]:.1f}"]
            + [f"{sorted(seconds[1:])[0]:.1f}", f"{experts_per_row(run.epochs[-1]):.2f}"]
        )
    headers = ["dispatch", "test loss", "seconds", "first epoch", "best epoch", "experts a row and task"]
    print(text_table(rows, headers))
    Path(arguments.output).parent.mkdir(parents=True, exist_ok=True)
    save_figure(draw(runs, config.k), arguments.output)
    print(f"figure: {arguments.output}")


if __name__ == "__main__":
    main()
