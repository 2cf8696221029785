"""What the mixture tests share: a loop over rows and experts in numpy, and small experts."""

import keras
import numpy as np
from helpers import value
from keras import tree

from comet_keras import COMETGate, DSelectKGate, HashGate, SoftmaxGate, TopKGate

GATES = {
    "softmax": lambda n=4: SoftmaxGate(n),
    "topk": lambda n=4: TopKGate(n, k=2),
    "dselect_k": lambda n=4: DSelectKGate(n, k=2),
    "comet": lambda n=4: COMETGate(n, k=2),
}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def dense_list(n=4, units=3):
    return [
        keras.layers.Dense(units, bias_initializer=keras.initializers.RandomNormal(seed=i))
        for i in range(n)
    ]


def constant_expert(number):
    return keras.layers.Dense(
        1, kernel_initializer="zeros", bias_initializer=keras.initializers.Constant(number)
    )


def fixed_weights(weights):
    """A gate that gives every row these weights, whatever its input."""
    gate = SoftmaxGate(
        len(weights),
        kernel_initializer="zeros",
        bias_initializer=lambda shape, dtype=None: keras.ops.convert_to_tensor(
            np.log(weights), dtype=dtype
        ),
    )
    return gate


def one_expert_each(n):
    """A gate that sends id i to expert i."""
    return HashGate(n, num_ids=n, assignment="modulo")


def brute_force(mixture, inputs, gate_inputs=None):
    """The mixture's outputs by a loop over gates, rows and experts, a row at a time."""
    experts = mixture.experts
    leaves = tree.flatten(gate_inputs)
    if gate_inputs is None:
        leaves = [inputs]
    if len(leaves) == 1:
        leaves = leaves * len(mixture.gate_layers)
    permutations = [p.hard_matrix() for p in mixture.permutation_layers]
    if len(permutations) < 2:
        permutations = (permutations or [np.eye(mixture.num_experts)]) * len(leaves)
    outputs = []
    for gate, x, permutation in zip(mixture.gate_layers, leaves, permutations):
        rows = []
        for row in range(len(inputs)):
            weights = permutation @ value(gate(x[row : row + 1]))[0]
            total = 0.0
            for i in range(mixture.num_experts):
                if isinstance(experts, list):
                    answer = value(experts[i](inputs[row : row + 1]))[0]
                else:
                    answer = value(experts(inputs[row : row + 1]))[0][i]
                total = total + weights[i] * answer.astype("float64")
            rows.append(total)
        outputs.append(np.stack(rows))
    return tree.pack_sequence_as(mixture.gates, outputs)


def assert_equal_trees(found, expected, **tolerance):
    tree.assert_same_structure(found, expected)
    for a, b in zip(tree.flatten(found), tree.flatten(expected)):
        np.testing.assert_allclose(value(a), b, **{"rtol": 1e-5, "atol": 1e-5, **tolerance})
