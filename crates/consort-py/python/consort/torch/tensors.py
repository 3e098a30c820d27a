"""Tensors as memory: where their bytes lie, and what they mean."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from consort._core import dtypes
from consort.errors import mistake

Region = tuple[int, int]


def check(tensor: Tensor, call: str) -> None:
    """Refuses what is no plain tensor on the CPU."""
    if not tensor.is_cpu:
        raise mistake(
            f"{call}: unsupported device type {tensor.device.type}: consort moves tensors on the CPU"
        )
    if tensor.layout != torch.strided:
        raise mistake(f"{call}: unsupported layout {tensor.layout}")


def code(tensor: Tensor, call: str) -> int:
    """What consort calls the tensor's type, for a call that combines numbers."""
    found = _CODES.get(tensor.dtype)
    if found is None:
        raise mistake(f"{call}: invalid tensor type: {tensor.dtype} cannot be combined")
    return found


def code_to_move(tensor: Tensor) -> int:
    """What consort calls the tensor's type, for a call that only moves bytes."""
    return _CODES.get(tensor.dtype, BYTES)


def region(tensor: Tensor) -> Region:
    """Where the bytes of a contiguous tensor lie, and how many they are."""
    address, size = tensor.data_ptr(), tensor.nbytes
    if address == 0 and size > 0:
        return region(_with_memory(tensor))
    return address, size


def _with_memory(tensor: Tensor) -> Tensor:
    """The tensor that a result of functional collectives stands for, once it is there."""
    if hasattr(tensor, "trigger_wait"):
        return tensor.trigger_wait()
    raise mistake(
        f"tensors: this {type(tensor).__name__} has no memory of its own: give the tensor that it "
        "stands for (of a DTensor, to_local())"
    )


def is_plain(tensor: Tensor) -> bool:
    """Whether the tensor's numbers lie in memory as they are read, one behind the other."""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def to_read(tensor: Tensor) -> Tensor:
    """The tensor, or a plain copy of it."""
    return tensor if is_plain(tensor) else tensor.resolve_conj().resolve_neg().contiguous()


class Staging:
    """Plain memory for tensors that are to be written, which are not all plain themselves."""

    __slots__ = ("copies",)

    def __init__(self) -> None:
        self.copies: list[tuple[Tensor, Tensor]] = []

    def to_write(self, tensor: Tensor) -> Tensor:
        """The tensor, or plain memory for what it is to become."""
        if is_plain(tensor):
            return tensor
        return self._note(tensor, torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu"))

    def to_change(self, tensor: Tensor) -> Tensor:
        """The tensor, or a plain copy of what it is before the call."""
        if is_plain(tensor):
            return tensor
        # A copy that cannot be the tensor itself: `contiguous` may give that.
        return self._note(tensor, tensor.resolve_conj().resolve_neg().clone().contiguous())

    def _note(self, tensor: Tensor, copy: Tensor) -> Tensor:
        if torch._debug_has_internal_overlap(tensor) == _OVERLAPS:
            raise mistake(
                "tensors: several elements of a tensor that is to be written are the same memory "
                "(an expanded tensor): clone it first"
            )
        copy = copy if copy.is_contiguous() else copy.contiguous()
        self.copies.append((tensor, copy))
        return copy


def bring_back(copies: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Copies what was written elsewhere to where it belongs."""
    for tensor, copy in copies:
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            tensor.copy_(copy)


def storages(keep: Any) -> Any:
    """The memory of the tensors of a call: a tensor may be given other memory while the call runs."""
    if isinstance(keep, Tensor):
        return keep.untyped_storage() if keep.data_ptr() else keep
    if isinstance(keep, (tuple, list)):
        return [storages(part) for part in keep]
    return keep


def over(address: int, size: int, keeps: object) -> Tensor:
    """Bytes that lie somewhere, as a tensor that keeps what they lie in."""
    window = (ctypes.c_ubyte * size).from_address(address)
    window.keeps = keeps  # type: ignore[attr-defined]
    return torch.frombuffer(window, dtype=torch.uint8)


def _codes() -> dict[torch.dtype, int]:
    names = {
        "f32": torch.float32,
        "f64": torch.float64,
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "f8e4m3": torch.float8_e4m3fn,
        "f8e5m2": torch.float8_e5m2,
        "i8": torch.int8,
        "i16": torch.int16,
        "i32": torch.int32,
        "i64": torch.int64,
        "u8": torch.uint8,
        "u16": torch.uint16,
        "u32": torch.uint32,
        "u64": torch.uint64,
        "bool": torch.bool,
        "c64": torch.complex64,
        "c128": torch.complex128,
    }
    return {names[name]: number for number, name in enumerate(dtypes())}


_CODES = _codes()
#: The code of bytes, which only move.
BYTES = _CODES[torch.uint8]
# What PyTorch answers if elements of a tensor are surely the same memory.
_OVERLAPS = 1
