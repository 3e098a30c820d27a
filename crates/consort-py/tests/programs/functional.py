"""Functional collectives: eager, with gradients, and compiled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.nn.parallel import DistributedDataParallel

from programs.ddp import data, layers, train
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
    return [
        *(plain(funcol.all_reduce(floats, op, WORLD())) for op in ("sum", "avg", "min", "max", "product")),
        *(plain(funcol.all_reduce(integers, op, WORLD())) for op in ("band", "bor", "bxor")),
    ]


@program()
def several_are_coalesced(me: Rank) -> Any:
    pair = [coded(me), coded(me).long()[:4]]
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


@program(cases=["aot_eager", "inductor"], seconds=240, timeout=200)
def compiled_ones_give_the_same(me: Rank, compiler: str) -> Any:
    if compiler == "inductor" and shutil.which("g++") is None:
        return "there is no C++ compiler for inductor"
    own_cache(me)
    compiled = torch.compile(lambda x: [y + 1 for y in everything(x * 2)], backend=compiler)
    mine = coded(me)
    found = [plain(each) for each in compiled(mine)]
    eager = [plain(each) + 1 for each in everything(mine * 2)]
    for index, (ours, theirs) in enumerate(zip(found, eager, strict=True)):
        assert torch.equal(ours, theirs), f"result {index} of {compiler} differs from the eager one"
    return found


@program(cases=["aot_eager", "inductor"], seconds=240, timeout=200)
def compiled_code_may_call_the_ordinary_ones(me: Rank, compiler: str) -> Any:
    if compiler == "inductor" and shutil.which("g++") is None:
        return "there is no C++ compiler for inductor"
    own_cache(me)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 3
        dist.all_reduce(y)
        gathered = torch.empty(2 * x.shape[0], x.shape[1])
        dist.all_gather_into_tensor(gathered, y)
        return y.sum() + 1, gathered

    return torch.compile(function, backend=compiler)(coded(me))


@program(cases=["aot_eager"], seconds=240, timeout=200)
def compiled_models_train_in_ddp(me: Rank, compiler: str) -> Any:
    own_cache(me)
    model = DistributedDataParallel(layers(), bucket_cap_mb=0.001)
    losses, weights = train(me, torch.compile(model, backend=compiler), steps=2)
    model.eval()
    return losses, weights, model(data(me, 9)).detach()


@program(cases=["aot_eager"], seconds=240, timeout=200)
def gradients_flow_through_compiled_ones(me: Rank, compiler: str) -> Any:
    own_cache(me)
    found = []
    for function in WITH_GRADIENTS.values():
        found.append(differentiate(coded(me), torch.compile(function, backend=compiler)))
    return found


def everything(x: torch.Tensor) -> list[torch.Tensor]:
    """One result of each functional collective, for a tensor of an even number of rows."""
    return [
        funcol.all_reduce(x, "sum", WORLD()),
        funcol.all_reduce(x, "max", WORLD()),
        funcol.all_gather_tensor(x, 0, WORLD()),
        funcol.reduce_scatter_tensor(x, "sum", 0, WORLD()),
        funcol.all_to_all_single(x, [2, 2], [2, 2], WORLD()),
        funcol.broadcast(x, 1, WORLD()),
        funcol.permute_tensor(x, [1, 0], WORLD()),
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


def own_cache(me: Rank) -> None:
    """Compiles for this rank and program alone: nothing is left over, nothing is found."""
    import os

    import torch._dynamo
    import torch._inductor.config

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(me.folder / f"compiled-{me.rank}")
    torch._inductor.config.compile_threads = 1
    torch._dynamo.reset()


def WORLD() -> dist.ProcessGroup:
    """The group of all, as it is now."""
    return dist.group.WORLD


WITH_GRADIENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "all_gather": lambda x: funcol.all_gather_tensor_autograd(x, 0, WORLD()),
    "reduce_scatter": lambda x: funcol.reduce_scatter_tensor_autograd(x, "sum", 0, WORLD()),
    "all_to_all": lambda x: funcol.all_to_all_single_autograd(x, [2, 2], [2, 2], WORLD()),
    "all_reduce": lambda x: funcol.all_reduce(x, "sum", WORLD()),
}
