"""The figure that a search looks for the best of."""

import re
from dataclasses import dataclass

# By the last words of a name, as Keras names its metrics and losses.
LARGER_IS_BETTER = ("acc", "accuracy", "auc", "precision", "recall", "f1", "f1_score", "fbeta_score", "r2_score",
                    "iou", "mean_io_u", "sensitivity", "specificity", "cosine_similarity")  # fmt: skip
SMALLER_IS_BETTER = ("loss", "error", "mse", "mae", "rmse", "mape", "msle", "crossentropy", "entropy", "divergence",
                     "hinge", "poisson", "log_cosh", "experts_per_sample")  # fmt: skip


@dataclass(frozen=True)
class Objective:
    """Name of a figure of an epoch, and whether `"min"` or `"max"` of it is best.

    Example:

    >>> from comet_keras.tuning.objectives import make_objective
    >>> make_objective("val_watch_auc").direction
    'max'
    """

    name: str
    direction: str

    def better(self, score, than):
        """Whether a score is better than another, which may be None."""
        if than is None:
            return True
        return score > than if self.direction == "max" else score < than

    def best_of(self, values):
        """Index of the best value; the first of equal ones."""
        return values.index((max if self.direction == "max" else min)(values))

    def to_dict(self):
        return {"name": self.name, "direction": self.direction}


def make_objective(objective):
    """Returns the `Objective` of a name, whose direction is inferred, or of a name and direction.

    Args:
        objective: str such as `"val_loss"`, a pair such as `("val_gain", "max")`, or an object with `name`
            and `direction`, such as a `keras_tuner.Objective`.

    Raises:
        ValueError: if the direction cannot be inferred, or is neither `"min"` nor `"max"`.
    """
    if isinstance(objective, str):
        return Objective(objective, _infer_direction(objective))
    if isinstance(objective, (tuple, list)) and len(objective) == 2:
        name, direction = objective
    else:
        name, direction = getattr(objective, "name", None), getattr(objective, "direction", None)
    if not isinstance(name, str) or direction not in ("min", "max"):
        raise ValueError(
            "`objective` must be a name or a pair of a name and 'min' or 'max'. "
            f"Received: objective={objective!r}"
        )
    return Objective(name, direction)


def check_objective(objective, names):
    """Raises ValueError if an objective is none of the names that a model reports; lists them."""
    name = objective if isinstance(objective, str) else make_objective(objective).name
    if name not in names:
        raise ValueError(f"`objective` must be one of {', '.join(sorted(names))}. Received: objective={name!r}")


def _infer_direction(name):
    words = re.sub(r"_\d+$", "", name.removeprefix("val_"))  # Keras numbers metrics of the same name
    for direction, endings in (("max", LARGER_IS_BETTER), ("min", SMALLER_IS_BETTER)):
        if any(words == ending or words.endswith(f"_{ending}") for ending in endings):
            return direction
    raise ValueError(
        f"Whether a larger or a smaller {name!r} is better cannot be told from its name. Give "
        f"objective=({name!r}, 'max') or ({name!r}, 'min')."
    )
