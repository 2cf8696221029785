import tensorflow as tf


def split_rows(rows, sizes, num):
    """`rows` as `num` parts, part i of `sizes[i]` rows."""
    return tf.split(rows, sizes, num=num)
