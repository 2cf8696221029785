"""Batches of in-memory arrays as a `tf.data.Dataset`."""


def batched(arrays, rows, batch_size, shuffle, seed, transform=None, first_epoch=None):
    """Returns a `tf.data.Dataset` of batches gathered from `arrays`, three dicts of arrays `(rows, ...)`.

    `transform` maps the first dict of each batch. With `first_epoch` the data set is endless: shuffled
    epoch after epoch, the order of each decided by `seed` and its number alone.

    A batch is one gather of `batch_size` rows. Passing rows through the
    pipeline one by one would cost more than the model for small features.
    """
    import tensorflow as tf

    count = -(-rows // batch_size)
    with tf.device("CPU:0"):  # the pipeline runs there, and the arrays may not fit on an accelerator
        tensors = tf.nest.map_structure(tf.constant, arrays)

    def pick(rows_of):
        features, *others = tf.nest.map_structure(rows_of, tensors)
        return (features if transform is None else transform(features), *others)

    def in_order(batch):
        start = batch * batch_size
        return pick(lambda tensor: tensor[start : start + batch_size])

    def epoch(epoch_seed, key=0):
        order = tf.random.experimental.stateless_shuffle(tf.range(rows), tf.stack([epoch_seed, key]))

        def gather(batch):
            chosen = order[batch * batch_size : (batch + 1) * batch_size]
            return pick(lambda tensor: tf.gather(tensor, chosen))

        return tf.data.Dataset.range(count).map(gather, num_parallel_calls=tf.data.AUTOTUNE)

    if first_epoch is not None:
        key = tf.constant(0 if seed is None else seed, tf.int64)
        numbers = tf.data.Dataset.range(first_epoch, tf.int64.max)
        batches = numbers.flat_map(lambda number: epoch(number, key))
    elif shuffle:
        # One fresh number an epoch, from which the whole order follows.
        seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).take(1)
        batches = seeds.flat_map(epoch).apply(tf.data.experimental.assert_cardinality(count))
    else:
        batches = tf.data.Dataset.range(count).map(in_order, num_parallel_calls=tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE)
