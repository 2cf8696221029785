"""Checks of arguments, so that errors speak the user's words."""

import math
import numbers


def positive_int(name, value):
    """Returns `value` as int, or raises ValueError naming the argument."""
    number = _as_number(value)
    if number is None or number != int(number) or number < 1:
        raise ValueError(f"`{name}` must be an integer of at least 1. Received: {name}={value!r}")
    return int(value)


def non_negative_int(name, value):
    """Returns `value` as int, or raises ValueError naming the argument."""
    number = _as_number(value)
    if number is None or number != int(number) or number < 0:
        raise ValueError(f"`{name}` must be an integer of at least 0. Received: {name}={value!r}")
    return int(value)


def positive_float(name, value):
    """Returns `value` as float, or raises ValueError naming the argument."""
    number = _as_number(value)
    if number is None or not 1e-30 < number < 1e30:  # what float32 can divide by
        raise ValueError(
            f"`{name}` must be a number above 0, from 1e-30 to 1e30. Received: {name}={value!r}"
        )
    return number


def non_negative_float(name, value):
    """Returns `value` as float, or raises ValueError naming the argument."""
    number = _as_number(value)
    if number is None or number < 0:
        raise ValueError(
            f"`{name}` must be a finite number of at least 0. Received: {name}={value!r}"
        )
    return number


def one_of(name, value, allowed):
    """Returns `value`, or raises ValueError listing what is allowed."""
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"`{name}` must be one of {choices}. Received: {name}={value!r}")
    return value


def _as_number(value):
    """`value` as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    return float(value) if math.isfinite(value) else None
