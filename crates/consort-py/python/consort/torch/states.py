"""What all ranks take over from rank 0: the parameters and buffers of a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import torch
from torch import Tensor, nn

from consort import _core
from consort.torch.tensors import check, code_to_move, region


class States:
    """The parameters and buffers that a model is to have in common on all ranks.

    Whoever wants them gets those of now: a buffer may be another tensor than before, as after
    ``model.mean = mean`` or ``model.double()``. Only the model's parts are found once.
    """

    def __init__(self, module: nn.Module, left_out: Collection[str]) -> None:
        self._module = module
        self._left_out = left_out
        self._parts = [(f"{path}." if path else "", part) for path, part in module.named_modules()]

    def all(self) -> list[Tensor]:
        """Parameters, those that do not learn, too, and buffers, each once."""
        parameters = []
        for name, parameter in self._module.named_parameters():
            if name not in self._left_out:
                check(parameter, f"DistributedDataParallel, parameter {name!r}")
                parameters.append(parameter)
        return [*parameters, *self.buffers()]

    def buffers(self) -> list[Tensor]:
        """Buffers, each once."""
        found: dict[int, Tensor] = {}
        for path, part in self._parts:
            for name, buffer in part._buffers.items():
                if buffer is None or id(buffer) in found or path + name in self._left_out:
                    continue
                check(buffer, f"DistributedDataParallel, buffer {path + name!r}")
                found[id(buffer)] = buffer
        return list(found.values())


def follow_rank_0(core: _core.Group, tensors: Sequence[Tensor]) -> None:
    """Gives all ranks the tensors of rank 0: those of a type together, some at a time."""
    with torch.no_grad():
        for some in _portions(tensors):
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in some])
            core.broadcast(code_to_move(flat), 0, region(flat), (flat, True, None))
            if core.rank == 0:
                continue
            parts = flat.split([tensor.numel() for tensor in some])
            for tensor, part in zip(some, parts, strict=True):
                tensor.copy_(part.view(tensor.shape))


def _portions(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    by_type: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.dtype, []).append(tensor)
    for some in by_type.values():
        portion: list[Tensor] = []
        size = 0
        for tensor in some:
            portion.append(tensor)
            size += tensor.nbytes
            if size >= _PORTION:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion


# So many bytes are copied at a time to be sent.
_PORTION = 64 << 20
