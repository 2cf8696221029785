"""The spaces that searches draw from, as data: one for each task and gate."""

import math
import numbers
from dataclasses import dataclass

from comet_keras.models.gate_strings import split_gate, wants_permutation
from comet_keras.validation import one_of


@dataclass(frozen=True)
class LogUniform:
    """A number whose logarithm is uniform between two bounds.

    Raises:
        ValueError: unless `0 < low < high`.

    Example:

    >>> from comet_keras.tuning import LogUniform
    >>> LogUniform(5e-5, 5e-4).values
    (5e-05, 0.0005)
    """

    low: float
    high: float

    def __post_init__(self):
        if not (_is_number(self.low) and _is_number(self.high) and 0 < self.low < self.high < math.inf):
            raise ValueError(f"LogUniform needs 0 < low < high. Received: low={self.low!r}, high={self.high!r}")

    @property
    def values(self):
        """Values to check a space with, a tuple: the bounds."""
        return float(self.low), float(self.high)

    def declare(self, hp, name):
        """Declares the parameter to KerasTuner's `hp` and returns its value."""
        return hp.Float(name, float(self.low), float(self.high), sampling="log")

    def to_dict(self):
        return {"log_uniform": list(self.values)}


@dataclass(frozen=True)
class Choice:
    """One of several values, each with the same probability.

    Raises:
        ValueError: if there is no value, a value occurs twice, or not all are numbers, or strings, or bools.

    Example:

    >>> from comet_keras.tuning import Choice
    >>> Choice([0.01, 1, 10]).values
    (0.01, 1.0, 10.0)
    """

    values: tuple

    def __post_init__(self):
        if isinstance(self.values, (str, numbers.Number)) or not len(tuple(self.values)):
            raise ValueError(f"Choice needs a list of values. Received: values={self.values!r}")
        object.__setattr__(self, "values", _of_one_type(tuple(self.values)))
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"Choice needs different values. Received: values={self.values!r}")

    def declare(self, hp, name):
        """Declares the parameter to KerasTuner's `hp` and returns its value."""
        return hp.Choice(name, list(self.values))

    def to_dict(self):
        return {"choice": list(self.values)}


@dataclass(frozen=True)
class Fixed:
    """The same value in every trial.

    Example:

    >>> from comet_keras.tuning import Fixed
    >>> Fixed(16).values
    (16,)
    """

    value: object

    @property
    def values(self):
        """The value, as a tuple."""
        return (self.value,)

    def declare(self, hp, name):
        """Declares the parameter to KerasTuner's `hp` and returns its value."""
        return hp.Fixed(name, self.value)

    def to_dict(self):
        return {"fixed": self.value}


@dataclass(frozen=True)
class _Ranges:
    """Section S1.3 for one task."""

    learning_rate: tuple
    gamma: tuple
    comet_plus_gamma: float
    entropy_weight: tuple
    num_experts: int
    k: int
    batch_size: int
    permutation_epochs: tuple = tuple(range(1, 11))
    zeta: float = 1e-4


# COMET (Ibrahim et al., KDD 2023), section S1.3. Its public configurations differ in places; the paper is
# followed: gamma of COMET+ on Books, batches of MultiFashionMNIST, and a uniform first stage of 1..10
# epochs. It contradicts itself on MultiFashionMNIST's experts, 6 here and 5 in S1.2 and its
# configuration: 5. CelebA's 6 experts are from S1.2.
_RANGES = {
    "movielens": _Ranges(
        learning_rate=(5e-5, 5e-4),
        gamma=(0.01, 0.1, 1, 5, 10),
        comet_plus_gamma=10,
        entropy_weight=(0.05, 0.1, 0.5, 1, 5, 10),
        num_experts=16,
        k=2,
        batch_size=512,
    ),
    "books": _Ranges(
        learning_rate=(5e-5, 5e-4),
        gamma=(0.1, 0.5, 1, 5, 10),
        comet_plus_gamma=0.5,
        entropy_weight=(1, 5, 10, 50, 100),
        num_experts=9,
        k=4,
        batch_size=2048,
    ),
    "jester": _Ranges(
        learning_rate=(5e-5, 5e-4),
        gamma=(0.001, 0.02, 0.1, 1, 5, 10),
        comet_plus_gamma=0.01,
        entropy_weight=(0.05, 0.1, 0.5, 1, 5, 10),
        num_experts=16,
        k=2,
        batch_size=2048,
    ),
    "digits": _Ranges(
        learning_rate=(1e-5, 5e-4),
        gamma=(0.001, 0.01, 0.1, 1),
        comet_plus_gamma=0.001,
        entropy_weight=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5),
        num_experts=8,
        k=2,
        batch_size=512,
    ),
    "multi_mnist": _Ranges(
        learning_rate=(1e-4, 1e-3),
        gamma=(0.001, 0.01, 0.1, 1, 5, 10),
        comet_plus_gamma=0.01,
        entropy_weight=(0.0001, 0.001, 0.01, 0.1, 1, 5, 10),
        num_experts=16,
        k=4,
        batch_size=512,
    ),
    "multi_fashion_mnist": _Ranges(
        learning_rate=(1e-4, 1e-3),
        gamma=(0.001, 0.01, 0.1, 1, 5),
        comet_plus_gamma=0.01,
        entropy_weight=(0.001, 0.01, 0.1, 1, 5),
        num_experts=5,
        k=2,
        batch_size=512,
    ),
    "celeb_a": _Ranges(
        learning_rate=(1e-4, 1e-3),
        gamma=(0.001, 0.01, 0.1, 1, 5),
        comet_plus_gamma=5,
        entropy_weight=(0.001, 0.01, 0.1, 1, 5),
        num_experts=6,
        k=2,
        batch_size=512,
    ),
    # Not in the paper: around this task's defaults (`comet_keras.models.settings`).
    "multi_digits": _Ranges(
        learning_rate=(5e-4, 5e-3),
        gamma=(0.01, 0.1, 1, 5),
        comet_plus_gamma=1,
        entropy_weight=(0.01, 0.05, 0.1, 0.5),
        num_experts=8,
        k=2,
        batch_size=128,
        permutation_epochs=(1, 2, 3, 4, 5),
    ),
}
SPACE_TASKS = tuple(_RANGES)


def space(task, gate):
    """The space of a task and gate, that of the COMET paper (KDD 2023, S1.3) for its data sets.

    It holds what the gate uses, fixed values too: only dselect_k and comet have `gamma` and
    `entropy_weight`, topk has `k`, and gates with `+` have `permutation_epochs` and `zeta`. The width
    gamma is fixed for `comet+`, as in the paper. For gates with `+` that are not in the paper
    (`softmax+`, `dselect_k+`): what the gate has without it, and the paper's first stage.

    Args:
        task: str, one of `SPACE_TASKS`.
        gate: str, one of `comet_keras.models.GATES`.

    Returns:
        dict from a name of `TrainingConfig` to `LogUniform`, `Choice` or `Fixed`.

    Raises:
        ValueError: if there is no such task or gate.

    Example:

    >>> from comet_keras.tuning import space
    >>> for name, parameter in space("multi_mnist", "comet").items():
    ...     print(name, parameter)
    learning_rate LogUniform(low=0.0001, high=0.001)
    gamma Choice(values=(0.001, 0.01, 0.1, 1.0, 5.0, 10.0))
    entropy_weight Choice(values=(0.0001, 0.001, 0.01, 0.1, 1.0, 5.0, 10.0))
    batch_size Fixed(value=512)
    num_experts Fixed(value=16)
    k Fixed(value=4)
    """
    ranges = _RANGES[one_of("task", task, SPACE_TASKS)]
    family, _ = split_gate(gate)
    parameters = {"learning_rate": LogUniform(*ranges.learning_rate)}
    if family in ("dselect_k", "comet"):
        parameters["gamma"] = Fixed(float(ranges.comet_plus_gamma)) if gate == "comet+" else Choice(ranges.gamma)
        parameters["entropy_weight"] = Choice(ranges.entropy_weight)
    if wants_permutation(gate):
        parameters["permutation_epochs"] = Choice(ranges.permutation_epochs)
    parameters["batch_size"] = Fixed(ranges.batch_size)
    parameters["num_experts"] = Fixed(ranges.num_experts)
    if family in ("topk", "dselect_k", "comet"):
        parameters["k"] = Fixed(ranges.k)
    if wants_permutation(gate):
        parameters["zeta"] = Fixed(ranges.zeta)
    return parameters


def check_space(parameters, config):
    """Raises ValueError where a space does not fit a training, before any trial.

    Args:
        parameters: dict from name to `LogUniform`, `Choice` or `Fixed`.
        config: `TrainingConfig` of the search; every value must be allowed in it.
    """
    from dataclasses import fields, replace

    own = ("task", "gate", "epochs", "patience", "task_weights", "rows", "data_dir", "seed", "output_dir")
    allowed = [field.name for field in fields(config) if field.name not in own]
    if not isinstance(parameters, dict) or not parameters:
        raise ValueError(f"`space` must be a dict of parameters. Received: space={parameters!r}")
    for name, parameter in parameters.items():
        one_of("space's name", name, allowed)
        if not isinstance(parameter, (LogUniform, Choice, Fixed)):
            raise ValueError(f"`space[{name!r}]` must be a LogUniform, Choice or Fixed. Received: {parameter!r}")
    # All that is fixed at once, since `k` and `num_experts` limit each other.
    fixed = {name: parameter.value for name, parameter in parameters.items() if isinstance(parameter, Fixed)}
    config = replace(config, **fixed)
    for name, parameter in parameters.items():
        for value in parameter.values:
            replace(config, **{name: value})


def _of_one_type(values):
    if all(isinstance(value, bool) for value in values) or all(isinstance(value, str) for value in values):
        return values
    if not all(_is_number(value) for value in values):
        raise ValueError(f"Choice needs numbers, or strings, or bools. Received: values={values!r}")
    return tuple((int if all(int(value) == value for value in values) else float)(value) for value in values)


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
