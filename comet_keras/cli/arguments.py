"""What the commands share."""

INTERRUPTED = 130  # exit code


class BadArguments(Exception):
    """What the user asked for cannot be done; the message says why."""


def parse_weights(pairs):
    """Dict of `NAME=WEIGHT` strings.

    Raises:
        BadArguments: if one is malformed, or a name comes twice.

    Example:

    >>> from comet_keras.cli.arguments import parse_weights
    >>> parse_weights(["watch=0.9", "rating=0.1"])
    {'watch': 0.9, 'rating': 0.1}
    """
    weights = {}
    for pair in pairs:
        name, _, weight = pair.partition("=")
        if name in weights:
            raise BadArguments(f"--task-weights gives {name!r} more than once.")
        try:
            weights[name] = float(weight)
        except ValueError:
            raise BadArguments(f"--task-weights takes NAME=WEIGHT, such as watch=0.9. Received: {pair!r}") from None
    return weights
