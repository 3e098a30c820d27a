"""Every collective with every dtype, reduce operation and size, against a naive oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program

from programs.coded import (
    DTYPES,
    SIZES,
    assert_bits,
    assert_combined,
    assert_result,
    bits,
    combined,
    dtype_named,
    numbers,
    op_named,
    ops_of,
)


def for_every_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A program of three ranks for each dtype."""
    return program(world=3, cases=DTYPES)(function)


@for_every_dtype
def all_reduce(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for op in ops_of(dtype):
        for size in SIZES:
            tensor = numbers(me.rank, size, dtype, op)
            dist.all_reduce(tensor, op_named(op))
            assert_combined(tensor, range(me.world), dtype, op, f"{op} of {size}")


@for_every_dtype
def all_reduce_coalesced(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for op in ops_of(dtype):
        tensors = [numbers(me.rank, size, dtype, op) for size in SIZES]
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor, op_named(op))
        for tensor in tensors:
            assert_combined(tensor, range(me.world), dtype, op, f"{op} of {tensor.numel()}")


@for_every_dtype
def all_reduce_of_a_list(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    op = "MAX" if not dtype.is_complex else "SUM"
    tensors = [numbers(me.rank, size, dtype, op) for size in SIZES]
    real = [torch.view_as_real(each) if dtype.is_complex else each for each in tensors]
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = op_named(op)
    dist.group.WORLD.allreduce_coalesced(real, options).wait()
    for tensor in tensors:
        assert_combined(tensor, range(me.world), dtype, op, f"{tensor.numel()}")


@for_every_dtype
def reduce(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for op in ops_of(dtype):
        for root, size in enumerate([7, 0, 4099]):
            tensor = numbers(me.rank, size, dtype, op)
            dist.reduce(tensor, root, op_named(op))
            if me.rank == root:
                assert_combined(tensor, range(me.world), dtype, op, f"{op} of {size}")


@for_every_dtype
def reduce_scatter(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for op in ops_of(dtype):
        for size in SIZES:
            # The list for each rank is a part of what that rank would have as a whole.
            whole = numbers(me.rank, 3 * size, dtype, op)
            output = torch.empty(size, dtype=dtype)
            parts = list(whole.split(size)) if size else [whole] * 3
            dist.reduce_scatter(output, parts, op_named(op))
            check_part(output, me, me.rank * size, 3 * size, dtype, op)


@for_every_dtype
def reduce_scatter_of_uneven_parts(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    sizes = [5, 0, 1001]
    for op in ops_of(dtype):
        whole = numbers(me.rank, sum(sizes), dtype, op)
        output = torch.empty(sizes[me.rank], dtype=dtype)
        dist.reduce_scatter(output, list(whole.split(sizes)), op_named(op))
        check_part(output, me, sum(sizes[: me.rank]), sum(sizes), dtype, op)


@for_every_dtype
def reduce_scatter_tensor(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for op in ops_of(dtype):
        for size in SIZES:
            whole = numbers(me.rank, 3 * size, dtype, op)
            output = torch.empty(size, dtype=dtype)
            dist.reduce_scatter_tensor(output, whole, op_named(op))
            check_part(output, me, me.rank * size, 3 * size, dtype, op)
            # Again with the output inside the input, as sharded optimizers do it.
            inside = whole[me.rank * size : (me.rank + 1) * size]
            dist.reduce_scatter_tensor(inside, whole, op_named(op))
            check_part(inside, me, me.rank * size, 3 * size, dtype, op)


@for_every_dtype
def reduce_scatter_tensor_coalesced(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for op in ops_of(dtype):
        wholes = [numbers(me.rank, 3 * size, dtype, op) for size in SIZES]
        outputs = [torch.empty(size, dtype=dtype) for size in SIZES]
        with dist._coalescing_manager():
            for output, whole in zip(outputs, wholes, strict=True):
                dist.reduce_scatter_tensor(output, whole, op_named(op))
        for output in outputs:
            size = output.numel()
            check_part(output, me, me.rank * size, 3 * size, dtype, op)


@for_every_dtype
def broadcast(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for size in SIZES:
        for root in range(me.world):
            tensor = bits(me.rank, size, dtype)
            dist.broadcast(tensor, root)
            assert_bits(tensor, bits(root, size, dtype), f"{size} from {root}")


@for_every_dtype
def all_gather(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for size in SIZES:
        outputs = [torch.empty(size, dtype=dtype) for _ in range(me.world)]
        dist.all_gather(outputs, bits(me.rank, size, dtype))
        for rank, output in enumerate(outputs):
            assert_bits(output, bits(rank, size, dtype), f"{size} from {rank}")


@for_every_dtype
def all_gather_of_uneven_parts(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    sizes = [1001, 0, 5]
    outputs = [torch.empty(size, dtype=dtype) for size in sizes]
    dist.all_gather(outputs, bits(me.rank, sizes[me.rank], dtype))
    for rank, output in enumerate(outputs):
        assert_bits(output, bits(rank, sizes[rank], dtype), f"from {rank}")


@for_every_dtype
def all_gather_into_tensor(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for size in SIZES:
        mine, expected = bits(me.rank, size, dtype), joined(size, dtype)
        behind_each_other = torch.empty(3 * size, dtype=dtype)
        dist.all_gather_into_tensor(behind_each_other, mine)
        assert_bits(behind_each_other, expected, f"{size}, behind each other")
        stacked = torch.empty(3, size, dtype=dtype)
        dist.all_gather_into_tensor(stacked, mine)
        assert_bits(stacked.flatten(), expected, f"{size}, stacked")
        in_place = torch.empty(3 * size, dtype=dtype)
        inside = in_place[me.rank * size : (me.rank + 1) * size].copy_(mine)
        dist.all_gather_into_tensor(in_place, inside)
        assert_bits(in_place, expected, f"{size}, in place")


@for_every_dtype
def all_gather_into_tensor_coalesced(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    outputs = [torch.empty(3 * size, dtype=dtype) for size in SIZES]
    with dist._coalescing_manager():
        for output, size in zip(outputs, SIZES, strict=True):
            dist.all_gather_into_tensor(output, bits(me.rank, size, dtype))
    for output, size in zip(outputs, SIZES, strict=True):
        assert_bits(output, joined(size, dtype), f"{size}")


@for_every_dtype
def all_gather_of_lists(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    outputs = [[torch.empty(size, dtype=dtype) for size in SIZES] for _ in range(me.world)]
    inputs = [bits(me.rank, size, dtype) for size in SIZES]
    dist.group.WORLD.allgather_coalesced(outputs, inputs).wait()
    for rank, each in enumerate(outputs):
        for output, size in zip(each, SIZES, strict=True):
            assert_bits(output, bits(rank, size, dtype), f"{size} from {rank}")


@for_every_dtype
def gather(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for root, size in [(0, 7), (1, 0), (2, 4099), (1, 1)]:
        is_root = me.rank == root
        outputs = [torch.empty(size, dtype=dtype) for _ in range(3)] if is_root else None
        dist.gather(bits(me.rank, size, dtype), outputs, dst=root)
        for rank, output in enumerate(outputs or []):
            assert_bits(output, bits(rank, size, dtype), f"{size} from {rank}")


@for_every_dtype
def scatter(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for root, size in [(0, 7), (1, 0), (2, 4099), (1, 1)]:
        parts = [bits(10 * rank, size, dtype) for rank in range(3)] if me.rank == root else None
        output = torch.empty(size, dtype=dtype)
        dist.scatter(output, parts, src=root)
        assert_bits(output, bits(10 * me.rank, size, dtype), f"{size} from {root}")


@for_every_dtype
def all_to_all(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for size in SIZES:
        # What goes from one rank to another is longer the higher both are, if it is anything.
        lengths = [[size + (a + b) * min(size, 1) for b in range(3)] for a in range(3)]
        inputs = [bits(10 * me.rank + to, lengths[me.rank][to], dtype) for to in range(3)]
        outputs = [torch.empty(lengths[source][me.rank], dtype=dtype) for source in range(3)]
        dist.all_to_all(outputs, inputs)
        for source, output in enumerate(outputs):
            expected = bits(10 * source + me.rank, lengths[source][me.rank], dtype)
            assert_bits(output, expected, f"{size} from {source}")


@for_every_dtype
def all_to_all_single(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for size in SIZES:
        output = torch.empty(3 * size, dtype=dtype)
        mine = torch.cat([bits(10 * me.rank + to, size, dtype) for to in range(3)])
        dist.all_to_all_single(output, mine)
        expected = torch.cat([bits(10 * source + me.rank, size, dtype) for source in range(3)])
        assert_bits(output, expected, f"{size}")


@for_every_dtype
def all_to_all_single_of_uneven_parts(me: Rank, name: str) -> None:
    dtype, width = dtype_named(name), 3
    rows = [[0, 2, 1], [5, 0, 3], [1, 40, 0]]  # of `width` elements, from each to each
    give, take = rows[me.rank], [rows[source][me.rank] for source in range(3)]
    mine = [bits(10 * me.rank + to, width * give[to], dtype) for to in range(3)]
    output = torch.empty(sum(take), width, dtype=dtype)
    dist.all_to_all_single(output, torch.cat(mine).reshape(-1, width), take, give)
    expected = [bits(10 * source + me.rank, width * take[source], dtype) for source in range(3)]
    assert_bits(output.flatten(), torch.cat(expected), "rows")


@for_every_dtype
def messages(me: Rank, name: str) -> None:
    dtype = dtype_named(name)
    for size in SIZES:
        incoming = torch.empty(size, dtype=dtype)
        sending = dist.isend(bits(me.rank, size, dtype), me.next)
        dist.recv(incoming, me.previous)
        sending.wait()
        assert_bits(incoming, bits(me.previous, size, dtype), f"{size}")


@program(world=3, cases=["20011", "300007", "2000003"])
def every_collective_of_many_elements(me: Rank, count: str) -> None:
    # Sizes on both sides of every threshold at which data takes another way.
    size, dtype = int(count), torch.int32
    tensor = numbers(me.rank, size, dtype)
    dist.all_reduce(tensor)
    assert_combined(tensor, range(3), dtype, "SUM", "all_reduce")
    tensor = numbers(me.rank, size, dtype)
    dist.reduce(tensor, 2)
    if me.rank == 2:
        assert_combined(tensor, range(3), dtype, "SUM", "reduce")
    output, whole = torch.empty(size, dtype=dtype), numbers(me.rank, 3 * size, dtype)
    dist.reduce_scatter_tensor(output, whole)
    check_part(output, me, me.rank * size, 3 * size, dtype, "SUM")
    tensor = bits(me.rank, size, dtype)
    dist.broadcast(tensor, 1)
    assert_bits(tensor, bits(1, size, dtype), "broadcast")
    gathered = torch.empty(3 * size, dtype=dtype)
    dist.all_gather_into_tensor(gathered, bits(me.rank, size, dtype))
    assert_bits(gathered, joined(size, dtype), "all_gather_into_tensor")
    outputs = [torch.empty(size, dtype=dtype) for _ in range(3)] if me.rank == 0 else None
    dist.gather(bits(me.rank, size, dtype), outputs)
    for rank, each in enumerate(outputs or []):
        assert_bits(each, bits(rank, size, dtype), f"gather from {rank}")
    parts = [bits(rank, size, dtype) for rank in range(3)] if me.rank == 2 else None
    dist.scatter(output, parts, src=2)
    assert_bits(output, bits(me.rank, size, dtype), "scatter")
    mine = torch.cat([bits(10 * me.rank + to, size, dtype) for to in range(3)])
    dist.all_to_all_single(gathered, mine)
    expected = torch.cat([bits(10 * source + me.rank, size, dtype) for source in range(3)])
    assert_bits(gathered, expected, "all_to_all_single")
    sending = dist.isend(bits(me.rank, size, dtype), me.next)
    dist.recv(output, me.previous)
    sending.wait()
    assert_bits(output, bits(me.previous, size, dtype), "message")


def joined(size: int, dtype: torch.dtype) -> torch.Tensor:
    """The elements of all ranks, behind each other."""
    return torch.cat([bits(rank, size, dtype) for rank in range(3)])


def check_part(
    output: torch.Tensor, me: Rank, start: int, size: int, dtype: torch.dtype, op: str
) -> None:
    """A tensor is its part of the combination of wholes of a size."""
    expected = combined(range(me.world), size, dtype, op)[start : start + output.numel()]
    assert_result(output, expected, op, f"{op} of {size}, from {start}")
