"""Data that tells who made it and where it belongs, and what is to come of it.

Numbers are small, times a factor that needs most of the dtype's bits: sums of them are exact, and
none is right by accident if half of the bits were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

Op = dist.ReduceOp


def numbers(rank: int, size: int, dtype: torch.dtype, op: str = "SUM") -> torch.Tensor:
    """A rank's numbers for a reduction."""
    return to_tensor(small(rank, size, dtype, op), dtype, op)


def combined(ranks: Sequence[int], size: int, dtype: torch.dtype, op: str) -> torch.Tensor:
    """What the ranks' numbers are when they are combined, made without any communication."""
    if dtype == torch.bool:
        truths = [small(rank, size, dtype, op) % 2 == 1 for rank in ranks]
        return torch.from_numpy(reduce(TRUTHS[op], truths))
    if not dtype.is_floating_point and not dtype.is_complex:
        typed = [numbers(rank, size, dtype, op).numpy() for rank in ranks]
        if op == "AVG":
            exact = [part.astype(object) for part in typed]
            quotients = sum(exact[1:], exact[0]) // len(ranks)
            return torch.from_numpy(quotients.astype(typed[0].dtype))
        return torch.from_numpy(np.ascontiguousarray(reduce(INTEGERS[op], typed)))
    parts = [small(rank, size, dtype, op) for rank in ranks]
    if op == "AVG":
        summed = to_tensor(sum(parts), dtype, op, parts=len(parts))
        return (summed.to(wide(dtype)) / len(ranks)).to(dtype)
    factor = FACTOR if op == "PREMUL_SUM" else 1
    return to_tensor(reduce(FLOATS[op], parts) * factor, dtype, op, parts=len(parts) * factor)


def bits(rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """A rank's elements for a call that only moves them: any pattern of bits that there is."""
    generator = np.random.default_rng([rank, size, 4711])
    raw = generator.integers(0, 256, size * dtype.itemsize, dtype=np.uint8)
    if dtype == torch.bool:
        return torch.from_numpy(raw % 2 == 1)
    return torch.from_numpy(raw).view(dtype) if size else torch.empty(0, dtype=dtype)


def assert_bits(actual: torch.Tensor, expected: torch.Tensor, where: str) -> None:
    """Two tensors are the same in shape, dtype and every byte."""
    assert actual.dtype == expected.dtype, f"{where}: {actual.dtype} is not {expected.dtype}"
    assert actual.shape == expected.shape, f"{where}: {actual.shape} is not {expected.shape}"
    ours, theirs = raw_bytes(actual), raw_bytes(expected)
    if not torch.equal(ours, theirs):
        width = actual.dtype.itemsize
        first = int((ours != theirs).nonzero()[0]) // width
        here = slice(first * width, (first + 1) * width)
        raise AssertionError(
            f"{where}: element {first} of {actual.numel()} is {ours[here].tolist()} in bytes, and "
            f"should be {theirs[here].tolist()}"
        )


def assert_combined(
    actual: torch.Tensor, ranks: Sequence[int], dtype: torch.dtype, op: str, where: str
) -> None:
    """A tensor is what the ranks' numbers give."""
    expected = combined(ranks, actual.numel(), dtype, op).reshape(actual.shape)
    assert_result(actual, expected, op, where)


def assert_result(actual: torch.Tensor, expected: torch.Tensor, op: str, where: str) -> None:
    """The result of a reduction has the expected bits; averages may be rounded twice."""
    dtype = expected.dtype
    if op != "AVG" or not (dtype.is_floating_point or dtype.is_complex):
        assert_bits(actual, expected, where)
        return
    assert actual.dtype == dtype, f"{where}: {actual.dtype} is not {dtype}"
    torch.testing.assert_close(
        actual.to(wide(dtype)),
        expected.to(wide(dtype)),
        rtol=2 * torch.finfo(dtype).eps,
        atol=0.0,
        msg=lambda text: f"{where}: {text}",
    )


def ops_of(dtype: torch.dtype) -> list[str]:
    """The reduce operations that make sense for a dtype."""
    if dtype.is_complex:
        return ["SUM", "AVG"]
    if dtype.is_floating_point:
        return ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "PREMUL_SUM"]
    if dtype == torch.bool:
        return list(TRUTHS)
    return list(INTEGERS)


def op_named(name: str) -> Any:
    """The reduce operation of a name."""
    if name == "PREMUL_SUM":
        return dist._make_nccl_premul_sum(float(FACTOR))
    return getattr(Op, name)


def small(rank: int, size: int, dtype: torch.dtype, op: str) -> np.ndarray:
    """Small numbers that depend on rank and position."""
    position = np.arange(size, dtype=np.int64)
    mixed = position * 7 + rank * 3 + position // 5 * rank
    if op == "PRODUCT" and dtype != torch.bool:
        return np.left_shift(1, mixed % 3)
    return mixed % (3 if dtype.itemsize == 1 and dtype.is_floating_point else 5)


def to_tensor(values: np.ndarray, dtype: torch.dtype, op: str, parts: int = 1) -> torch.Tensor:
    """Small numbers as a tensor, times the dtype's factor. Imaginary parts are larger by one."""
    if dtype == torch.bool:
        return torch.from_numpy(values % 2 == 1)
    factor = 1 if op == "PRODUCT" else FACTORS.get(dtype, 1)
    if dtype.is_complex:
        return torch.from_numpy((values + 1j * (values + parts)) * factor).to(dtype)
    if dtype.is_floating_point:
        return torch.from_numpy(values.astype(np.float64) * factor).to(dtype)
    kind = np.dtype(str(dtype).removeprefix("torch."))
    return torch.from_numpy(values.astype(kind) * np.asarray(factor, kind))


def wide(dtype: torch.dtype) -> torch.dtype:
    """A dtype in which numbers of another can be compared."""
    return torch.complex128 if dtype.is_complex else torch.float64


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as bytes, in the order in which they are read."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().flatten()
    return plain.view(torch.uint8) if plain.numel() else torch.empty(0, dtype=torch.uint8)


def dtype_named(name: str) -> torch.dtype:
    """The dtype of a name."""
    return getattr(torch, name)


DTYPES = [
    "float32", "float64", "float16", "bfloat16",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip

SIZES = [0, 1, 7, 4099]

FACTOR = 2  # of premultiplied sums

FACTORS: dict[torch.dtype, float] = {
    torch.float32: 1 + 2**-12,
    torch.float64: 1 + 2**-40,
    torch.complex64: 1 + 2**-12,
    torch.complex128: 1 + 2**-40,
    torch.int16: 2**11 + 1,
    torch.uint16: 2**12 + 1,
    torch.int32: 2**27 + 1,
    torch.uint32: 2**28 + 1,
    torch.int64: 2**59 + 1,
    torch.uint64: 2**60 + 1,
}

FLOATS: dict[str, Callable[..., np.ndarray]] = {
    "SUM": np.add,
    "PREMUL_SUM": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
}

INTEGERS: dict[str, Callable[..., np.ndarray]] = {
    "SUM": np.add,
    "AVG": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}

TRUTHS: dict[str, Callable[..., np.ndarray]] = {
    "SUM": np.logical_or,
    "PRODUCT": np.logical_and,
    "MIN": np.logical_and,
    "MAX": np.logical_or,
    "BAND": np.logical_and,
    "BOR": np.logical_or,
    "BXOR": np.logical_xor,
}
