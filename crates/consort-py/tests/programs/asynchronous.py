"""Calls that nobody waits for at once, and what may be done with their handles."""

from __future__ import annotations

import gc
import time
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program

from programs.coded import assert_bits, raw_bytes


@program(world=3)
def works_may_be_waited_for_in_reverse(me: Rank) -> None:
    tensors = [torch.full((size,), me.rank + 1) for size in (1, 7, 4099, 100_003, 0)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed()
    for tensor in tensors:
        assert_bits(tensor, torch.full_like(tensor, 6), f"{tensor.numel()}")


@program(world=3)
def works_may_be_forgotten(me: Rank) -> None:
    tensors = [torch.full((size,), float(me.rank + 1)) for size in (1, 7, 4099, 100_003)]
    strided = [torch.full((2 * size,), float(me.rank + 1))[::2] for size in (7, 4099)]
    for tensor in (*tensors, *strided):
        dist.all_reduce(tensor, async_op=True)
    dist.all_reduce(torch.ones(50_021), async_op=True)  # its tensor is forgotten, too
    gc.collect()
    last = torch.ones(3)
    dist.all_reduce(last)
    for tensor in tensors:
        assert_bits(tensor, torch.full_like(tensor, 6), f"{tensor.numel()}")
    for tensor in strided:
        settle(tensor)
        assert_bits(tensor, torch.full((tensor.numel(),), 6.0), f"strided {tensor.numel()}")


@program(world=3)
def kinds_of_calls_are_mixed(me: Rank) -> None:
    summed, sent = torch.full((1001,), me.rank), torch.full((17,), me.rank)
    gathered = torch.zeros(3 * 1001, dtype=torch.int64)
    parts = [torch.zeros(5, dtype=torch.int64) for _ in range(3)]
    given = [torch.full((5,), 10 * me.rank + to) for to in range(3)]
    message = torch.zeros(9, dtype=torch.int64)
    works = [
        dist.all_reduce(summed, async_op=True),
        dist.irecv(message, me.previous),
        dist.broadcast(sent, 2, async_op=True),
        dist.isend(torch.full((9,), me.rank), me.next),
        dist.barrier(async_op=True),
        dist.all_gather_into_tensor(gathered, summed, async_op=True),
        dist.all_to_all(parts, given, async_op=True),
    ]
    for index in (6, 0, 3, 5, 1, 2, 4):
        works[index].wait()
    assert_bits(summed, torch.full_like(summed, 3), "all_reduce")
    assert_bits(sent, torch.full_like(sent, 2), "broadcast")
    # Calls of a group keep their order: what is gathered are the sums.
    assert_bits(gathered, torch.full_like(gathered, 3), "all_gather")
    assert_bits(message, torch.full_like(message, me.previous), "message")
    assert_bits(torch.stack(parts)[:, 0], torch.tensor([0, 10, 20]) + me.rank, "all_to_all")


@program(world=3)
def futures_hold_the_outputs(me: Rank) -> None:
    tensor = torch.full((7,), me.rank + 1)
    value = dist.all_reduce(tensor, async_op=True).get_future().wait()
    assert isinstance(value, list) and len(value) == 1
    assert value[0].data_ptr() == tensor.data_ptr()
    assert_bits(value[0], torch.full((7,), 6), "all_reduce")
    outputs = [torch.zeros(2) for _ in range(3)]
    work = dist.all_gather(outputs, torch.full((2,), float(me.rank)), async_op=True)
    value = work.get_future().wait()
    flat = value[0] if isinstance(value[0], list) else value
    for rank, output in enumerate(flat):
        assert_bits(output, torch.full((2,), float(rank)), f"all_gather from {rank}")
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    done = work.get_future()
    assert done.done()
    assert_bits(done.value()[0], torch.full((3,), 3.0), "a future that was asked for afterwards")


@program(world=3)
def callbacks_run_when_calls_are_done(me: Rank) -> None:
    tensor = torch.full((4099,), float(me.rank + 1))
    future = dist.all_reduce(tensor, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2).then(lambda done: done.value() + 1)
    assert_bits(doubled.wait(), torch.full((4099,), 13.0), "a chain of callbacks")
    future = dist.all_reduce(torch.ones(1), async_op=True).get_future()
    failing = future.then(lambda done: 1 // 0)
    try:
        failing.wait()
    except Exception as error:  # torch wraps it
        assert "division" in str(error)
    else:
        raise AssertionError("the callback's exception was lost")


@program(world=3)
def callbacks_may_start_calls_and_wait_for_them(me: Rank) -> None:
    def again(done: torch.futures.Future[Any]) -> torch.Tensor:
        second = done.value()[0] + 1
        dist.all_reduce(second, async_op=True).get_future().wait()
        third = second + 1
        dist.all_reduce(third, async_op=True).wait()
        return third

    for _ in range(5):
        first = torch.full((11,), float(me.rank + 1))
        future = dist.all_reduce(first, async_op=True).get_future().then(again)
        assert_bits(future.wait(), torch.full((11,), 66.0), "three calls in callbacks")


@program(world=3)
def callbacks_of_several_groups_wait_at_once(me: Rank) -> None:
    # More callbacks wait at the same time than a pool of a few threads would have.
    groups = [dist.new_group() for _ in range(6)]
    ends = []
    for group in groups:
        first = torch.full((5,), float(me.rank + 1))
        future = dist.all_reduce(first, group=group, async_op=True).get_future()

        def again(done: torch.futures.Future[Any], group: Any = group) -> torch.Tensor:
            second = done.value()[0].clone()
            dist.all_reduce(second, group=group, async_op=True).get_future().wait()
            return second

        ends.append(future.then(again))
    for end in reversed(ends):
        assert_bits(end.wait(), torch.full((5,), 18.0), "two calls in a group")


@program(world=3)
def a_receive_from_anybody_knows_its_source(me: Rank) -> None:
    if me.rank == 1:
        tensor = torch.zeros(4)
        work = dist.irecv(tensor)
        work.wait()
        source = work._source_rank()
        assert_bits(tensor, torch.full((4,), float(source)), f"from {source}")
        other = torch.zeros(4)
        assert dist.recv(other) == 2 - source  # 0 or 2, whoever is left
    else:
        dist.send(torch.full((4,), float(me.rank)), 1)


@program(world=3)
def sums_of_random_numbers_have_the_same_bits_everywhere(me: Rank) -> list[torch.Tensor]:
    found = []
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64):
        for size in (7, 4099, 200_003):
            parts = [random_numbers(rank, size, dtype) for rank in range(3)]
            tensor = parts[me.rank].clone()
            dist.all_reduce(tensor)
            wide = torch.complex128 if dtype.is_complex else torch.float64
            exact = sum(part.to(wide) for part in parts)
            limit = 4 * torch.finfo(dtype).eps
            torch.testing.assert_close(tensor, exact.to(dtype), atol=limit, rtol=limit)
            scattered = torch.zeros(size, dtype=dtype)
            dist.reduce_scatter_tensor(scattered, parts[me.rank].repeat(3))
            assert_bits(scattered, tensor, f"reduce_scatter of {size} {dtype}")
            found.append(raw_bytes(tensor))
    return found


def random_numbers(rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers whose sums have to be rounded."""
    generator = torch.Generator().manual_seed(rank)
    if dtype.is_complex:
        return torch.randn(size, generator=generator, dtype=dtype)
    return torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)


def settle(tensor: torch.Tensor) -> None:
    """Waits until a result that nobody waits for has been copied to where it belongs."""
    for _ in range(1000):
        if tensor[-1].item() == 6 and tensor[0].item() == 6:
            return
        time.sleep(0.01)
