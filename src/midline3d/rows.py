"""Records of tensors as rows: all numbers of a frame side by side, as the GPU's kernels read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import torch

from midline3d.shapes import Float, Tensor


def side_by_side(values: Sequence[Float[Tensor, "batch ..."]]) -> Float[Tensor, "batch number"]:
    """The numbers of every frame in a row, tensor by tensor in their order.

    Where the tensors lie so in memory already (see `split_rows`) these are the rows that they lie in, and nothing is
    copied; else a copy.
    """
    batch = len(values[0])
    begins = list(accumulate((math.prod(value.shape[1:]) for value in values), initial=0))
    if batch and all(_follows(values[0], value, begin) for value, begin in zip(values, begins, strict=False)):
        return values[0].as_strided((batch, begins[-1]), (values[0].stride(0), 1))
    return torch.cat([value.reshape(batch, -1) for value in values], 1)


def split_rows(rows: Float[Tensor, "batch number"], shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The tensors that rows of `side_by_side` begin with, by what a frame has of each; they share the rows' memory."""
    sizes = [math.prod(shape) for shape in shapes]
    parts = rows[:, : sum(sizes)].split(sizes, 1)
    return [part.unflatten(1, shape) if shape else part[:, 0] for part, shape in zip(parts, shapes, strict=True)]


def _follows(first: Tensor, value: Tensor, begin: int) -> bool:
    """Whether a tensor's rows lie `begin` numbers behind those of the first, in the same memory."""
    if value.untyped_storage().data_ptr() != first.untyped_storage().data_ptr() or not value[0].is_contiguous():
        return False
    # What lies between rows says nothing where there is but one.
    beside = len(value) == 1 or value.stride(0) == first.stride(0)
    return beside and value.storage_offset() - first.storage_offset() == begin
