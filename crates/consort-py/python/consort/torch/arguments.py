"""What PyTorch hands to a group, in all the forms in which it does.

A method of a group is called with lists and an options object, by PyTorch's own functions; or with a
tensor and plain values, or with nothing but the tensors, by programs and by DDP.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor
from torch.distributed import ReduceOp

from consort.errors import mistake

Tensors = Tensor | Sequence[Tensor]


class Terms:
    """How a call is to be made: what options say, or what was given in their place."""

    __slots__ = ("now", "op", "root", "seconds")

    def __init__(self, now: bool, seconds: float | None, op: Any = None, root: int = 0) -> None:
        self.now = now
        self.seconds = seconds
        self.op = op
        self.root = root


def terms(options: Any, timeout: Any = None) -> Terms:
    """How a call is to be made that neither combines nor has a root."""
    if options is None:
        return Terms(False, _seconds(timeout))
    return Terms(_is_awaited(options), _seconds(options.timeout))


def terms_with_op(options: Any, timeout: Any = None) -> Terms:
    """How a call is to be made whose second argument is its options, or how it combines."""
    if hasattr(options, "reduceOp"):
        return Terms(_is_awaited(options), _seconds(options.timeout), options.reduceOp)
    return Terms(False, _seconds(timeout), ReduceOp.SUM if options is None else options)


def terms_with_root(options: Any, timeout: Any = None) -> Terms:
    """How a call is to be made whose second argument is its options, or its root."""
    if hasattr(options, "rootRank"):
        seconds, op = _seconds(options.timeout), getattr(options, "reduceOp", ReduceOp.SUM)
        return Terms(_is_awaited(options), seconds, op, options.rootRank)
    return Terms(False, _seconds(timeout), ReduceOp.SUM, 0 if options is None else options)


def combination(op: Any) -> tuple[int, float]:
    """The code of a reduce operation, and the factor that its inputs are multiplied by."""
    number = int(getattr(op, "op", op))
    if number < _PREMUL_SUM:
        return number, 1.0
    if number > _PREMUL_SUM:
        raise mistake(f"does not know the reduce operation {op}")
    return number, _factor(op)


def single(tensors: Tensors, call: str, what: str = "tensor") -> Tensor:
    """The one tensor of a list, or the one that was given without a list."""
    if isinstance(tensors, Tensor):
        return tensors
    if len(tensors) == 0:
        raise mistake(f"{call}: requires non-empty {what} list")
    if len(tensors) != 1:
        raise mistake(f"{call}: requires a single-element {what} list, got {len(tensors)}")
    return tensors[0]


def single_list(lists: Any, call: str, what: str) -> list[Tensor]:
    """The one list of a list, or a list of tensors that was given without one."""
    if len(lists) > 0 and isinstance(lists[0], Tensor):
        return list(lists)
    if len(lists) != 1:
        raise mistake(f"{call}: requires a single-element {what} list containing a list of tensors")
    return list(lists[0])


def check_root(root: int, world: int, call: str) -> int:
    """Refuses a root that is nobody."""
    if not 0 <= root < world:
        raise mistake(f"{call}: invalid root rank: {root} is not in a group of {world}")
    return root


def check_root_tensor(options: Any, call: str) -> None:
    """Refuses a root tensor other than the only one."""
    tensor = getattr(options, "rootTensor", 0)
    if tensor != 0:
        raise mistake(f"{call}: invalid root tensor: {tensor}, and there is only one")


def check_list(tensors: Sequence[Tensor], like: Tensor, world: int, call: str, what: str) -> None:
    """Refuses a list that has not one tensor of the same type for each rank."""
    if len(tensors) != world:
        raise mistake(
            f"{call}: invalid {what} tensor list: {len(tensors)} tensors for {world} ranks"
        )
    for index, tensor in enumerate(tensors):
        if tensor.dtype != like.dtype:
            raise mistake(
                f"{call}: invalid tensor type at index {index} of the {what}s (expected "
                f"{like.dtype}, got {tensor.dtype})"
            )
        if tensor.layout != like.layout:
            raise mistake(
                f"{call}: invalid tensor layout at index {index} of the {what}s (expected "
                f"{like.layout}, got {tensor.layout})"
            )


def check_size(tensor: Tensor, elements: int, call: str, what: str) -> None:
    """Refuses a tensor of another size."""
    if tensor.numel() != elements:
        raise mistake(
            f"{call}: invalid tensor size: the {what} has {tensor.numel()} elements, and "
            f"{elements} are wanted"
        )


def check_type(one: Tensor, other: Tensor, call: str) -> None:
    """Refuses an input and an output that differ in what their bytes mean."""
    if one.dtype != other.dtype:
        raise mistake(
            f"{call}: invalid tensor type: the input is {other.dtype}, the output {one.dtype}"
        )


def check_pairs(outputs: Sequence[Tensor], inputs: Sequence[Tensor], call: str) -> None:
    """Refuses lists that are empty or of different lengths."""
    if len(inputs) == 0:
        raise mistake(f"{call}: requires non-empty input tensor list")
    if len(outputs) != len(inputs):
        raise mistake(
            f"{call}: invalid output tensor list: {len(outputs)} outputs for {len(inputs)} inputs"
        )


def check_tag(tag: int) -> int:
    """Refuses what no message can be called."""
    if not 0 <= tag < 1 << 32:
        raise mistake(f"messages: a tag is a number from 0 up to {(1 << 32) - 1}, not {tag}")
    return tag


def check_peer(rank: int, world: int, call: str) -> int:
    """Refuses a rank that is nobody."""
    if not 0 <= rank < world:
        raise mistake(f"{call}: there is no rank {rank} in a group of {world}")
    return rank


def is_empty_list(lists: Any) -> bool:
    """Whether there is nothing in a list of lists."""
    return all(not isinstance(one, Tensor) and len(one) == 0 for one in lists)


def _is_awaited(options: Any) -> bool:
    """Whether somebody waits for the call at once, which PyTorch says since 2.8."""
    return not getattr(options, "asyncOp", True)


def _seconds(timeout: Any) -> float | None:
    """How long a call may take; PyTorch writes less than nothing where it has not been said."""
    if timeout is None:
        return None
    if timeout == _UNSET:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    return seconds if seconds >= 0 else None


def _factor(op: Any) -> float:
    factor = getattr(op, "factor", None)
    if factor is None:
        # Before 2.14 only the state to be pickled has it.
        factor = op.__getstate__()[1]
    return float(factor)


_UNSET = timedelta(milliseconds=-1)
_PREMUL_SUM = 8
