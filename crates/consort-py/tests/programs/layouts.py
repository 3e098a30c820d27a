"""Tensors that do not lie in memory as they are read: every collective takes and fills them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist
from ranks import Rank, program

from programs.coded import assert_bits

LAYOUTS: dict[str, Callable[[tuple[int, int], torch.dtype], torch.Tensor]] = {
    "transposed": lambda shape, dtype: torch.zeros(shape[1], shape[0], dtype=dtype).t(),
    "strided": lambda shape, dtype: torch.zeros(2 * shape[0], 3 * shape[1], dtype=dtype)[::2, 1::3],
    "behind_one_element": lambda shape, dtype: torch.zeros(shape[0] * shape[1] + 1, dtype=dtype)[
        1:
    ].reshape(shape),
    "at_an_odd_address": lambda shape, dtype: odd_address(shape, dtype),
    "column_of_a_batch": lambda shape, dtype: torch.zeros(*shape, 4, dtype=dtype)[..., 2],
}


@program(world=3, cases=list(LAYOUTS))
def operands_may_be(me: Rank, layout: str) -> None:
    for dtype in (torch.float32, torch.int64, torch.complex64):
        every_collective(me, LAYOUTS[layout], dtype)


@program(world=3)
def ranks_may_lay_out_their_tensors_differently(me: Rank) -> None:
    make = [contiguous, LAYOUTS["transposed"], LAYOUTS["strided"]][me.rank]
    every_collective(me, make, torch.int64)


@program(world=3)
def inputs_may_be_expanded(me: Rank) -> None:
    mine = torch.tensor([[me.rank + 1], [10 * me.rank]]).expand(2, 5)
    wanted = [torch.tensor([[rank + 1], [10 * rank]]).expand(2, 5).clone() for rank in range(3)]
    outputs = [torch.zeros(2, 5, dtype=torch.int64) for _ in range(3)]
    dist.all_gather(outputs, mine)
    for rank, output in enumerate(outputs):
        assert_bits(output, wanted[rank], f"all_gather from {rank}")
    single = torch.zeros(6, 5, dtype=torch.int64)
    dist.all_gather_into_tensor(single, mine)
    assert_bits(single, torch.cat(wanted), "all_gather_into_tensor")
    dist.all_to_all(outputs, [mine] * 3)
    for rank, output in enumerate(outputs):
        assert_bits(output, wanted[rank], f"all_to_all from {rank}")
    part = torch.zeros(2, 5, dtype=torch.int64)
    dist.reduce_scatter(part, [mine] * 3)
    assert_bits(part, sum(wanted[1:], wanted[0]), "reduce_scatter")
    dist.scatter(part, [mine] * 3 if me.rank == 1 else None, src=1)
    assert_bits(part, wanted[1], "scatter")
    dist.gather(mine, outputs if me.rank == 2 else None, dst=2)
    if me.rank == 2:
        assert_bits(outputs[1], wanted[1], "gather")
    sending = dist.isend(mine, me.next)
    dist.recv(part, me.previous)
    sending.wait()
    assert_bits(part, wanted[me.previous], "message")


@program(world=3)
def images_may_be_channels_last(me: Rank) -> None:
    def image(rank: int) -> torch.Tensor:
        plain = torch.arange(2 * 3 * 5 * 7.0).reshape(2, 3, 5, 7) + 1000 * rank
        return plain.contiguous(memory_format=torch.channels_last)

    summed = image(me.rank)
    dist.all_reduce(summed)
    assert summed.is_contiguous(memory_format=torch.channels_last)
    assert_bits(summed, image(0) + image(1) + image(2), "all_reduce")
    sent = image(me.rank)
    dist.broadcast(sent, 1)
    assert_bits(sent, image(1), "broadcast")
    outputs = [torch.zeros_like(image(0)) for _ in range(3)]
    dist.all_gather(outputs, image(me.rank))
    for rank, output in enumerate(outputs):
        assert_bits(output, image(rank), f"all_gather from {rank}")
    # One rank's memory is in another order than the others'; the pixels stay where they are.
    mixed = image(me.rank) if me.rank == 0 else image(me.rank).contiguous()
    dist.all_reduce(mixed)
    assert_bits(mixed, image(0) + image(1) + image(2), "all_reduce of mixed orders")


@program(world=3)
def conjugates_and_negatives_may_be_views(me: Rank) -> None:
    plain = (torch.arange(6.0) + me.rank + 1j * torch.arange(1.0, 7.0)).to(torch.complex64)
    wanted = [
        (torch.arange(6.0) + rank - 1j * torch.arange(1.0, 7.0)).to(torch.complex64)
        for rank in range(3)
    ]
    # torch.distributed's functions refuse conjugates before the backend sees them; groups do not.
    group = dist.group.WORLD
    outputs = [torch.zeros(6, dtype=torch.complex64) for _ in range(3)]
    group.allgather([outputs], [plain.conj()]).wait()
    for rank, output in enumerate(outputs):
        assert_bits(output, wanted[rank], f"all_gather of conjugates from {rank}")
    target = torch.zeros(6, dtype=torch.complex64)
    group.broadcast([plain if me.rank == 0 else target.conj()]).wait()
    if me.rank != 0:
        assert_bits(target, wanted[0], "broadcast into a conjugate")
    summed = plain.clone()
    group.allreduce([summed.conj()]).wait()
    assert_bits(summed, (wanted[0] + wanted[1] + wanted[2]).conj(), "all_reduce of conjugates")
    negative = plain.conj().imag  # imaginary parts, with the sign noted instead of written
    assert negative.is_neg()
    reals = [torch.zeros(6) for _ in range(3)]
    dist.all_gather(reals, negative)
    for rank, output in enumerate(reals):
        assert_bits(output, wanted[rank].imag.clone(), f"all_gather of negatives from {rank}")


@program(world=3)
def empty_and_scalar_tensors_are_welcome(me: Rank) -> None:
    scalar = torch.tensor(me.rank + 1)
    dist.all_reduce(scalar)
    assert scalar.shape == () and scalar.item() == 6
    empty = torch.zeros(3, 0, 5)
    dist.all_reduce(empty)
    dist.broadcast(empty, 2)
    gathered = torch.zeros(9, 0, 5)
    dist.all_gather_into_tensor(gathered, empty)
    outputs = [torch.tensor(0) for _ in range(3)]
    dist.all_gather(outputs, torch.tensor(10 * me.rank))
    assert [output.item() for output in outputs] == [0, 10, 20]


@program(world=3)
def tensors_that_require_gradients_are_moved(me: Rank) -> None:
    parameter = torch.nn.Parameter(torch.full((4,), 1.0 + me.rank))
    dist.broadcast(parameter, 1)
    assert_bits(parameter, torch.full((4,), 2.0), "broadcast")
    with torch.no_grad():
        dist.all_reduce(parameter)
    assert parameter.requires_grad and parameter.is_leaf
    assert_bits(parameter, torch.full((4,), 6.0), "all_reduce")
    turned = torch.nn.Parameter(torch.full((3, 2), 1.0 + me.rank).t())
    dist.broadcast(turned.data, 2)
    assert_bits(turned, torch.full((2, 3), 3.0), "broadcast of a transposed one")


def every_collective(
    me: Rank, make: Callable[[tuple[int, int], torch.dtype], torch.Tensor], dtype: torch.dtype
) -> None:
    """Inputs and outputs of every collective are made in a way; what comes out is right."""
    rows, columns = 3, 5
    shape = (rows, columns)

    def filled(code: int, shape: tuple[int, int] = shape) -> torch.Tensor:
        return make(shape, dtype).copy_(plain(code, shape, dtype))

    codes = [10 * rank + 1 for rank in range(3)]
    everyone = [plain(code, shape, dtype) for code in codes]
    mine, total = codes[me.rank], sum(everyone[1:], everyone[0])

    tensor = filled(mine)
    dist.all_reduce(tensor)
    assert_bits(tensor, total, "all_reduce")
    tensor = filled(mine)
    dist.all_reduce(tensor, async_op=True).wait()
    assert_bits(tensor, total, "all_reduce, asynchronous")
    tensor = filled(mine)
    dist.reduce(tensor, 1)
    assert_bits(tensor, total if me.rank == 1 else everyone[me.rank], "reduce")
    tensor = filled(mine)
    dist.broadcast(tensor, 2)
    assert_bits(tensor, everyone[2], "broadcast")

    outputs = [make(shape, dtype) for _ in range(3)]
    dist.all_gather(outputs, filled(mine))
    for rank, output in enumerate(outputs):
        assert_bits(output, everyone[rank], f"all_gather from {rank}")
    whole = make((3 * rows, columns), dtype)
    dist.all_gather_into_tensor(whole, filled(mine))
    assert_bits(whole, torch.cat(everyone), "all_gather_into_tensor")
    outputs = [make(shape, dtype) for _ in range(3)]
    dist.gather(filled(mine), outputs if me.rank == 0 else None, dst=0)
    for rank, output in enumerate(outputs if me.rank == 0 else []):
        assert_bits(output, everyone[rank], f"gather from {rank}")
    tensor = make(shape, dtype)
    dist.scatter(tensor, [filled(code) for code in codes] if me.rank == 1 else None, src=1)
    assert_bits(tensor, everyone[me.rank], "scatter")

    tensor = make(shape, dtype)
    dist.reduce_scatter(tensor, [filled(mine + 100 * to) for to in range(3)])
    parts = [plain(code + 100 * me.rank, shape, dtype) for code in codes]
    assert_bits(tensor, sum(parts[1:], parts[0]), "reduce_scatter")
    tensor = make(shape, dtype)
    dist.reduce_scatter_tensor(tensor, filled(mine, (3 * rows, columns)))
    here = slice(rows * me.rank, rows * (me.rank + 1))
    large = [plain(code, (3 * rows, columns), dtype)[here] for code in codes]
    assert_bits(tensor, sum(large[1:], large[0]), "reduce_scatter_tensor")

    outputs = [make(shape, dtype) for _ in range(3)]
    dist.all_to_all(outputs, [filled(mine + 100 * to) for to in range(3)])
    for rank, output in enumerate(outputs):
        wanted = plain(codes[rank] + 100 * me.rank, shape, dtype)
        assert_bits(output, wanted, f"all_to_all from {rank}")
    whole = make((3 * rows, columns), dtype)
    dist.all_to_all_single(whole, filled(mine, (3 * rows, columns)))
    assert_bits(whole, torch.cat(large), "all_to_all_single")

    sending = dist.isend(filled(mine), me.next)
    tensor = make(shape, dtype)
    dist.recv(tensor, me.previous)
    sending.wait()
    assert_bits(tensor, everyone[me.previous], "message")


def contiguous(shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor as most are."""
    return torch.zeros(shape, dtype=dtype)


def plain(code: int, shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    """Numbers that depend on a code and the position."""
    values = torch.arange(shape[0] * shape[1]).reshape(shape) + 1000 * code
    return values.to(dtype) * (1 + 2j) if dtype.is_complex else values.to(dtype)


def odd_address(shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor whose elements begin at an odd address."""
    kind = np.dtype(str(dtype).removeprefix("torch."))
    memory = np.zeros(shape[0] * shape[1] * kind.itemsize + 16, dtype=np.uint8)
    offset = 1 - memory.ctypes.data % 2
    tensor = torch.from_numpy(memory[offset : offset - 16].view(kind)).reshape(shape)
    assert tensor.data_ptr() % 2 == 1
    return tensor
