"""The cost of inference, counted on data."""

import numpy as np

from comet_keras.reports.inference_cost import InferenceCost
from comet_keras.reports.table6 import table6_flops, table6_sizes
from comet_keras.validation import positive_int

TABLE6_UNIT = "FLOPs (rule of COMET's Table 6)"


def flops(model, data, paper_table6=False, batch_size=256):
    """What one sample costs at inference, given the experts that gates choose on a data set.

    Counted are multiply-adds, by part:

    - gates: the products of their logits; of a hash gate none;
    - permutation: none, as a hard permutation is a look-up;
    - experts: each runs once on every row to which any gate of its mixture gives a weight that is not
      zero after the permutation. The mixture itself may run more: `dispatch` says when it does;
    - mixing: each gate's weights that are not zero times the width of an expert's output;
    - shared: everything else in the model.

    How layers are counted says `comet_keras.multiply_adds`. Masked positions of sequences count, since
    experts run on them. The model runs in inference, batch by batch, and is left as it was.

    Args:
        model: a built `keras.Model`, with mixtures or without.
        data: what `model.predict` takes: arrays in the structure of the model's inputs, or a
            `tf.data.Dataset` of batches of features or of tuples that start with them.
        paper_table6: bool. True: FLOPs as in Table 6 of the paper (COMET, Ibrahim et al., KDD 2023), by
            the rule in `comet_keras.reports.table6`, which covers the paper's model for MovieLens.
            Default False.
        batch_size: int, rows a batch when `data` is arrays. Default 256.

    Returns:
        `InferenceCost`; `print` shows it as a table.

    Raises:
        ValueError: if there are no rows, or the paper's rule does not cover the model.

    Example:

    >>> from comet_keras import models
    >>> from comet_keras.reports import flops
    >>> model = models.multi_digits(gate="topk")
    >>> cost = flops(model, {"image": np.random.rand(4, 12, 12, 1)})
    >>> cost.experts_per_sample["top_left"]
    2.0
    >>> cost.parts["gates"] == 2 * 144 * 8
    True
    """
    from keras import tree

    from comet_keras.reports.inference_tally import InferenceTally

    tally = InferenceTally(model)
    sizes = table6_sizes(_only_mixture(tally)) if paper_table6 else None
    samples = 0
    with tally.listening():
        for features in _batches(data, positive_int("batch_size", batch_size)):
            samples += len(tree.flatten(features)[0])
            model(features, training=False)
    if not samples:
        raise ValueError("`data` holds no rows.")
    routing = _routing(model, tally)
    if not paper_table6:
        parts, dense_parts = tally.mean_parts(samples)
        return InferenceCost("multiply-adds", samples, parts, dense_parts, *routing)
    (record,) = tally.mixtures.values()
    parts = table6_flops(float(np.mean(record.above / record.positions)), **sizes)
    dense_parts = table6_flops(record.layer.num_experts, **sizes)
    return InferenceCost(TABLE6_UNIT, samples, parts, dense_parts, *routing)


def _only_mixture(tally):
    mixtures = [record.layer for record in tally.mixtures.values()]
    if len(mixtures) != 1:
        raise ValueError(
            "`paper_table6` needs a model with one mixture, as the paper's for MovieLens. "
            f"Received one with {len(mixtures)}"
        )
    return mixtures[0]


def _routing(model, tally):
    """Experts per sample by gate; experts run, and their number, by mixture."""
    from comet_keras.metrics import gates_of

    means = tally.experts_by_gate()
    labels = {label: means[id(gate)] for label, gate in gates_of(model).items() if id(gate) in means}
    run, number = {}, {}
    for record in tally.mixtures.values():
        name, copy = record.layer.name, 2
        while name in run:  # layers of submodels may share a name
            name, copy = f"{record.layer.name}_{copy}", copy + 1
        run[name], number[name] = record.experts_run, record.layer.num_experts
    return labels, run, number


def _batches(data, batch_size):
    import keras
    from keras import tree

    if hasattr(data, "element_spec"):
        is_tensorflow = keras.backend.backend() == "tensorflow"
        for batch in data if is_tensorflow else data.as_numpy_iterator():
            yield keras.utils.unpack_x_y_sample_weight(batch)[0]
        return
    arrays = tree.flatten(data)
    if not arrays or any(not hasattr(array, "shape") or not len(array.shape) for array in arrays):
        raise ValueError(
            "`data` must be arrays in the structure of the model's inputs, or a `tf.data.Dataset`. "
            f"Received: {type(data).__name__}"
        )
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1:
        raise ValueError(f"`data`: arrays must have the same number of rows. Received: {sorted(lengths)}")
    for start in range(0, lengths.pop(), batch_size):
        yield tree.map_structure(lambda array: array[start : start + batch_size], data)
