import math
from dataclasses import asdict, dataclass, fields

from comet_keras.models.gate_strings import PERMUTATION_STARTS, reads_ids, split_gate
from comet_keras.models.losses import check_task_weights
from comet_keras.models.settings import SETTINGS, TASKS
from comet_keras.validation import one_of


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides a training run; checked when it is made.

    None stands for the task's own default (`comet_keras.models.settings`: the paper's values for
    its data set), but for `patience`, `rows` and `output_dir`.

    Args:
        task: str, one of `comet_keras.models.settings.TASKS`.
        gate: str, one of `comet_keras.models.GATES`. Default `"comet+"`.
        num_experts: int >= 1, n.
        k: int, 1 <= k <= n, experts a sample; without effect for softmax and hash.
        gamma: float > 0, width of the smooth step; for comet and dselect_k.
        entropy_weight: float >= 0, lambda; for comet and dselect_k.
        permutation_epochs: int >= 1, length of the first stage; for gates with `+`.
        zeta: float >= 0, weight of the permutation's entropy. Default 1e-4 (COMET, KDD 2023, S1.3).
        permutation_start: "soft" (default), "warm" or "cold", how the first stage of local search starts, see
            `comet_keras.models.make_permutation`.
        learning_rate: float > 0, of Adam.
        batch_size: int >= 1.
        epochs: int >= 1, at most.
        patience: int >= 1 or None, epochs without a better validation loss before training stops; the
            best epoch's weights are restored. None: no early stopping, the last weights. Default 25
            (S1.3).
        task_weights: dict from task name to weight, of the losses' sum.
        rows: int or None, training rows. None: all of them.
        data_dir: str, path or None, folder of the data set's files. None: tensorflow-datasets, or nothing
            for multi_digits. See `comet_keras.datasets.DATASETS`.
        seed: int >= 0, of data, initial weights and shuffling. Default 0.
        output_dir: str, path or None, where `model.keras` and `results.json` are written. None: nowhere.

    Raises:
        ValueError: if an argument is not allowed; names it, its value and what is allowed.

    Example:

    >>> from comet_keras.train import TrainingConfig
    >>> config = TrainingConfig("movielens", gate="comet", learning_rate=1e-4)
    >>> config.num_experts, config.task_weights
    (16, {'watch': 0.9, 'rating': 0.1})
    """

    task: str = "multi_digits"
    gate: str = "comet+"
    num_experts: int | None = None
    k: int | None = None
    gamma: float | None = None
    entropy_weight: float | None = None
    permutation_epochs: int | None = None
    zeta: float = 1e-4
    permutation_start: str = "soft"
    learning_rate: float | None = None
    batch_size: int | None = None
    epochs: int | None = None
    patience: int | None = 25
    task_weights: dict | None = None
    rows: int | None = None
    data_dir: str | None = None
    seed: int = 0
    output_dir: str | None = None

    def __post_init__(self):
        settings = SETTINGS[one_of("task", self.task, TASKS)]
        for field in fields(self):
            if getattr(self, field.name) is None and hasattr(settings, field.name):
                object.__setattr__(self, field.name, getattr(settings, field.name))
        for name in ("num_experts", "k", "permutation_epochs", "batch_size", "epochs"):
            self._check_int(name, 1)
        for name in ("patience", "rows"):
            if getattr(self, name) is not None:
                self._check_int(name, 1)
        self._check_int("seed", 0)
        one_of("permutation_start", self.permutation_start, tuple(PERMUTATION_STARTS))
        self._check_float("gamma", "above 0", lambda value: value > 0)
        self._check_float("learning_rate", "above 0", lambda value: value > 0)
        self._check_float("entropy_weight", "of at least 0", lambda value: value >= 0)
        self._check_float("zeta", "of at least 0", lambda value: value >= 0)
        for name in ("data_dir", "output_dir"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, str(getattr(self, name)))
        self._check_gate(settings)
        weights = check_task_weights(self.task_weights, settings.task_weights)
        object.__setattr__(self, "task_weights", weights)

    def _check_int(self, name, least):
        value = getattr(self, name)
        number = not isinstance(value, (bool, str)) and isinstance(value, (int, float)) or hasattr(value, "item")
        if not number or value != value or abs(value) == math.inf or int(value) != value or value < least:
            raise ValueError(f"`{name}` must be an integer of at least {least}. Received: {name}={value!r}")
        object.__setattr__(self, name, int(value))

    def _check_float(self, name, allowed, fits):
        value = getattr(self, name)
        number = not isinstance(value, (bool, str)) and isinstance(value, (int, float)) or hasattr(value, "item")
        if not number or not math.isfinite(value) or not fits(value):
            raise ValueError(f"`{name}` must be a finite number {allowed}. Received: {name}={value!r}")
        object.__setattr__(self, name, float(value))

    def _check_gate(self, settings):
        family, _ = split_gate(self.gate)
        if reads_ids(self.gate) and not settings.has_ids:
            raise ValueError(f"gate={self.gate!r} routes by id, and task={self.task!r} has no ids.")
        if family == "topk" and self.k > self.num_experts:
            raise ValueError(
                f"`k` must be at most `num_experts`. Received: k={self.k}, num_experts={self.num_experts}"
            )

    def to_dict(self):
        """The fields as a dict of plain JSON values; `TrainingConfig(**d)` makes the same again."""
        return asdict(self)
