"""Sinkhorn rounds in log space, with warm-started potentials.

A round of `S = exp(U/tau + a 1^T + 1 b^T)` normalises rows (`a_i = -logsumexp_j(U_ij/tau + b_j)`),
then columns (`b_j = -logsumexp_i(U_ij/tau + a_i)`). Only b carries over from round to round.
Source: COMET (Ibrahim et al., KDD 2023), section 4.2-4.3; Mena et al., ICLR 2018.
"""

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    from comet_keras.permutation.compile_tensorflow import compiled
else:

    def compiled(function):
        """JAX compiles the whole step, PyTorch runs step by step."""
        return function


def sinkhorn(logits, temperature, rounds, max_rounds, start=None):
    """`S^R(U / tau)`: the soft permutation matrix after `rounds` rounds.

    Args:
        logits: `(n, n)`, U, float32 or float64.
        temperature: scalar tensor or float, tau > 0.
        rounds: int scalar tensor or int, R >= 1; may depend on the training step. 0 costs nothing and
            returns no permutation matrix.
        max_rounds: int, static upper bound of `rounds`.
        start: optional `(n,)`, column potentials in units of `logits` to start from. Zeros: cold.

    Returns:
        Tuple of S `(n, n)`, its columns summing to 1 and its rows nearly, differentiable in
        `logits` through these rounds (the start is a constant); and the potentials `(n,)` reached,
        in units of `logits`, so that they stay good starts when the temperature changes.
    """
    logits = ops.convert_to_tensor(logits)
    temperature = ops.convert_to_tensor(temperature, dtype=logits.dtype)
    scaled = logits / temperature
    if start is None:
        start = ops.zeros_like(scaled[0])
    else:
        start = ops.cast(start, logits.dtype) / temperature
    # Constants for the backends: the gradient below goes through the rounds itself.
    constant, start = ops.stop_gradient(scaled), ops.stop_gradient(start)
    rounds = ops.cast(rounds, "int32")
    history = ops.zeros((max_rounds, logits.shape[0]), dtype=logits.dtype)
    rows, columns, last_columns = ops.cond(
        rounds > 0,
        lambda: compiled(_rounds)(constant, start, rounds, history),
        lambda: (history, history, start),
    )
    rows, columns = ops.stop_gradient(rows), ops.stop_gradient(columns)

    # The gradient is written out: no backend differentiates a loop of unknown length well.
    @ops.custom_gradient
    def matrix(scaled, rows, columns, start, rounds):
        last = ops.maximum(rounds - 1, 0)
        last_row, last_column = ops.take(rows, last, axis=0), ops.take(columns, last, axis=0)
        soft = ops.exp(scaled + last_row[:, None] + last_column[None, :])

        def gradient(*args, upstream=None):
            upstream = args[-1] if upstream is None else upstream
            grad_log = upstream * soft
            grad = ops.cond(
                rounds > 0,
                lambda: compiled(_rounds_gradient)(grad_log, scaled, rows, columns, start, rounds),
                lambda: grad_log,
            )
            nothing = ops.zeros_like
            return grad, nothing(rows), nothing(columns), nothing(start), nothing(rounds)

        return soft, gradient

    soft = matrix(scaled, rows, columns, start, rounds)
    return soft, ops.stop_gradient(last_columns * temperature)


def _rounds(scaled, start, rounds, history):
    """Runs the rounds; row and column potentials after each, and the last column potentials."""

    first = ops.zeros((), dtype="int32")

    def body(i, columns_now, rows, columns):
        row = -ops.logsumexp(scaled + columns_now[None, :], axis=1)
        column = -ops.logsumexp(scaled + row[:, None], axis=0)
        rows = ops.slice_update(rows, (i, first), row[None, :])
        columns = ops.slice_update(columns, (i, first), column[None, :])
        return i + 1, column, rows, columns

    _, last, rows, columns = ops.while_loop(
        lambda i, *_: i < rounds, body, (first, start, history, history)
    )
    return rows, columns, last


def _rounds_gradient(grad_log, scaled, rows, columns, start, rounds):
    """Back through the rounds, given the gradient with respect to log S."""

    def body(i, grad, grad_row, grad_column):
        row = ops.take(rows, i, axis=0)
        column = ops.take(columns, i, axis=0)
        before = ops.where(i > 0, ops.take(columns, ops.maximum(i - 1, 0), axis=0), start)
        # column = -logsumexp over rows: its softmax has columns summing to 1.
        pull = ops.exp(scaled + row[:, None] + column[None, :]) * grad_column[None, :]
        grad_row = grad_row - ops.sum(pull, axis=1)
        grad = grad - pull
        # row = -logsumexp over columns of the round before.
        pull = ops.exp(scaled + row[:, None] + before[None, :]) * grad_row[:, None]
        return i - 1, grad - pull, ops.zeros_like(grad_row), -ops.sum(pull, axis=0)

    _, grad, _, _ = ops.while_loop(
        lambda i, *_: i >= 0,
        body,
        (rounds - 1, grad_log, ops.sum(grad_log, axis=1), ops.sum(grad_log, axis=0)),
    )
    return grad


def schedule(step, stage_steps, temperature, rounds):
    """Temperature and rounds at a training step of the first stage.

    Args:
        step: int scalar, steps done.
        stage_steps: int scalar, steps of the stage; 0 when not yet known, which keeps the start.
        temperature: pair of floats, tau at the start and end; linear in its logarithm.
        rounds: pair of ints, R at the start and end; linear, truncated.

    Returns:
        Tuple of float32 scalar and int32 scalar; past the stage, those of its end.

    Example:

    >>> tau, rounds = schedule(50, 100, (1e-3, 1e-7), (20, 150))  # 1e-5, 85
    """
    step, stage = ops.cast(step, "float32"), ops.cast(stage_steps, "float32")
    done = ops.where(stage > 0, ops.clip(step / ops.maximum(stage, 1.0), 0.0, 1.0), 0.0)
    start, end = (ops.log(ops.convert_to_tensor(float(t), "float32")) for t in temperature)
    tau = ops.exp(start + (end - start) * done)
    return tau, ops.cast(rounds[0] + (rounds[1] - rounds[0]) * done + 1e-4, "int32")
