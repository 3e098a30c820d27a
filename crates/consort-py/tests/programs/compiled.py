"""Code under torch.compile that communicates; what it gives must be what it gives eagerly."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program
from ranks.compare import assert_same
from torch.nn.parallel import DistributedDataParallel

from programs.ddp import data, layers, train
from programs.functional import WITH_GRADIENTS, coded, differentiate, everything, plain


@program(seconds=240, timeout=200)
def functional_ones_are_traced_by_aot_eager(me: Rank) -> None:
    compare(me, lambda x: [y + 1 for y in everything(x * 2)], "aot_eager")


@program(seconds=240, timeout=200)
def all_kinds_are_compiled_by_inductor(me: Rank) -> None:
    compare(me, lambda x: [*(y + 1 for y in everything(x * 2)), *ordinary(x)], "inductor")


@program(seconds=240, timeout=200)
def ordinary_ones_are_traced_by_aot_eager(me: Rank) -> None:
    compare(me, ordinary, "aot_eager")


@program(seconds=240, timeout=200)
def gradients_flow_through_compiled_ones(me: Rank) -> None:
    own_cache(me)
    for name, function in WITH_GRADIENTS.items():
        compiled = differentiate(coded(me), torch.compile(function, backend="aot_eager"))
        assert_same(compiled, differentiate(coded(me), function), name)


@program(seconds=240, timeout=200)
def compiled_models_train_in_ddp(me: Rank) -> None:
    own_cache(me)
    torch.manual_seed(3)
    plainly = DistributedDataParallel(layers())
    torch.manual_seed(3)
    compiled = DistributedDataParallel(layers())
    here = train(me, torch.compile(compiled, backend="aot_eager"), steps=2)
    assert_same(here, train(me, plainly, steps=2), "losses and weights")
    assert torch.equal(compiled(data(me, 9)), plainly(data(me, 9)))


def compare(me: Rank, function: Callable[[torch.Tensor], Any], compiler: str) -> None:
    """Compiled and eager results have the same bits, also when it is called again."""
    own_cache(me)
    compiled = torch.compile(function, backend=compiler)
    for _ in range(2):
        ours = [plain(each) for each in compiled(coded(me))]
        theirs = [plain(each) for each in function(coded(me))]
        assert_same(ours, theirs, f"{compiler} on rank {me.rank}")


def ordinary(x: torch.Tensor) -> list[torch.Tensor]:
    """Collectives that change their operands, which the compiler replaces by functional ones."""
    y = x * 3
    dist.all_reduce(y)
    gathered = torch.empty(2 * x.shape[0], x.shape[1])
    dist.all_gather_into_tensor(gathered, y)
    part = torch.empty(x.shape[0] // 2, x.shape[1])
    dist.reduce_scatter_tensor(part, y, op=dist.ReduceOp.MAX)
    return [y + 1, gathered, part]


def own_cache(me: Rank) -> None:
    """Compiles for this rank and program alone: nothing is left over, nothing is found."""
    import torch._dynamo
    import torch._inductor.config

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(me.folder / f"compiled-{me.rank}")
    torch._inductor.config.compile_threads = 1
    torch._dynamo.reset()
