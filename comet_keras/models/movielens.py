"""The paper's multi-task model for MovieLens."""

from comet_keras.models.recommender import recommender


def movielens(
    num_users=6040,
    num_movies=3952,
    gate="comet+",
    num_experts=16,
    k=2,
    gamma=10.0,
    entropy_weight=0.1,
    zeta=1e-4,
    permutation_start="soft",
    embedding_size=128,
    expert_units=256,
    dropout=0.5,
    head_units=256,
    seed=0,
):
    """Watch flag and rating of a user and a movie by a mixture of experts with a gate a task.

    Both embeddings, concatenated, feed the experts (dense, ReLU, then dropout) and the gates; hash
    gates read the user id instead. Each task's combination of the experts feeds a head: dense, ReLU,
    then one unit. Source: COMET (Ibrahim et al., KDD 2023), sections S1.2 and S1.3, whose values are
    the defaults; `gamma` and `entropy_weight` are tuned there in 0.01 .. 10 and 0.05 .. 10.

    Args:
        num_users, num_movies: int, number of ids; those of ML-1M by default.
        gate: str, a gate string (see `make_gate`). Default `"comet+"`.
        num_experts: int, n. Default 16.
        k: int, experts a sample. Default 2.
        gamma: float > 0, width of the smooth step. Default 10, which the paper fixes for COMET+.
        entropy_weight: float >= 0, lambda of the gates' entropy. Default 0.1.
        zeta: float >= 0, of the permutation's entropy. Default 1e-4.
        permutation_start: "soft" (default), "warm" or "cold", see `make_permutation`.
        embedding_size: int, of each of the two embeddings. Default 128.
        expert_units: int or sequence of ints, dense layers of an expert. Default 256.
        dropout: float, after each expert layer. Default 0.5.
        head_units: int, of each head's dense layer. Default 256.
        seed: int, of the hash table, which both tasks share.

    Returns:
        A functional `keras.Model`, uncompiled: inputs `{"user": int (batch,), "movie": int (batch,)}`,
        outputs `{"watch": (batch, 1)` in 0..1, `"rating": (batch, 1)}`.

    Raises:
        ValueError: if there is no such gate, or an argument does not fit.

    Example:

    >>> import numpy as np
    >>> from comet_keras import models
    >>> model = models.movielens(num_users=10, num_movies=20, gate="topk")
    >>> prediction = model.predict({"user": np.array([1, 9]), "movie": np.array([3, 19])}, verbose=0)
    >>> prediction["watch"].shape
    (2, 1)
    """
    return recommender(
        "movielens",
        {"user": num_users, "movie": num_movies},
        {"watch": "binary", "rating": "regression"},
        gate,
        num_experts,
        k,
        gamma,
        entropy_weight,
        embedding_size,
        expert_units,
        zeta,
        permutation_start,
        dropout,
        head_units,
        seed,
    )
