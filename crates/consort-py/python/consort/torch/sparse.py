"""Sums of sparse tensors."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from consort._core import Group
from consort.errors import _make, mistake
from consort.torch.tensors import code, region


def all_reduce(core: Group, tensor: Tensor, op: tuple[int, float], seconds: float | None) -> None:
    """Replaces a sparse tensor by the sum of everyone's.

    Ranks have different elements, and different numbers of them: they tell each other how many, then
    which and what they are, and everyone adds them up in the order of ranks. These are several calls
    of the group, so it is done when this returns, asynchronous or not.
    """
    if op[0] != _SUM:
        raise mistake("allreduce: unsupported layout: sparse tensors can only be summed")
    mine = tensor.coalesce()
    indices, values = mine._indices().contiguous(), mine._values().contiguous()
    kind = code(values, "allreduce")
    sizes = _agree(core, [mine.sparse_dim(), kind, *mine.shape], indices.shape[1], seconds)
    depth, width = mine.sparse_dim(), _width(mine)
    rows = _gather(core, indices.t().contiguous(), [n * depth for n in sizes], seconds)
    numbers = _gather(core, values, [n * width for n in sizes], seconds)
    every = torch.cat([part.reshape(-1, depth) for part in rows]).t()
    dense = mine.shape[depth:]
    values = torch.cat([part.reshape(-1, *dense) for part in numbers])
    # Ranks have said what their tensors gave them, which is right.
    made = torch.sparse_coo_tensor(every, values, tensor.shape, check_invariants=False)
    summed = made.coalesce()
    with torch.no_grad():
        tensor.copy_(summed)


def _agree(core: Group, form: list[int], count: int, seconds: float | None) -> list[int]:
    """How many elements each rank has, if their tensors are of the same form."""
    digest = hashlib.blake2b(repr(form).encode(), digest_size=7).digest()
    mine = torch.tensor([count, int.from_bytes(digest, "little")], device="cpu")
    told = [part.tolist() for part in _gather(core, mine, [2] * core.world, seconds)]
    for rank, (_, other) in enumerate(told):
        if other != told[0][1]:
            text = (
                f"group {core.name}: ranks 0 and {rank} sum sparse tensors of different types or "
                f"shapes; this rank's has the shape {form[2:]}"
            )
            raise _make("Mismatch", text, [0, rank])
    return [count for count, _ in told]


def _width(tensor: Tensor) -> int:
    """How many numbers an element of a sparse tensor has."""
    width = 1
    for size in tensor.shape[tensor.sparse_dim() :]:
        width *= size
    return width


def _gather(core: Group, mine: Tensor, sizes: list[int], seconds: float | None) -> list[Tensor]:
    """Everyone's numbers, of which rank `r` has `sizes[r]`."""
    parts = [torch.empty(size, dtype=mine.dtype, device="cpu") for size in sizes]
    regions = [region(part) for part in parts]
    kind = code(mine, "allreduce")
    core.all_gather(kind, region(mine), regions, ((mine, parts), True, seconds))
    return parts


_SUM = 0
