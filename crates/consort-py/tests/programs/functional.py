"""Functional collectives, with and without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from ranks import Rank, program


@program()
def each_gives_a_new_tensor(me: Rank) -> Any:
    mine = coded(me)
    found = everything(mine)
    assert torch.equal(mine, coded(me)), "an operand was changed"
    return [plain(each) for each in found]


@program()
def reductions_know_their_names(me: Rank) -> Any:
    floats, integers = coded(me), coded(me).long() + 1
    numbers = ("sum", "avg", "min", "max", "product")
    bits = ("band", "bor", "bxor")
    return [
        *(plain(funcol.all_reduce(floats, op, WORLD())) for op in numbers),
        *(plain(funcol.all_reduce(integers, op, WORLD())) for op in bits),
    ]


@program()
def several_are_coalesced(me: Rank) -> Any:
    pair = [coded(me), coded(me)[:2]]
    return [
        [plain(each) for each in funcol.all_reduce_coalesced(pair, "sum", WORLD())],
        [plain(each) for each in funcol.all_gather_into_tensor_coalesced(pair, WORLD())],
        [
            plain(each)
            for each in funcol.reduce_scatter_tensor_coalesced(pair, "sum", [0, 0], WORLD())
        ],
    ]


@program()
def dimensions_other_than_the_first_are_gathered_and_scattered(me: Rank) -> Any:
    mine = coded(me)
    return [
        plain(funcol.all_gather_tensor(mine, 1, WORLD())),
        plain(funcol.reduce_scatter_tensor(mine[:, :2].contiguous(), "sum", 1, WORLD())),
    ]


@program()
def gradients_flow_through(me: Rank) -> Any:
    return [differentiate(coded(me), function) for function in WITH_GRADIENTS.values()]


def everything(x: torch.Tensor) -> list[torch.Tensor]:
    """One result of each functional collective, for a tensor of an even number of rows."""
    return [
        funcol.all_reduce(x, "sum", WORLD()),
        funcol.all_reduce(x, "max", WORLD()),
        funcol.all_gather_tensor(x, 0, WORLD()),
        funcol.reduce_scatter_tensor(x, "sum", 0, WORLD()),
        funcol.all_to_all_single(x, [2, 2], [2, 2], WORLD()),
        funcol.broadcast(x, 1, WORLD()),
        funcol.permute_tensor(x.flatten(), [1, 0], WORLD()),
    ]


def coded(me: Rank) -> torch.Tensor:
    """Values that tell rank and position."""
    return torch.arange(12.0).reshape(4, 3) + 100 * (me.rank + 1)


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor itself, waited for."""
    return funcol.wait_tensor(x).clone() if not hasattr(x, "wait") else x.wait().clone()


def differentiate(x: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The result of a function and the gradient of a weighted sum of it."""
    x = x.requires_grad_()
    result = function(x)
    weights = torch.arange(float(result.numel())).reshape(result.shape) + dist.get_rank()
    (result * weights).sum().backward()
    return plain(result.detach()), x.grad


def WORLD() -> dist.ProcessGroup:
    """The group of all, as it is now."""
    return dist.group.WORLD


WITH_GRADIENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "all_gather": lambda x: funcol.all_gather_tensor_autograd(x, 0, WORLD()),
    "reduce_scatter": lambda x: funcol.reduce_scatter_tensor_autograd(x, "sum", 0, WORLD()),
    "all_to_all": lambda x: funcol.all_to_all_single_autograd(x, [2, 2], [2, 2], WORLD()),
    "all_reduce": lambda x: funcol.all_reduce(x, "sum", WORLD()),
}
