"""What the tests share: values and gradients on every backend, finite differences, numeric cases."""

import contextlib
import json
from pathlib import Path
from unittest import mock

import keras
import numpy as np
from keras import ops

BACKEND = keras.backend.backend()

CASES = json.loads((Path(__file__).parent / "data" / "numeric_cases.json").read_text())


def cases(system):
    """The numeric cases of one system."""
    return [case for case in CASES if case["system"] == system]


def value(tensor):
    """A tensor as a numpy array."""
    return np.asarray(ops.convert_to_numpy(tensor))


def double(array):
    """A float64 tensor, which PyTorch would make float32 unless told."""
    return ops.convert_to_tensor(np.asarray(array), dtype="float64")


@contextlib.contextmanager
def double_precision():
    """Scope in which float64 stays float64.

    Off TensorFlow, Keras turns the float64 results of its operations into float32, by a table that is
    corrected here; and JAX has none without being told.
    """
    from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(BIT64_TO_BIT32_DTYPE, float64="float64"))
        if BACKEND == "jax":
            import jax

            stack.callback(jax.config.update, "jax_enable_x64", jax.config.jax_enable_x64)
            jax.config.update("jax_enable_x64", True)
        yield


def compiled(function):
    """`function` compiled as a whole on JAX, which else compiles each operation for each new shape."""
    if BACKEND != "jax":
        return function
    import jax

    return jax.jit(function)


def called(layer, *inputs, training=False):
    """`layer(*inputs)`, compiled as a whole on JAX."""
    if BACKEND != "jax":
        return layer(*inputs, training=training)
    if not layer.built:
        layer.build(*(x.shape for x in inputs))

    def call(trainable, other, inputs):
        return layer.stateless_call(trainable, other, *inputs, training=training)

    variables = layer.trainable_variables, layer.non_trainable_variables
    outputs, state = compiled(call)(*([v.value for v in part] for part in variables), inputs)
    for variable, new in zip(layer.non_trainable_variables, state):
        variable.assign(new)
    return outputs


def gradient(function, array, dtype="float64"):
    """Gradient of the scalar `function(tensor)` at `array`, as a numpy array."""
    x = ops.convert_to_tensor(np.asarray(array), dtype=dtype)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        found = tape.gradient(result, x, unconnected_gradients="zero")
        return np.asarray(tf.convert_to_tensor(found))
    if BACKEND == "jax":
        import jax

        return np.asarray(jax.grad(function)(x))
    import torch

    x = x.detach().clone().requires_grad_(True)
    result = function(x)
    if not result.requires_grad:
        return np.zeros(x.shape)
    (found,) = torch.autograd.grad(result, x, allow_unused=True)
    return np.zeros(x.shape) if found is None else found.detach().cpu().numpy()


def with_value(variable, function):
    """`function()` as a function of the value of `variable`."""

    def of(tensor):
        with keras.StatelessScope([(variable, tensor)]):
            return function()

    return of


def assert_gradient(function, array, directions=4, step=1e-5, tolerance=1e-6):
    """The float64 gradient of `function` at `array` equals central differences along directions."""
    array = np.asarray(array, "float64")
    rng = np.random.default_rng(0)
    with double_precision():
        found = gradient(function, array)
        assert found.dtype == np.float64 and np.isfinite(found).all()
        for _ in range(directions):
            direction = rng.normal(size=array.shape)
            high, low = (
                float(value(function(double(array + sign * step * direction))))
                for sign in (1, -1)
            )
            expected = (high - low) / (2 * step)
            np.testing.assert_allclose(
                np.sum(found * direction), expected, rtol=tolerance, atol=tolerance
            )


def random_weights(rng, *shape):
    """Random points of the simplex."""
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]).reshape(shape)


def linear(gate, inputs):
    """`gate` built with identity router: logits (without bias) are the inputs."""
    gate.build(np.shape(inputs))
    gate.kernel.assign(np.eye(gate.num_experts))
    return gate


def comet_of(gate, splits, alpha):
    """Sets the weights of a COMETGate and returns inputs that give these logits `(B, k, ...)`."""
    splits, alpha = np.asarray(splits, "float64"), np.asarray(alpha, "float64")
    inputs = np.concatenate([part.reshape(len(part), -1) for part in (splits, alpha)], axis=1)
    gate.build(inputs.shape)
    eye, first = np.eye(inputs.shape[1]), splits[0].size
    gate.split_kernel.assign(eye[:, :first])
    gate.leaf_kernel.assign(eye[:, first:])
    for bias in (gate.split_bias, gate.leaf_bias):
        bias.assign(np.zeros(bias.shape))
    return ops.convert_to_tensor(inputs, gate.router_dtype)


def dselect_of(gate, codes, selector_logits):
    """Sets the weights of a DSelectKGate and returns inputs that give codes `(B, k, m)`, `(B, k)`."""
    codes, logits = np.asarray(codes, "float64"), np.asarray(selector_logits, "float64")
    inputs = np.concatenate([codes.reshape(len(codes), -1), logits], axis=1)
    gate.build(inputs.shape)
    eye, first = np.eye(inputs.shape[1]), codes[0].size
    gate.code_kernel.assign(eye[:, :first])
    gate.selector_kernel.assign(eye[:, first:])
    for bias in (gate.code_bias, gate.selector_bias):
        bias.assign(np.zeros(bias.shape))
    return ops.convert_to_tensor(inputs, gate.router_dtype)


def exact_entropy(p):
    """`-sum p log p` over the last axis, in nats and float64."""
    p = np.asarray(p, "float64")
    return -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=-1)


def exact_smooth_step(t, gamma):
    """The smooth step by its definition, in float64."""
    t = np.asarray(t, "float64")
    middle = -2 * t**3 / gamma**3 + 3 * t / (2 * gamma) + 0.5
    return np.where(t <= -gamma / 2, 0.0, np.where(t >= gamma / 2, 1.0, middle))


def slow_sinkhorn(logits, tau, rounds, start=None):
    """S and the column potentials, by a loop over rounds in float64."""
    scaled = np.asarray(logits, "float64") / tau
    columns = np.zeros(len(scaled)) if start is None else np.asarray(start, "float64") / tau
    for _ in range(rounds):
        rows = -_logsumexp(scaled + columns, 1)
        columns = -_logsumexp(scaled + rows[:, None], 0)
    return np.exp(scaled + rows[:, None] + columns), columns * tau


def _logsumexp(x, axis):
    top = x.max(axis, keepdims=True)
    return np.log(np.exp(x - top).sum(axis)) + top.squeeze(axis)
