"""Memory that all ranks of a host reach, as tensors.

Each rank has a window of the same size. A tensor over another rank's window *is* that rank's memory:
what is written there is seen by its owner, and nothing is sent. Who may write when is for the program
to settle, with barriers and signals.

    import consort.torch.symm_mem as symm_mem
    import torch
    import torch.distributed as dist

    dist.init_process_group("consort")
    mine = symm_mem.empty(1024, dtype=torch.float32)
    handle = symm_mem.rendezvous(mine)
    mine.fill_(dist.get_rank())
    handle.barrier()
    right = handle.get_buffer((handle.rank + 1) % handle.world_size, mine.shape, mine.dtype)
    assert right[0] == (handle.rank + 1) % handle.world_size

Collectives on tensors that lie here work where they lie, without copying them in: then the tensors
of all ranks have to lie here.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from consort import _core
from consort.torch.group import core_of
from consort.torch.tensors import over


def empty(
    *size: int | Sequence[int],
    dtype: torch.dtype | None = None,
    device: Any = "cpu",
    group: Any = None,
    channels: int = 4,
) -> Tensor:
    """A tensor in this rank's window of new symmetric memory; zero at first.

    Every rank of the group has to call it, with the same size and type. The memory is given back when
    no rank has a tensor over it any more.
    """
    if torch.device(device).type != "cpu":
        raise ValueError(f"symm_mem.empty: consort's memory is on the CPU, not on {device}")
    shape = _shape(size)
    if any(length < 0 for length in shape):
        raise ValueError(f"symm_mem.empty: there is no tensor of shape {list(shape)}")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    elements = math.prod(shape)
    core = core_of(group, "symm_mem.empty")
    memory = core.symmetric(max(elements * dtype.itemsize, 1), channels)
    tensor = _over(memory, memory.rank, 0, elements, dtype).reshape(shape)
    storage = tensor.untyped_storage()
    _handles[storage.data_ptr()] = Handle(memory, core.name)
    weakref.finalize(storage, _handles.pop, storage.data_ptr(), None)
    return tensor


def rendezvous(tensor: Tensor, group: Any = None) -> Handle:
    """The windows of all ranks, of which this tensor is in this rank's.

    The group is the one that the tensor was made for: it may be named, and is compared.
    """
    handle = _handles.get(tensor.untyped_storage().data_ptr())
    if handle is None:
        raise ValueError("symm_mem.rendezvous: the tensor was not made by symm_mem.empty")
    if group is not None and core_of(group, "symm_mem.rendezvous").name != handle.group_name:
        raise ValueError(
            f"symm_mem.rendezvous: the tensor was made for group {handle.group_name}, not for this"
        )
    return handle


class Handle:
    """Every rank's window of symmetric memory."""

    def __init__(self, memory: _core.Symmetric, group_name: str) -> None:
        self._memory = memory
        #: The group whose ranks have windows, by consort's name for it.
        self.group_name = group_name

    @property
    def rank(self) -> int:
        """This process's number among those that have a window."""
        return self._memory.rank

    @property
    def world_size(self) -> int:
        """How many windows there are."""
        return self._memory.world

    @property
    def buffer_size(self) -> int:
        """How many bytes each has."""
        return self._memory.bytes

    @property
    def buffer_ptrs(self) -> list[int]:
        """Where each rank's window is in this process's memory."""
        return [self._memory.address(rank) for rank in range(self.world_size)]

    def get_buffer(
        self, rank: int, sizes: Sequence[int], dtype: torch.dtype, storage_offset: int = 0
    ) -> Tensor:
        """A tensor over a rank's window, from the element ``storage_offset`` on."""
        elements = math.prod(sizes)
        if (storage_offset + elements) * dtype.itemsize > self.buffer_size or storage_offset < 0:
            raise ValueError(
                f"symm_mem: {elements} elements of {dtype} at {storage_offset} are not within a "
                f"window of {self.buffer_size} bytes"
            )
        return _over(self._memory, rank, storage_offset, elements, dtype).reshape(tuple(sizes))

    def get_remote_tensor(self, peer: int, sizes: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor over the beginning of a rank's window."""
        return self.get_buffer(peer, sizes, dtype)

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Waits until every rank has come here, and sees what each has written before."""
        self._memory.barrier(channel, _seconds(timeout_ms))

    def put_signal(self, dst_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Raises a counter of another rank, which can then see what was written before."""
        self._memory.put_signal(dst_rank, channel)

    def wait_signal(self, src_rank: int, channel: int = 0, timeout_ms: int = 0) -> None:
        """Waits until a rank has raised this one's counter, and takes it back by one."""
        self._memory.wait_signal(src_rank, channel, _seconds(timeout_ms))


def _over(
    memory: _core.Symmetric, rank: int, offset: int, elements: int, dtype: torch.dtype
) -> Tensor:
    """A tensor over part of a rank's window, which keeps the memory."""
    start = memory.address(rank) + offset * dtype.itemsize
    # A tensor without elements lies over one byte, so that it has a place.
    size = elements * dtype.itemsize
    return over(start, max(size, 1), memory)[:size].view(dtype)


def _shape(size: tuple[Any, ...]) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], Sequence):
        return tuple(size[0])
    return tuple(size)


def _seconds(timeout_ms: int) -> float | None:
    return timeout_ms / 1000 if timeout_ms > 0 else None


# The handle of each tensor that `empty` has made, by where its memory begins.
_handles: dict[int, Handle] = {}
