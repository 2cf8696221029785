"""Rows that lack some of their labels."""

import numpy as np


def mask_missing_labels(targets, sample_weights=None, classes=()):
    """Turns NaN labels into labels that do not count.

    A NaN in a target makes the whole loss NaN, whatever its weight (0 * NaN is
    NaN). This replaces it by 0 and gives the row the weight 0 for that target,
    as MovieLens rows without a rating count only for the watch task (COMET,
    KDD 2023, Supplement S1.1).

    Args:
        targets: array `(N, ...)`, or a dict of them, NaN (or None) where the
            label is missing.
        sample_weights: array `(N,)`, or a dict of them, weights to start from.
            Defaults to ones. May leave out targets.
        classes: names of targets that hold integer class codes; these come back
            as int32. For a single array, True or False.

    Returns:
        `(targets, sample_weights)`, of the same structure as `targets`: the
        targets with 0 for NaN, and float32 weights `(N,)` that are 0 where any
        label of the row is missing. The arguments are left as they are.

    Raises:
        ValueError: if weights do not fit the targets, `classes` names no target,
            or a class code is not a whole number.

    Example:

    >>> import numpy as np
    >>> from comet_keras.datasets import mask_missing_labels
    >>> targets, weights = mask_missing_labels({"digit": np.array([3, np.nan])}, classes=["digit"])
    >>> targets["digit"], weights["digit"]
    (array([3, 0], dtype=int32), array([1., 0.], dtype=float32))
    """
    if not isinstance(targets, dict):
        if isinstance(sample_weights, dict):
            raise ValueError("`sample_weights` must be an array where `targets` is one. Received: a dict")
        return _mask("targets", targets, sample_weights, bool(classes))
    if isinstance(classes, (str, bool)):
        raise ValueError(f"`classes` must be a list of target names. Received: classes={classes!r}")
    if sample_weights is not None and not isinstance(sample_weights, dict):
        raise ValueError("`sample_weights` must be a dict where `targets` is one")
    weights = sample_weights or {}
    unknown = sorted((set(weights) | set(classes)) - set(targets))
    if unknown:
        raise ValueError(f"`sample_weights` and `classes` must name targets {sorted(targets)}. Received: {unknown}")
    masked = {name: _mask(name, target, weights.get(name), name in classes) for name, target in targets.items()}
    return {name: pair[0] for name, pair in masked.items()}, {name: pair[1] for name, pair in masked.items()}


def _mask(name, target, weights, is_class):
    target = np.asarray(target)
    if target.ndim == 0:
        raise ValueError(f"Target {name!r} must have an axis of rows. Received: {target!r}")
    weights = np.ones(len(target), "float32") if weights is None else np.asarray(weights, "float32")
    if weights.shape != target.shape[:1]:
        raise ValueError(f"Weights of {name!r} must have shape {target.shape[:1]}. Received: {weights.shape}")
    if target.dtype.kind == "O":
        target = target.astype("float64")  # None is a missing label too
    if target.dtype.kind not in "biuf":
        raise ValueError(f"Target {name!r} must hold numbers. Received: dtype {target.dtype}")
    missing = np.isnan(target)
    masked = np.where(missing, np.zeros((), target.dtype), target)
    if is_class:
        if not (np.isfinite(masked) & (masked == np.round(masked))).all():
            raise ValueError(f"Target {name!r} must hold whole class codes. Received: {target!r}")
        masked = masked.astype("int32")
    missing_rows = missing.reshape(len(target), -1).any(axis=1) if target.size else np.zeros(len(target), bool)
    return masked, np.where(missing_rows, np.float32(0), weights)
