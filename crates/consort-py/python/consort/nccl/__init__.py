"""NCCL's own calls, on tensors of one process: one for each of its devices or communicators.

The shape is that of ``torch.cuda.nccl``. What is given is checked before NCCL is called, roots are
honoured, and communicators are objects that can be closed.

    from consort import nccl

    nccl.all_reduce([a, b])                          # two devices of this process
    with nccl.init_rank(2, id, rank) as comm:        # one device of each of two processes
        nccl.all_reduce([a], comms=[comm])

Importing this needs neither NCCL nor PyTorch. NCCL is looked for when the first call needs it: the
file that ``CONSORT_NCCL_LIBRARY`` names, what the system has, or a wheel (``pip install
nvidia-nccl-cu12``). Tensors are whatever has ``data_ptr()``, ``numel()``, ``element_size()``,
``dtype``, ``device`` and ``is_contiguous()``; they are on CUDA devices, or on the CPU with consort's
own ``libconsort_nccl.so``.

A call returns when NCCL has put it on its streams. Tensors have to be kept, and left alone, until
these are done.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from consort._core import (
    Communicator,
    nccl_cached,
    nccl_call,
    nccl_init_rank,
    nccl_library,
    nccl_unique_id,
)
from consort.errors import Error, mistake
from consort.nccl import checks
from consort.nccl.checks import Comms, Op, Streams, Tensor

__all__ = [
    "AVG",
    "MAX",
    "MIN",
    "PROD",
    "SUM",
    "Communicator",
    "all_gather",
    "all_reduce",
    "broadcast",
    "built_against",
    "identity",
    "init_rank",
    "is_available",
    "reduce",
    "reduce_scatter",
    "unique_id",
    "version",
]

# NCCL's numbers for the ways to combine.
SUM, PROD, MAX, MIN, AVG = range(5)


def version() -> tuple[int, int, int]:
    """The version of the NCCL that is loaded."""
    return nccl_library()[0]


def built_against() -> tuple[int, int, int]:
    """The version whose functions consort knows."""
    return nccl_library()[2]


def identity() -> str | None:
    """What the loaded library says of itself, if it is consort's own, on host memory."""
    return nccl_library()[1]


def unique_id() -> bytes:
    """128 bytes with which ranks find each other: in this process, which lives until all have come."""
    return nccl_unique_id()


def init_rank(
    num_ranks: int, uid: bytes, rank: int, *, timeout: float | None = None
) -> Communicator:
    """Becomes one of so many ranks, together with the others that show the same id.

    ``timeout`` is in seconds, for this and for every call of the communicator. The device is the
    current one.
    """
    return nccl_init_rank(num_ranks, bytes(uid), rank, timeout)


def is_available(tensors: Sequence[Tensor]) -> bool:
    """Whether these tensors can be given to a call together.

    They can if there is an NCCL, and each is plain memory on a device of its own that it works on.
    """
    try:
        found = checks.collection("tensors", tensors)
        checks.dense("tensors", found, _home())
        checks.contiguous("tensors", found)
        checks.apart(found, _home())
    except (Error, TypeError):
        return False
    return True


def all_reduce(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor] | None = None,
    op: Op = SUM,
    streams: Streams = None,
    comms: Comms = None,
) -> None:
    """Combines all inputs; each output becomes the result. Without outputs the inputs do."""
    _call("all_reduce", inputs, inputs if outputs is None else outputs, op, 0, streams, comms)


def reduce(
    inputs: Sequence[Tensor],
    output: Tensor | None = None,
    root: int = 0,
    op: Op = SUM,
    streams: Streams = None,
    comms: Comms = None,
    *,
    outputs: Sequence[Tensor] | None = None,
) -> None:
    """Combines all inputs; the output, or the root's input, becomes the result.

    A list of outputs, of which the root's is taken, is deprecated, as in PyTorch.
    """
    if output is not None and outputs is not None:
        raise mistake("nccl: give output, or the deprecated outputs, but not both")
    if outputs is not None or isinstance(output, (list, tuple)):
        output = _of_root(output if outputs is None else outputs, root)
    _call("reduce", inputs, output, op, root, streams, comms)


def broadcast(
    inputs: Sequence[Tensor], root: int = 0, streams: Streams = None, comms: Comms = None
) -> None:
    """Every tensor becomes the root's."""
    _call("broadcast", inputs, inputs, SUM, root, streams, comms)


def all_gather(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    streams: Streams = None,
    comms: Comms = None,
) -> None:
    """Each output becomes all inputs, one behind the other."""
    _call("all_gather", inputs, outputs, SUM, 0, streams, comms)


def reduce_scatter(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    op: Op = SUM,
    streams: Streams = None,
    comms: Comms = None,
) -> None:
    """Combines all inputs; each output becomes its rank's part of the result."""
    _call("reduce_scatter", inputs, outputs, op, 0, streams, comms)


def _call(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor] | Tensor | None,
    op: Op,
    root: int,
    streams: Streams,
    comms: Comms,
) -> None:
    """Checks a call, from what is most likely wrong to what is least, and makes it."""
    given = checks.collection("inputs", inputs)
    into = _outputs(name, given, outputs)
    queues = checks.streams(streams, len(given))
    members = checks.communicators(comms, len(given))
    world = members[0].world if members else len(given)
    ranks = [member.rank for member in members] if members else list(range(world))
    if name in ("reduce", "broadcast"):
        checks.root(root, world)
    checks.not_empty("inputs", given)
    if name == "reduce":
        into = _at_root(given, into, ranks, root)
    checks.same_number(given, into)
    home = _home()
    checks.dense("inputs", given, home)
    checks.dense("outputs", [each for each in into if each is not None], home)
    checks.alike(given, into, _parts(name, world))
    checks.apart(given, home)
    way = checks.operation(op)
    kind = checks.dtype(given[0])
    if not members:
        members = nccl_cached([checks.device(tensor, at) for at, tensor in enumerate(given)])
    nccl_call(
        name,
        members,
        [checks.region(tensor) for tensor in given],
        [None if tensor is None else checks.region(tensor) for tensor in into],
        kind,
        way,
        root,
        [checks.queue(stream, tensor) for stream, tensor in zip(queues, given, strict=True)],
    )


def _outputs(
    name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | Tensor | None
) -> list[Tensor | None]:
    if name == "reduce":
        return [None if outputs is None else checks.tensor("output", outputs)]
    if outputs is None:
        raise mistake(f"nccl.{name}: it needs outputs")
    return list(checks.collection("outputs", outputs))


def _of_root(outputs: Any, root: int) -> Tensor:
    """What a list of outputs means."""
    found = checks.collection("outputs", outputs)
    checks.root(root, len(found))
    warnings.warn(
        "consort nccl: reduce with a list of outputs is deprecated; give output, a tensor",
        DeprecationWarning,
        stacklevel=3,
    )
    return found[root]


def _at_root(
    inputs: Sequence[Tensor], output: list[Tensor | None], ranks: list[int], root: int
) -> list[Tensor | None]:
    """The output, or the root's input, at the place of the root, if it is one of these."""
    into: list[Tensor | None] = [None] * len(inputs)
    if root in ranks:
        at = ranks.index(root)
        into[at] = inputs[at] if output[0] is None else output[0]
    return into


def _parts(name: str, world: int) -> tuple[int, int]:
    """How many times a part the inputs and the outputs are."""
    if name == "all_gather":
        return 1, world
    if name == "reduce_scatter":
        return world, 1
    return 1, 1


def _home() -> str:
    """Where tensors have to be for the NCCL that is loaded."""
    return "cuda" if identity() is None else "cpu"
