"""Unwatched pairs to set against the watched ones."""

import numpy as np


def per_user(users, movies, generator):
    """Draws for each user as many unwatched movies as the user has watched.

    The movies are drawn uniformly without replacement from all movies that
    anybody watched; a user who has watched more than half of them gets the rest.

    Args:
        users, movies: int arrays `(N,)`, distinct pairs.
        generator: `numpy.random.Generator`.

    Returns:
        `(users, movies)`, int64 arrays of distinct pairs, none of them watched.
    """
    catalogue, codes = np.unique(movies, return_inverse=True)
    order = np.lexsort((codes, users))
    distinct, starts = np.unique(users[order], return_index=True)
    drawn = [
        _draw_others(watched, len(catalogue), len(watched), generator)
        for watched in np.split(codes[order], starts[1:])
    ]
    return np.repeat(distinct, [len(some) for some in drawn]), catalogue[np.concatenate(drawn)]


def uniform(users, movies, generator):
    """Draws as many unwatched pairs as there are watched ones, uniformly from all of them.

    Users and movies are those with at least one watched pair. Arguments and
    returned values are those of `per_user`.
    """
    people, people_codes = np.unique(users, return_inverse=True)
    catalogue, codes = np.unique(movies, return_inverse=True)
    watched = np.sort(people_codes * len(catalogue) + codes)
    drawn = _draw_others(watched, len(people) * len(catalogue), len(watched), generator)
    return people[drawn // len(catalogue)], catalogue[drawn % len(catalogue)]


def _draw_others(taken, population, count, generator):
    """Draws up to `count` distinct numbers of `range(population)` that are not in sorted `taken`."""
    free = population - len(taken)
    ranks = generator.choice(free, min(count, free), replace=False, shuffle=False) if free else np.zeros(0, "int64")
    # taken[i] has taken[i] - i free numbers below it: so many of `taken` lie below the free number of a rank.
    return ranks + np.searchsorted(taken - np.arange(len(taken)), ranks, side="right")
