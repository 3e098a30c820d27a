"""Calls that are compared before they are made."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor

from consort._core import Group
from consort.errors import _make
from consort.torch.tensors import BYTES, region


class Fingerprints:
    """Compares what ranks are about to call, with the shapes of their tensors.

    consort itself compares operation, type, number of elements, reduce operation and root of every
    call, always. Shapes are PyTorch's: tensors of 2 x 3 and 3 x 2 can be combined, which is seldom
    meant. ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` has them compared, too, in a call before each call.
    """

    def __init__(self, core: Group) -> None:
        self._core = core
        self._count = 0
        #: How many calls of the group were made only to compare others.
        self.calls = 0

    def compare(self, operation: str, keep: Any, seconds: float | None) -> None:
        """Raises on every rank if they are about to do different things."""
        self._count += 1
        shapes = [] if operation in _MAY_DIFFER else _shapes(_common(operation, keep))
        mine = f"{operation} of {', '.join(shapes)}" if shapes else operation
        digest = hashlib.blake2b(mine.encode(), digest_size=32).digest()
        digests = self._gather(_fixed(digest, 32), seconds)
        if all(torch.equal(digest, digests[0]) for digest in digests):
            return
        texts = self._gather(_fixed(mine.encode(), _LONGEST), seconds)
        told = [bytes(text.tolist()).rstrip(b"\0").decode(errors="replace") for text in texts]
        lines = "\n".join(f"  rank {rank}: {text}" for rank, text in enumerate(told))
        different = [rank for rank, one in enumerate(digests) if not torch.equal(one, digests[0])]
        raise _make(
            "Mismatch",
            f"group {self._core.name}: ranks are about to make different calls (call {self._count} "
            f"of those that were compared):\n{lines}",
            [0, *different],
        )

    def _gather(self, mine: Tensor, seconds: float | None) -> list[Tensor]:
        self.calls += 1
        parts = [torch.empty_like(mine) for _ in range(self._core.world)]
        regions = [region(part) for part in parts]
        self._core.all_gather(BYTES, region(mine), regions, ((mine, parts), True, seconds))
        return parts


def _common(operation: str, keep: Any) -> Any:
    """What of the tensors of a call is the same on all ranks: of two, the larger comes first."""
    return keep[0] if operation in _OF_PARTS else keep


def _shapes(keep: Any) -> list[str]:
    """The shapes and types of the tensors of a call."""
    if isinstance(keep, Tensor):
        kind = str(keep.dtype).removeprefix("torch.")
        return [f"{kind} {list(keep.shape)}"]
    if isinstance(keep, (tuple, list)):
        return [shape for part in keep for shape in _shapes(part)]
    return []


def _fixed(text: bytes, length: int) -> Tensor:
    return torch.tensor(list(text[:length].ljust(length, b"\0")), dtype=torch.uint8, device="cpu")


# Only some ranks have all the tensors of these, or each has tensors of its own shapes.
_MAY_DIFFER = {"gather", "scatter", "all_to_all"}
# Each rank's own part may have its own size.
_OF_PARTS = {"all_gather", "reduce_scatter"}
_LONGEST = 512
