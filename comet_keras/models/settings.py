"""Training settings by task, from the paper where it gives them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskSettings:
    """What a training run of one task starts from; each value can be set for a run."""

    num_experts: int
    k: int
    gamma: float
    entropy_weight: float
    learning_rate: float
    batch_size: int
    epochs: int
    permutation_epochs: int
    task_weights: dict
    needs_data_dir: bool = False
    has_ids: bool = False


SETTINGS = {
    # COMET (Ibrahim et al., KDD 2023), section S1.3. Where it tunes over a range: the middle of the
    # range on a log scale for the learning rate (5e-5 .. 5e-4), a value within it for lambda
    # (0.05 .. 10) and for the first stage (1 .. 10 epochs). Task weights: alpha = 0.9, section 5.1.
    "movielens": TaskSettings(
        num_experts=16,
        k=2,
        gamma=10.0,
        entropy_weight=0.1,
        learning_rate=1.6e-4,
        batch_size=512,
        epochs=100,
        permutation_epochs=5,
        task_weights={"watch": 0.9, "rating": 0.1},
        needs_data_dir=True,
        has_ids=True,
    ),
    # A small data set: smaller batches and larger steps than the paper's MultiMNIST (512; up to 1e-3),
    # so that ten epochs do. Within its ranges: gamma, lambda and the first stage.
    "multi_digits": TaskSettings(
        num_experts=8,
        k=2,
        gamma=1.0,
        entropy_weight=0.05,
        learning_rate=2e-3,
        batch_size=128,
        epochs=30,
        permutation_epochs=3,
        task_weights={"top_left": 0.5, "bottom_right": 0.5},
    ),
}
TASKS = tuple(SETTINGS)
