"""The collectives, over sizes and types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from ranks import Ranks
from timing import medians
from torch import Tensor


@dataclass(frozen=True)
class Point:
    """What is measured: an operation on so many bytes of a type."""

    op: str
    dtype: str
    bytes: int


def points(ops: list[str], dtypes: list[str], sizes: list[int]) -> list[Point]:
    """All there are."""
    return [Point(op, dtype, size) for op in ops for dtype in dtypes for size in sizes]


def measure(ranks: Ranks, wanted: list[Point], seconds: float) -> list[dict[str, Any]]:
    """The time of a call for each point and backend."""
    rows = []
    for point in wanted:
        make = OPERATIONS[point.op]
        calls = {name: make(ranks, group, point) for name, group in ranks.backends().items()}
        for call in calls.values():
            call()
        found = medians(ranks, calls, seconds)
        rows += [row(point, ranks.world, name, time) for name, time in found.items()]
    return rows


def row(point: Point, world: int, name: str, time: float) -> dict[str, Any]:
    return {
        "impl": name,
        "op": point.op,
        "dtype": point.dtype,
        "ranks": world,
        "bytes": point.bytes,
        "p50_us": round(time, 3),
    }


def _all_reduce(ranks: Ranks, group: Any, point: Point) -> Callable[[], Any]:
    # Sums of nothing stay finite, however often they are taken.
    tensor = torch.zeros_like(_ones(point, ranks.world))
    return lambda: dist.all_reduce(tensor, group=group)


def _broadcast(ranks: Ranks, group: Any, point: Point) -> Callable[[], Any]:
    tensor = _ones(point, ranks.world)
    return lambda: dist.broadcast(tensor, 0, group=group)


def _all_gather(ranks: Ranks, group: Any, point: Point) -> Callable[[], Any]:
    every = _ones(point, ranks.world)
    mine = every.new_ones(every.numel() // ranks.world)
    return lambda: dist.all_gather_into_tensor(every, mine, group=group)


def _reduce_scatter(ranks: Ranks, group: Any, point: Point) -> Callable[[], Any]:
    every = _ones(point, ranks.world)
    mine = every.new_ones(every.numel() // ranks.world)
    return lambda: dist.reduce_scatter_tensor(mine, every, group=group)


def _all_to_all(ranks: Ranks, group: Any, point: Point) -> Callable[[], Any]:
    given = _ones(point, ranks.world)
    taken = torch.empty_like(given)
    return lambda: dist.all_to_all_single(taken, given, group=group)


def _ones(point: Point, world: int) -> Tensor:
    """As many numbers as the point says, and at least one for each rank."""
    dtype = DTYPES[point.dtype]
    count = max(point.bytes // dtype.itemsize, 1)
    return torch.ones(-(-count // world) * world, dtype=dtype)


OPERATIONS = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "all_to_all": _all_to_all,
}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
BYTES = [8, 1 << 10, 1 << 14, 1 << 16, 1 << 20, 1 << 24, 1 << 26]
