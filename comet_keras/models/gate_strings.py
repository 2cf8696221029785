"""Gates by name, as models, searches and the command line write them."""

from comet_keras.validation import one_of

FAMILIES = ("softmax", "topk", "hash", "dselect_k", "comet")
GATES = (*FAMILIES, *(f"{family}+" for family in FAMILIES))
PAPER_TEMPERATURE = (1e-3, 1e-7)
PERMUTATION_STARTS = {
    "soft": {},
    "warm": {"temperature": PAPER_TEMPERATURE},
    "cold": {"temperature": PAPER_TEMPERATURE, "warm_start": False},
}


def split_gate(spec):
    """Returns `(family, permuted)` of a gate string, such as `("comet", True)` for `"comet+"`.

    Raises:
        ValueError: if there is no such gate; lists the choices.
    """
    if spec not in GATES:
        raise ValueError(f"`gate` must be one of {', '.join(GATES)}. Received: gate={spec!r}")
    return spec.removesuffix("+"), spec.endswith("+")


def wants_permutation(spec):
    """Whether a gate string asks for local search (a learned permutation of the experts).

    Example:

    >>> from comet_keras.models import wants_permutation
    >>> wants_permutation("comet+"), wants_permutation("comet")
    (True, False)
    """
    return split_gate(spec)[1]


def reads_ids(spec):
    """Whether the gate reads ids (hash routing) instead of features."""
    return split_gate(spec)[0] == "hash"


def make_gate(
    spec, num_experts, k=2, gamma=1.0, entropy_weight=0.0, num_ids=None, regularizers=(), seed=0, name=None
):
    """Returns the gate that a string names. The `+` is the mixture's affair, see `make_permutation`.

    Args:
        spec: str, one of `GATES`: `softmax topk hash dselect_k comet`, each also with `+`.
        num_experts: int, n.
        k: int, experts a sample; for topk, dselect_k and comet. Default 2.
        gamma: float > 0, width of the smooth step; for dselect_k and comet. Default 1.0.
        entropy_weight: float >= 0, lambda; for dselect_k and comet. Default 0.
        num_ids: int, number of ids; hash needs it.
        regularizers: further terms of `comet_keras.regularizers`.
        seed: int, of the hash table: gates of one seed send an id to the same expert. Default 0.
            Other gates draw by `keras.utils.set_random_seed`.
        name: str or None, of the layer.

    Returns:
        A `comet_keras.Gate`.

    Raises:
        ValueError: if there is no such gate, or hash is asked for without `num_ids`.

    Example:

    >>> from comet_keras.models import make_gate
    >>> make_gate("comet+", num_experts=8, k=2, gamma=0.1).gamma
    0.1
    """
    family, _ = split_gate(spec)
    # Imported here: the command line reads the names above without loading Keras.
    from comet_keras.gates import (
        COMETGate,
        DSelectKGate,
        HashGate,
        SoftmaxGate,
        TopKGate,
    )

    common = {"regularizers": regularizers, "name": name}
    smooth = {"k": k, "gamma": gamma, "entropy_weight": entropy_weight, **common}
    if family == "softmax":
        return SoftmaxGate(num_experts, **common)
    if family == "topk":
        return TopKGate(num_experts, k=k, **common)
    if family == "dselect_k":
        return DSelectKGate(num_experts, **smooth)
    if family == "comet":
        return COMETGate(num_experts, **smooth)
    if num_ids is None:
        raise ValueError(f"gate={spec!r} routes by id and needs `num_ids`, the number of ids.")
    return HashGate(num_experts, num_ids=num_ids, seed=seed, **common)


def make_permutation(spec, num_experts, zeta=1e-4, permutation_start="soft", name="permutation"):
    """Returns the `Permutation` of a gate string with `+`, and None for one without.

    Args:
        spec: str, one of `GATES`.
        num_experts: int, n.
        zeta: float >= 0, weight of the permutation's entropy. Default 1e-4 (COMET, KDD 2023, S1.3).
        permutation_start: str, how the first stage of local search starts. `"soft"` (default): with every expert
            at every place, by `Permutation`'s own temperatures. `"warm"`: by the paper's, which are nearly hard
            from the first step. `"cold"`: the paper's, with its Sinkhorn rounds from nothing at each step.
            `docs/results.md` compares them.
        name: str, of the layer.

    Raises:
        ValueError: if there is no such gate or start; lists the choices.

    Example:

    >>> from comet_keras.models import make_permutation
    >>> make_permutation("topk", 8) is None, make_permutation("topk+", 8).num_experts
    (True, 8)
    """
    options = PERMUTATION_STARTS[one_of("permutation_start", permutation_start, tuple(PERMUTATION_STARTS))]
    if not wants_permutation(spec):
        return None
    from comet_keras.permutation import Permutation

    return Permutation(num_experts, entropy_weight=zeta, name=name, **options)
