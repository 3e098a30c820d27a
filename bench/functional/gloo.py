"""One rank that measures PyTorch's functional collectives on Gloo, as functional-bench does consort's:
the same values, the same blocks. Rank 0 prints a line of JSON for each point."""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from ranks import Ranks
from timing import medians
from torch import Tensor


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--seconds", type=float)
    said = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    # Barriers between blocks are Gloo's, too.
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), dist.group.WORLD, dist.group.WORLD)
    for op, dim in OPERATIONS:
        for size in said.bytes:
            time = medians(ranks, {op: checked(ranks, op, dim, size)}, said.seconds)[op]
            row = {"impl": "gloo", "op": op, "dim": dim, "bytes": size, "p50_us": time}
            if ranks.rank == 0:
                print(json.dumps(row), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def checked(ranks: Ranks, op: str, dim: int, size: int) -> Callable[[], Tensor]:
    """A call whose result is right, to be made again and again."""
    shape = shape_of(ranks, op, dim, size)
    every = [values(each, shape) for each in range(ranks.world)]
    expected = torch.cat(every, dim) if op == "all_gather" else sum(every)
    if op == "reduce_scatter":
        expected = expected.chunk(ranks.world, dim)[ranks.rank]
    x = every[ranks.rank].requires_grad_(op == "all_reduce_backward")
    call = OPERATIONS[op, dim]
    if not torch.equal(call(x, True), expected):
        raise SystemExit(f"gloo has a wrong result: {op} of {size} bytes along {dim}")
    return lambda: call(x, False)


def shape_of(ranks: Ranks, op: str, dim: int, size: int) -> list[int]:
    """What goes in: of a square if possible, of one row or column otherwise."""
    parts = ranks.world if op in ("all_gather", "reduce_scatter") else 1
    count = -(-max(size // 4, 1) // parts) * parts
    side = math.isqrt(count)
    is_square = side * side == count and side % parts == 0
    shape = [side, side] if is_square else [[count, 1], [1, count]][dim]
    if op == "all_gather":
        shape[dim] //= parts
    return shape


def values(rank: int, shape: list[int]) -> Tensor:
    """Small numbers that tell rank and place, as ours are."""
    return ((rank * 7 + torch.arange(math.prod(shape)).view(shape) % 1021) % 64).float()


def all_reduce(x: Tensor, _: bool = False) -> Tensor:
    return functional.wait_tensor(functional.all_reduce(x, "sum", dist.group.WORLD))


def all_reduce_backward(x: Tensor, look: bool) -> Tensor:
    y = all_reduce(x)
    if look:
        # So that the gradients are the numbers themselves.
        y = y * x.detach()
    return torch.autograd.grad(y, x, torch.ones_like(y))[0]


def all_gather(x: Tensor, dim: int) -> Tensor:
    return functional.wait_tensor(functional.all_gather_single(x, dim, dist.group.WORLD))


def reduce_scatter(x: Tensor, dim: int) -> Tensor:
    begun = functional.reduce_scatter_single(x, "sum", dim, dist.group.WORLD)
    return functional.wait_tensor(begun)


OPERATIONS = {
    ("all_reduce", 0): all_reduce,
    ("all_reduce_backward", 0): all_reduce_backward,
    ("all_gather", 0): lambda x, _: all_gather(x, 0),
    ("all_gather", 1): lambda x, _: all_gather(x, 1),
    ("reduce_scatter", 0): lambda x, _: reduce_scatter(x, 0),
    ("reduce_scatter", 1): lambda x, _: reduce_scatter(x, 1),
}

if __name__ == "__main__":
    main()
