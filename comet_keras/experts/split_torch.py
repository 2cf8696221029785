import torch


def split_rows(rows, sizes, num):
    """`rows` as `num` parts, part i of `sizes[i]` rows."""
    return torch.split(rows, sizes.tolist())
