"""Binary trees in heap order: node q has the children 2q + 1 (left) and 2q + 2 (right).

A tree over n leaves has the internal nodes 0 .. n - 2 and the leaves n - 1 .. 2n - 2. Leaves
count from left to right, which puts the deepest first. Source: COMET (Ibrahim et al., KDD 2023),
section 3.4 and appendix C.
"""

import math

from keras import ops


def leaf_layout(num_leaves):
    """Heap index and depth of each leaf, from left to right.

    Example:

    >>> leaf_layout(5)
    ([7, 8, 4, 5, 6], [3, 3, 2, 2, 2])
    """
    depth = math.ceil(math.log2(num_leaves))
    first_deepest = 2**depth - 1
    deepest = list(range(first_deepest, 2 * num_leaves - 1))
    others = list(range(num_leaves - 1, min(first_deepest, 2 * num_leaves - 1)))
    return deepest + others, [depth] * len(deepest) + [depth - 1] * len(others)


def leaf_probabilities(left, right):
    """Probability of each leaf, from those of the splits.

    Args:
        left: `(..., n - 1)`, probability that a sample at node q goes left, in heap order.
        right: `(..., n - 1)`, that it goes right.

    Returns:
        `(..., n)`, for n >= 2: the product along the path to each leaf.
    """
    nodes = left.shape[-1]
    reached = ops.stack([left[..., 0], right[..., 0]], axis=-1)  # the nodes of one level
    start, width = 1, 2
    while start < nodes:
        splitting = min(width, nodes - start)
        level = slice(start, start + splitting)
        parents = reached[..., :splitting]
        pair = ops.stack([parents * left[..., level], parents * right[..., level]], axis=-1)
        children = ops.reshape(pair, (*ops.shape(left)[:-1], 2 * splitting))
        # On an incomplete last level, the nodes further right are leaves already.
        complete = splitting == width
        reached = children if complete else ops.concatenate([children, reached[..., splitting:]], -1)
        start, width = start + splitting, 2 * splitting
    return reached
