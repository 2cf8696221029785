import inspect

import keras
from keras import ops

from comet_keras.experts.split import split_rows
from comet_keras.mixture.conditional import conditional

# Layers that treat each position of a sequence alike and by itself. No subclasses, which may not.
POSITION_WISE = (
    keras.layers.Dense,
    keras.layers.Dropout,
    keras.layers.Activation,
    keras.layers.Identity,
)


class ExpertCalls:
    """One way to call experts, listed or stacked, on what a dispatch gives them.

    Args:
        experts: list of layers, or a layer of stacked experts.
        num_experts: int, n.
        output_shape: tuple, what one expert returns for one row.
        lead: int, leading dimensions of the inputs: 1 for rows, 2 for sequences.
        cost: multiply-adds of one expert on one row; needed under `auto` only.
        dtype: of the outputs.
        owner: layer that is given loss terms of listed experts.
    """

    def __init__(self, experts, num_experts, output_shape, lead, cost, dtype, owner):
        self.experts, self.num_experts, self.output_shape = experts, num_experts, output_shape
        self.lead, self.cost, self.dtype, self.owner = lead, cost, dtype, owner
        self.stacked = not isinstance(experts, list)
        self.layers = [experts] if self.stacked else experts

    def can_group(self):
        """Whether experts can be run on their own rows at all."""
        return not self.stacked or takes_groups(self.experts)

    def mix_rows(self, training):
        """Whether what a row gets is known to depend on the rows that go with it."""
        # Keras divides an activity regularizer by the rows that its layer is given.
        return training and any(
            isinstance(part, keras.layers.BatchNormalization) or part.activity_regularizer
            for layer in self.layers
            for part in layer._flatten_layers()
        )

    def mix_positions(self):
        """Whether an expert may need a position's neighbours in its sequence."""
        return (
            not self.stacked
            and self.lead > 1
            and not all(type(layer) in POSITION_WISE for layer in self.layers)
        )

    def on_every_row(self, inputs):
        """All outputs `(*lead, n, *rest)` for inputs `(*lead, ...)`."""
        if self.stacked:
            outputs = self.experts(inputs)
        else:
            outputs = ops.stack([expert(inputs) for expert in self.experts], axis=self.lead)
        return ops.cast(outputs, self.dtype)

    def on_groups(self, rows, sizes):
        """Outputs `(pairs, *rest)` for `rows` sorted by expert, `sizes[i]` of them for expert i."""
        if self.stacked:
            outputs = self.experts(rows, sizes=sizes)
        else:
            groups = split_rows(rows, sizes, self.num_experts)
            outputs = ops.concatenate(
                [self._on_group(i, group) for i, group in enumerate(groups)], axis=0
            )
        return ops.cast(outputs, self.dtype)

    def _on_group(self, i, rows):
        """An expert without rows is not run: some layers, such as normalisations, could not take it."""
        expert, size = self.experts[i], ops.shape(rows)[0]
        return conditional(
            self.owner,
            [expert],
            ops.convert_to_tensor(size > 0),
            lambda: self._on_positions(expert, rows),
            lambda: _nothing(expert, (size, *self.output_shape)),
        )

    def _on_positions(self, expert, rows):
        """`expert` on `(rows, ...)`; of a sequence, each row is one of length 1."""
        for _ in range(self.lead - 1):
            rows = ops.expand_dims(rows, 1)
        outputs = expert(rows)
        for _ in range(self.lead - 1):
            outputs = ops.squeeze(outputs, 1)
        return outputs

    def on_blocks(self, blocks, owners):
        """Outputs `(blocks, places, *rest)`; block j `(places, ...)` belongs to expert `owners[j]`.

        Listed experts take one block each, in their order.
        """
        if self.stacked:
            outputs = self.experts(blocks, owners=owners)
        else:
            outputs = ops.stack(
                [self._on_positions(e, x) for e, x in zip(self.experts, ops.unstack(blocks))]
            )
        return ops.cast(outputs, self.dtype)


def _nothing(expert, shape):
    """No rows of output, which depend on the expert's weights so that these get zero gradients."""
    outputs = ops.zeros(shape, dtype=expert.compute_dtype)
    for variable in expert.trainable_variables:
        outputs = outputs + ops.cast(ops.sum(ops.ravel(variable)[:0]), outputs.dtype)
    return outputs


def takes_groups(layer):
    """Whether a layer of stacked experts can be called as `DenseExperts` can, on rows by expert."""
    return {"sizes", "owners"} <= set(inspect.signature(layer.call).parameters)
