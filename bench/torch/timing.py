"""How a point is timed, for whoever's turn it is.

Blocks of back-to-back calls of about 2 ms, each after a barrier. A block's time is from the earliest
start to the latest end over ranks, by the number of calls. Backends take turns block by block; what is
told is the median of each over its blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from ranks import Ranks


def medians(ranks: Ranks, calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """The time of a call in microseconds, for each of several that take turns."""
    plans = {name: _plan(ranks, call, seconds) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(max(blocks for _, blocks in plans.values())):
        for name, (count, blocks) in plans.items():
            if turn < blocks:
                times[name].append(_block(ranks, calls[name], count))
    return {name: sorted(found)[len(found) // 2] for name, found in times.items()}


def _plan(ranks: Ranks, call: Callable[[], Any], seconds: float) -> tuple[int, int]:
    """How many calls make a block, and how many blocks there are; the same on all ranks."""
    count = 1
    while (took := _block(ranks, call, count) * count) < BLOCK_US / 2 and count < MOST_CALLS:
        count *= 4
    each = took / count
    count = int(min(max(BLOCK_US / each, 1), MOST_CALLS))
    blocks = int(min(max(seconds * 1e6 / (each * count), LEAST_BLOCKS), MOST_BLOCKS))
    return count, blocks


def _block(ranks: Ranks, call: Callable[[], Any], count: int) -> float:
    """The time of one call, of so many, in microseconds."""
    dist.barrier(group=ranks.consort)
    start = perf_counter()
    for _ in range(count):
        call()
    end = perf_counter()
    span = torch.tensor([-start, end], dtype=torch.float64)
    dist.all_reduce(span, op=dist.ReduceOp.MAX, group=ranks.consort)
    return (span[0] + span[1]).item() * 1e6 / count


BLOCK_US = 2000.0
MOST_CALLS, LEAST_BLOCKS, MOST_BLOCKS = 20_000, 7, 400
