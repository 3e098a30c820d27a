"""Sums of sparse tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from consort._core import Group
from consort.torch.tensors import code, region


def all_reduce(core: Group, tensor: Tensor, op: tuple[int, float], seconds: float | None) -> None:
    """Replaces a sparse tensor by the sum of everyone's.

    Ranks have different elements, and different numbers of them: they tell each other how many, then
    which and what they are, and everyone adds them up in the order of ranks. That takes two calls,
    which nothing may come between, so it is done when this returns, asynchronous or not.
    """
    if op[0] != _SUM:
        raise RuntimeError(
            "consort allreduce: unsupported layout: sparse tensors can only be summed"
        )
    mine = tensor.coalesce()
    indices, values = mine._indices().contiguous(), mine._values().contiguous()
    counts = _gather(core, torch.tensor([indices.shape[1]]), [1] * core.world, seconds)
    sizes = [int(count) for count in counts]
    rows = _gather(core, indices.t().contiguous(), [n * indices.shape[0] for n in sizes], seconds)
    width = values.numel() // max(values.shape[0], 1) if values.shape[0] else _width(mine)
    numbers = _gather(core, values, [n * width for n in sizes], seconds)
    every = torch.cat([part.reshape(-1, indices.shape[0]) for part in rows]).t()
    dense = mine.shape[mine.sparse_dim() :]
    summed = torch.sparse_coo_tensor(
        every, torch.cat([part.reshape(-1, *dense) for part in numbers]), tensor.shape
    ).coalesce()
    with torch.no_grad():
        tensor.copy_(summed)


def _width(tensor: Tensor) -> int:
    """How many numbers an element of a sparse tensor has."""
    width = 1
    for size in tensor.shape[tensor.sparse_dim() :]:
        width *= size
    return width


def _gather(core: Group, mine: Tensor, sizes: list[int], seconds: float | None) -> list[Tensor]:
    """Everyone's numbers, of which rank `r` has `sizes[r]`."""
    parts = [torch.empty(size, dtype=mine.dtype) for size in sizes]
    regions = [region(part) for part in parts]
    kind = code(mine, "allreduce")
    core.all_gather(kind, region(mine), regions, ((mine, parts), True, seconds))
    return parts


_SUM = 0
