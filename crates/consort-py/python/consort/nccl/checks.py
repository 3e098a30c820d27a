"""What has to be right before NCCL is called: it takes addresses and counts for what they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from consort._core import Communicator
from consort.errors import mistake


class Tensor(Protocol):
    """Anything that says where its numbers lie, and what they are."""

    @property
    def dtype(self) -> Any: ...
    @property
    def device(self) -> Any: ...
    def data_ptr(self) -> int: ...
    def numel(self) -> int: ...
    def element_size(self) -> int: ...
    def is_contiguous(self) -> bool: ...


#: A way to combine: NCCL's number for it, or its name.
Op: TypeAlias = "int | str"
#: A stream for each tensor: its handle, or what has one as ``cuda_stream``; or the current ones.
Streams: TypeAlias = "Sequence[Any] | None"
#: A communicator for each tensor, or one for one tensor; or those of the tensors' devices.
Comms: TypeAlias = "Sequence[Communicator] | Communicator | None"


def collection(name: str, given: Any) -> list[Tensor]:
    """A list of tensors."""
    if is_tensor(given) or not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        kind = type(given).__name__
        raise TypeError(f"consort nccl: {name} should be a collection of tensors, not a {kind}")
    return [tensor(f"{name}[{at}]", each) for at, each in enumerate(given)]


def tensor(name: str, given: Any) -> Tensor:
    """One tensor."""
    if not is_tensor(given):
        raise TypeError(f"consort nccl: {name} should be a tensor, not a {type(given).__name__}")
    return given


def is_tensor(given: Any) -> bool:
    """Whether it has what a call needs."""
    wanted = ("data_ptr", "numel", "element_size", "is_contiguous", "dtype", "device")
    return not isinstance(given, type) and all(hasattr(given, name) for name in wanted)


def streams(given: Streams, count: int) -> list[Any]:
    """One stream for each tensor, `None` for the current one."""
    if given is None:
        return [None] * count
    if len(given) != count:
        raise mistake(f"nccl: number of streams ({len(given)}) does not match inputs ({count})")
    return list(given)


def communicators(given: Comms, count: int) -> list[Communicator]:
    """One communicator for each tensor; none if those of the devices are meant."""
    if given is None:
        return []
    if isinstance(given, Communicator):
        given = [given]
    if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
        kind = type(given).__name__
        raise TypeError(f"consort nccl: comm is not a sequence of communicators, but a {kind}")
    for at, comm in enumerate(given):
        if not isinstance(comm, Communicator):
            kind = type(comm).__name__
            raise TypeError(f"consort nccl: comms[{at}] should be a communicator, not a {kind}")
    if len(given) != count:
        raise mistake(
            f"nccl: number of communicators ({len(given)}) does not match inputs ({count})"
        )
    if len({comm.world for comm in given}) > 1 or len({comm.rank for comm in given}) < len(given):
        raise mistake("nccl: the communicators have to be different ranks of one")
    return list(given)


def root(given: int, world: int) -> None:
    """A rank that there is."""
    if not isinstance(given, int) or not 0 <= given < world:
        raise mistake(f"nccl: invalid root {given!r}: there are {world} ranks, from 0 on")


def not_empty(name: str, given: Sequence[Tensor]) -> None:
    """At least one tensor."""
    if not given:
        raise mistake(f"nccl: {name} can't be empty")


def same_number(inputs: Sequence[Tensor], outputs: Sequence[Tensor | None]) -> None:
    """As many outputs as inputs."""
    if len(inputs) != len(outputs):
        raise mistake(
            f"nccl: inputs and outputs have different lengths: {len(inputs)} and {len(outputs)}"
        )


def dense(name: str, given: Sequence[Tensor], home: str) -> None:
    """Dense, and where NCCL works."""
    for at, each in enumerate(given):
        if is_sparse(each) or kind_of_device(each) != home:
            what = "sparse" if is_sparse(each) else f"on {each.device}"
            if home == "cuda" and what == "on cpu":
                what += "; for tensors on the CPU, set CONSORT_NCCL_LIBRARY to libconsort_nccl.so"
            raise mistake(
                f"nccl: {name} have to be {home} dense tensors, and {name}[{at}] is {what}"
            )


def contiguous(name: str, given: Sequence[Tensor | None]) -> None:
    """One number behind the other."""
    for at, each in enumerate(given):
        if each is not None and not each.is_contiguous():
            raise mistake(f"nccl: {name}[{at}] is not contiguous: call contiguous() first")


def alike(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor | None], parts: tuple[int, int]
) -> None:
    """One dtype, no gaps, inputs of one size; outputs beside their inputs, and as long as needed."""
    first = inputs[0]
    for at, each in enumerate(inputs):
        if each.dtype != first.dtype:
            raise mistake(f"nccl: inputs[{at}] is {each.dtype}, and inputs[0] {first.dtype}")
    for at, into in enumerate(outputs):
        if into is not None and into.dtype != first.dtype:
            raise mistake(f"nccl: outputs[{at}] is {into.dtype}, and the inputs are {first.dtype}")
    contiguous("inputs", inputs)
    contiguous("outputs", outputs)
    for at, each in enumerate(inputs):
        if each.numel() != first.numel():
            raise mistake(
                f"nccl: inputs[{at}] has {each.numel()} elements, and inputs[0] {first.numel()}"
            )
    for at, (source, into) in enumerate(zip(inputs, outputs, strict=True)):
        if into is None:
            continue
        if str(into.device) != str(source.device):
            raise mistake(f"nccl: outputs[{at}] is on {into.device}, its input on {source.device}")
        if into.numel() * parts[0] != first.numel() * parts[1]:
            raise mistake(
                f"nccl: outputs[{at}] has {into.numel()} elements, and has to have "
                f"{first.numel() * parts[1] / parts[0]:g}"
            )


def apart(given: Sequence[Tensor], home: str) -> None:
    """Each on a device of its own. The CPU is as many devices as there are tensors."""
    devices = [str(each.device) for each in given]
    if home == "cuda" and len(set(devices)) < len(devices):
        raise mistake(f"nccl: inputs must be on unique devices, not on {', '.join(devices)}")


def operation(given: Op) -> str:
    """What consort calls a way to combine."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(_OPERATIONS):
        return _OPERATIONS[given]
    if isinstance(given, str) and given in _OPERATIONS:
        return given
    names = ", ".join(f"{number} ({name})" for number, name in enumerate(_OPERATIONS))
    raise mistake(f"nccl: there is no op {given!r}: choose one of {names}")


def dtype(given: Tensor) -> str:
    """What consort calls the type of a tensor's numbers."""
    name = str(given.dtype).rpartition(".")[2]
    if name not in _DTYPES:
        raise mistake(f"nccl: Unconvertible NCCL type {given.dtype}")
    return _DTYPES[name]


def device(given: Tensor, at: int) -> int:
    """The number of a tensor's device; on the CPU its place in the list."""
    number = str(given.device).partition(":")[2]
    return at if kind_of_device(given) == "cpu" or not number else int(number)


def region(given: Tensor) -> tuple[int, int]:
    """Where a tensor's bytes lie, and how many they are."""
    return given.data_ptr(), given.numel() * given.element_size()


def queue(stream: Any, given: Tensor) -> int:
    """The handle of a stream, or of the current one of a tensor's device."""
    if stream is None:
        torch = sys.modules.get("torch")
        if torch is None or kind_of_device(given) != "cuda":
            return 0
        stream = torch.cuda.current_stream(given.device)
    return int(getattr(stream, "cuda_stream", stream))


def kind_of_device(given: Tensor) -> str:
    """The kind of a tensor's device, such as `cuda`."""
    return str(getattr(given.device, "type", given.device)).partition(":")[0]


def is_sparse(given: Tensor) -> bool:
    """Whether a tensor says that it is sparse."""
    layout = str(getattr(given, "layout", ""))
    return bool(getattr(given, "is_sparse", False)) or "sparse" in layout


_OPERATIONS = ("sum", "product", "max", "min", "avg")
_DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
    "complex64": "c64",
    "complex128": "c128",
}
