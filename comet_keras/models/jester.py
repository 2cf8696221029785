"""The paper's multi-task model for Jester."""

from comet_keras.models.recommender import recommender


def jester(
    num_users=73_421,
    num_jokes=100,
    gate="comet+",
    num_experts=16,
    k=2,
    gamma=0.01,
    entropy_weight=0.1,
    embedding_size=64,
    expert_units=128,
    **options,
):
    """Rate flag and rating of a user and a joke: the shape of `movielens`, in the paper's sizes for Jester.

    Source: COMET (Ibrahim et al., KDD 2023), sections S1.1 to S1.3, whose values are the defaults.
    `gamma` and `entropy_weight` are tuned there in 0.001 .. 10 and 0.05 .. 10.

    Args:
        num_users, num_jokes: int, number of ids.
        gate: str, a gate string (see `make_gate`). Default `"comet+"`.
        num_experts: int, n. Default 16.
        k: int, experts a sample. Default 2.
        gamma: float > 0, width of the smooth step. Default 0.01, which the paper fixes for COMET+.
        entropy_weight: float >= 0, lambda of the gates' entropy. Default 0.1.
        embedding_size: int, of each of the two embeddings. Default 64.
        expert_units: int or sequence of ints, dense layers of an expert. Default 128.
        **options: `zeta`, `permutation_start`, `dropout`, `head_units` and `seed`, see `movielens`.

    Returns:
        A functional `keras.Model`, uncompiled: inputs `{"user": int (batch,), "joke": int (batch,)}`,
        outputs `{"rate": (batch, 1)` in 0..1, `"rating": (batch, 1)}`.

    Raises:
        ValueError: if there is no such gate, or an argument does not fit.

    Example:

    >>> from comet_keras import models
    >>> model = models.jester(num_users=10, num_jokes=20, gate="topk")
    >>> model.count_params() > 16 * 128 * 128
    True
    """
    sizes = {"user": num_users, "joke": num_jokes}
    tasks = {"rate": "binary", "rating": "regression"}
    shape = (gate, num_experts, k, gamma, entropy_weight, embedding_size, expert_units)
    return recommender("jester", sizes, tasks, *shape, **options)
