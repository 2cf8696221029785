"""Paired timing: every candidate runs once a round and is compared within the round.

Other work on a machine slows all candidates of a round alike, so that ratios hold where seconds do not.
"""

import sys
import time

import numpy as np


def paired_times(candidates, rounds, label=""):
    """Seconds of every candidate in every round.

    Args:
        candidates: dict from name to a function without arguments, warmed up by the caller.
        rounds: int.
        label: str, shown with the progress.

    Returns:
        Dict from name to an array `(rounds,)` of seconds.
    """
    times = {name: np.zeros(rounds) for name in candidates}
    names = list(candidates)
    for i in range(rounds):
        # A new order each round: none always follows the same neighbour.
        for name in np.random.default_rng(i).permutation(names):
            start = time.perf_counter()
            candidates[name]()
            times[name][i] = time.perf_counter() - start
        print(f"\r{label} {i + 1}/{rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return times


def ratio(times, name, baseline):
    """Median of the rounds' ratios of `name` to `baseline`."""
    return float(np.median(times[name] / times[baseline]))
