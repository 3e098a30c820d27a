"""How a point is timed; mpi/timing.c and consort's own ranks do exactly the same.

Blocks of back-to-back calls of about 2 ms, each after a barrier. A block's time is from the earliest
start to the latest end over ranks, by the number of calls. p50 and min are over blocks. p99 is over
single calls on all ranks: those of the blocks themselves where reading the clock costs nothing
beside a call, calls after each block where it does.
"""

from dataclasses import dataclass
from time import perf_counter

import torch
import torch.distributed as dist

from gloo_call import Call

BLOCK_US, SLOW_US = 2000.0, 20.0
LEAST_BLOCKS, MOST_BLOCKS, MOST_CALLS, MOST_SINGLES = 5, 2000, 1_000_000, 500


@dataclass
class Figures:
    p50_us: float
    p99_us: float
    min_us: float


def measure(call: Call) -> Figures:
    call_us = estimate(call)
    calls = within(BLOCK_US / call_us, 1, MOST_CALLS)
    blocks = within(call.point.seconds * 1e6 / (call_us * calls), LEAST_BLOCKS, MOST_BLOCKS)
    starts, ends, singles = take(call, call_us, calls, blocks)
    return merge(calls, starts, ends, singles)


def estimate(call: Call) -> float:
    """The time of one call on the slowest rank, the same on all ranks. Warms up as well."""
    calls = 1
    while True:
        dist.barrier()
        start = now_us()
        for _ in range(calls):
            call.run()
        took = torch.tensor([now_us() - start], dtype=torch.float64)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        slowest = took.item()
        # The very first call may have had things to set up.
        enough = (slowest > BLOCK_US / 2 and calls > 1) or slowest > 100 * BLOCK_US
        if enough or calls * 4 > MOST_CALLS:
            return slowest / calls
        calls *= 4


def take(call: Call, call_us: float, calls: int, blocks: int):
    starts, ends, singles = [], [], []
    for _ in range(blocks):
        dist.barrier()
        starts.append(now_us())
        if call_us >= SLOW_US:
            time_singles(call, calls, singles)
        else:
            for _ in range(calls):
                call.run()
        ends.append(now_us())
        if call_us < SLOW_US:
            dist.barrier()
            time_singles(call, min(calls, MOST_SINGLES), singles)
    return starts, ends, singles


def time_singles(call: Call, calls: int, singles: list) -> None:
    before = now_us()
    for _ in range(calls):
        call.run()
        after = now_us()
        singles.append(after - before)
        before = after


def merge(calls: int, starts: list, ends: list, singles: list) -> Figures:
    """Puts all ranks' samples together."""
    first = torch.tensor(starts, dtype=torch.float64)
    last = torch.tensor(ends, dtype=torch.float64)
    dist.all_reduce(first, op=dist.ReduceOp.MIN)
    dist.all_reduce(last, op=dist.ReduceOp.MAX)
    mine = torch.tensor(singles, dtype=torch.float64)
    everyones = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, mine)
    times = ((last - first) / calls).sort().values
    single = torch.cat(everyones).sort().values
    return Figures(
        p50_us=times[len(times) // 2].item(),
        p99_us=single[len(single) * 99 // 100].item(),
        min_us=times[0].item(),
    )


def within(value: float, least: int, most: int) -> int:
    return int(min(max(value, least), most))


def now_us() -> float:
    """The monotonic clock, which all processes of a host share."""
    return perf_counter() * 1e6
