"""NCCL's own calls, on tensors of one process: one for each of its devices or communicators.

The shape is that of ``torch.cuda.nccl``, and each function says how it differs from its counterpart
there. What differs in all of them:

* What is no tensor is a ``TypeError``, as in PyTorch. Whatever else is wrong with a call is a
  ``consort.Mistake``, which is a ``ValueError`` and, as in PyTorch, a ``RuntimeError``; and what NCCL
  says has the class of what went wrong (``consort.errors``).
* ``op`` is checked, and may be a name: ``"sum"``, ``"product"``, ``"max"``, ``"min"``, ``"avg"``.
  PyTorch hands any number on to NCCL.
* ``streams`` may be handles, beside objects that have one as ``cuda_stream``.
* ``comms`` are `Communicator` objects, which have a rank and an end. PyTorch has capsules.
* Floats of 8 bits are combined as what they are, and ``bool`` by ``MAX`` and ``MIN`` alone. For
  PyTorch both are bytes, so that sums of such floats mean nothing. What NCCL has no type for can be
  moved, though not combined.

    from consort import nccl

    nccl.all_reduce([a, b])                          # two devices of this process
    with nccl.init_rank(2, id, rank) as comm:        # one device of each of two processes
        nccl.all_reduce([a], comms=[comm])

Importing this needs neither NCCL nor PyTorch. NCCL is looked for when the first call needs it: the
file that ``CONSORT_NCCL_LIBRARY`` names, what the system has, or a wheel (``pip install
nvidia-nccl-cu12``), at last one beside this package. Tensors are whatever has ``data_ptr()``,
``numel()``, ``element_size()``, ``dtype``, ``device`` and ``is_contiguous()``; they are on CUDA
devices, or on the CPU with consort's own ``libconsort_nccl.so``.

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
    """The version of the NCCL that is loaded.

    PyTorch's is the version that PyTorch was compiled with, whichever is loaded, and has its suffix
    as a fourth element if there is one. NCCL has no function that tells a suffix: here there are
    always three numbers.
    """
    return nccl_library()[0]


def built_against() -> tuple[int, int, int]:
    """The version whose functions consort knows: what PyTorch's ``version`` is for PyTorch."""
    return nccl_library()[2]


def identity() -> str | None:
    """What the loaded library says of itself, if it is consort's own, on host memory.

    PyTorch, which cannot use that one, has nothing like it.
    """
    return nccl_library()[1]


def unique_id() -> bytes:
    """128 bytes with which ranks find each other: in this process, which lives until all have come.

    They are what PyTorch's are, but of the NCCL that is loaded, and there need be no PyTorch.
    """
    return nccl_unique_id()


def init_rank(
    num_ranks: int, uid: bytes, rank: int, *, timeout: float | None = None
) -> Communicator:
    """Becomes one of so many ranks, together with the others that show the same id.

    ``timeout`` is in seconds, for this and for every call of the communicator. The device is the
    current one. PyTorch's has no limit, and returns a capsule that nothing can be asked of and that
    never ends.
    """
    return nccl_init_rank(num_ranks, bytes(uid), rank, timeout)


def is_available(tensors: Sequence[Tensor]) -> bool:
    """Whether these tensors can be given to a call together.

    They can if there is an NCCL, and each is plain memory on a device of its own that it works on.
    PyTorch's does not look for NCCL, and warns if it was compiled without. What is no collection of
    tensors is not available here; there it is an error.
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
    """Combines all inputs; each output becomes the result. Without outputs the inputs do.

    As PyTorch's, but for what differs in all calls.
    """
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

    A list of outputs, of which the root's is taken, is deprecated, as in PyTorch: there by a
    ``FutureWarning``, here by a ``DeprecationWarning``. There the root is a place among the inputs;
    here it is a rank, which with ``comms`` may be another process's: then an output that is given
    here stays as it is.
    """
    if output is not None and outputs is not None:
        raise mistake("nccl: give output, or the deprecated outputs, but not both")
    if outputs is not None or isinstance(output, (list, tuple)):
        output = _of_root(output if outputs is None else outputs, root)
    _call("reduce", inputs, output, op, root, streams, comms)


def broadcast(
    inputs: Sequence[Tensor], root: int = 0, streams: Streams = None, comms: Comms = None
) -> None:
    """Every tensor becomes the root's.

    PyTorch 2.13 checks the root and then sends the first tensor, whichever it is; and there the root
    is a place among the inputs, here a rank.
    """
    _call("broadcast", inputs, inputs, SUM, root, streams, comms)


def all_gather(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    streams: Streams = None,
    comms: Comms = None,
) -> None:
    """Each output becomes all inputs, one behind the other.

    For PyTorch there are as many ranks as inputs; here, with ``comms``, as many as the communicator
    has, and outputs have to be as long as that takes.
    """
    _call("all_gather", inputs, outputs, SUM, 0, streams, comms)


def reduce_scatter(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    op: Op = SUM,
    streams: Streams = None,
    comms: Comms = None,
) -> None:
    """Combines all inputs; each output becomes its rank's part of the result.

    For PyTorch there are as many ranks as inputs; here, with ``comms``, as many as the communicator
    has, and inputs have to be as long as that takes.
    """
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
