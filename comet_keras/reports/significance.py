"""Means with standard errors, and whether one sample of losses lies below another."""

import numpy as np


def mean_and_error(values):
    """Mean and standard error of a sample.

    Args:
        values: array `(m,)` of finite numbers, m >= 1.

    Returns:
        `(mean, error)`, floats: the error is the sample's standard deviation (with m - 1) over sqrt(m),
        NaN for a single value.

    Raises:
        ValueError: if there is no value, or one is not finite.

    Example:

    >>> from comet_keras.reports import mean_and_error
    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    """
    values = _sample("values", values)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def p_value_below(values, baseline):
    """One-sided unpaired t-test: the p-value of "the mean of `values` is below that of `baseline`".

    Source: COMET (KDD 2023), Tables 1 to 3, whose asterisk marks p < 0.05. The paper does not say
    whether variances were taken as equal; they are not here (Welch's test).

    Args:
        values, baseline: arrays `(m,)` and `(n,)` of finite numbers, m, n >= 1.

    Returns:
        float in 0..1; NaN if either sample has a single value.

    Raises:
        ValueError: if a sample is empty or holds a number that is not finite.

    Example:

    >>> from comet_keras.reports import p_value_below
    >>> p_value_below([0.50, 0.51, 0.49], [0.60, 0.61, 0.59]) < 0.05
    True
    """
    from scipy.stats import ttest_ind

    values, baseline = _sample("values", values), _sample("baseline", baseline)
    if min(len(values), len(baseline)) < 2:
        return float("nan")
    if not values.std() and not baseline.std():  # no spread: the test would divide 0 by 0
        return float(np.sign(values.mean() - baseline.mean()) + 1) / 2
    return float(ttest_ind(values, baseline, equal_var=False, alternative="less").pvalue)


def _sample(name, values):
    values = np.asarray(values, "float64")
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise ValueError(f"`{name}` must be a non-empty 1-D array of finite numbers. Received: {values!r}")
    return values
