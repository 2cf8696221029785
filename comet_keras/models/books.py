"""The paper's multi-task model for Books."""

from comet_keras.models.recommender import recommender


def books(
    num_users=18_960,
    num_books=31_070,
    gate="comet+",
    num_experts=9,
    k=4,
    gamma=0.5,
    entropy_weight=10.0,
    embedding_size=64,
    expert_units=128,
    **options,
):
    """Read flag and rating of a user and a book: the shape of `movielens`, in the paper's sizes for Books.

    Source: COMET (Ibrahim et al., KDD 2023), sections S1.1 to S1.3, whose values are the defaults.
    `gamma` and `entropy_weight` are tuned there in 0.1 .. 10 and 1 .. 100. (Its Table 6 counts experts
    of 256 units.)

    Args:
        num_users, num_books: int, number of ids.
        gate: str, a gate string (see `make_gate`). Default `"comet+"`.
        num_experts: int, n. Default 9.
        k: int, experts a sample. Default 4.
        gamma: float > 0, width of the smooth step. Default 0.5, which the paper fixes for COMET+.
        entropy_weight: float >= 0, lambda of the gates' entropy. Default 10.
        embedding_size: int, of each of the two embeddings. Default 64.
        expert_units: int or sequence of ints, dense layers of an expert. Default 128.
        **options: `zeta`, `permutation_start`, `dropout`, `head_units` and `seed`, see `movielens`.

    Returns:
        A functional `keras.Model`, uncompiled: inputs `{"user": int (batch,), "book": int (batch,)}`,
        outputs `{"read": (batch, 1)` in 0..1, `"rating": (batch, 1)}`.

    Raises:
        ValueError: if there is no such gate, or an argument does not fit.

    Example:

    >>> from comet_keras import models
    >>> model = models.books(num_users=10, num_books=20, gate="topk")
    >>> sorted(model.output)
    ['rating', 'read']
    """
    sizes = {"user": num_users, "book": num_books}
    tasks = {"read": "binary", "rating": "regression"}
    shape = (gate, num_experts, k, gamma, entropy_weight, embedding_size, expert_units)
    return recommender("books", sizes, tasks, *shape, **options)
