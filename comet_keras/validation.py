"""Checks of arguments, so that errors speak the user's words."""


def positive_int(name, value):
    """Returns `value` as int, or raises ValueError naming the argument."""
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"`{name}` must be an integer of at least 1. Received: {name}={value!r}")
    return int(value)


def positive_float(name, value):
    """Returns `value` as float, or raises ValueError naming the argument."""
    if isinstance(value, bool) or not float(value) > 0:
        raise ValueError(f"`{name}` must be a number above 0. Received: {name}={value!r}")
    return float(value)


def one_of(name, value, allowed):
    """Returns `value`, or raises ValueError listing what is allowed."""
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"`{name}` must be one of {choices}. Received: {name}={value!r}")
    return value
