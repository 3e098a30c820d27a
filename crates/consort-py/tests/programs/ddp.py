"""Training with DistributedDataParallel, in the ways in which people use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program
from ranks.stage import join
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import (
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


@program()
def several_buckets_are_averaged(me: Rank) -> Any:
    model = DistributedDataParallel(layers(), bucket_cap_mb=0.001)
    return train(me, model)


@program()
def parameters_begin_as_those_of_rank_zero(me: Rank) -> Any:
    torch.manual_seed(me.rank)
    model = DistributedDataParallel(layers())
    return weights(model)


@program()
def buffers_follow_rank_zero(me: Rank) -> Any:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5)))
    losses = train(me, model)
    return losses, [buffer.clone() for buffer in model.buffers()]


@program()
def parameters_that_are_not_used_are_found(me: Rank) -> Any:
    model = DistributedDataParallel(Crossroads(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(4):
        optimizer.zero_grad()
        # Sometimes the ranks take the same way, sometimes not.
        loss = model(data(me, step), left=(me.rank * step) % 2 == 0).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, weights(model)


@program()
def uneven_inputs_are_joined(me: Rank) -> Any:
    model = DistributedDataParallel(layers(), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with model.join():
        for step in range(2 + 2 * me.rank):
            losses.append(step_once(me, model, optimizer, step))
    return losses, weights(model)


@program()
def a_join_with_an_optimizer_ends_for_all(me: Rank) -> Any:
    model = DistributedDataParallel(layers())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    losses = []
    with Join([model, optimizer]):
        for step in range(1 + 2 * me.rank):
            losses.append(step_once(me, model, optimizer, step))
    return losses, weights(model)


@program()
def gradients_are_accumulated_without_sync(me: Rank) -> Any:
    model = DistributedDataParallel(layers(), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        with model.no_sync():
            model(data(me, 10 * step)).square().mean().backward()
        model(data(me, 10 * step + 1)).square().mean().backward()
        optimizer.step()
    return weights(model)


@program()
def a_static_graph_is_run_twice_through_the_same_layer(me: Rank) -> Any:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(7, 7)
            self.unused = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            again = torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)
            return self.layer(torch.tanh(again))

    return train(me, DistributedDataParallel(Twice(), static_graph=True))


@program()
def gradients_are_views_of_buckets(me: Rank) -> Any:
    model = DistributedDataParallel(layers(), gradient_as_bucket_view=True, bucket_cap_mb=0.001)
    return train(me, model)


@program()
def a_hook_may_be_an_all_reduce(me: Rank) -> Any:
    return train_with_hook(me, dist.group.WORLD, default_hooks.allreduce_hook)


@program()
def a_hook_may_compress_to_float16(me: Rank) -> Any:
    return train_with_hook(me, dist.group.WORLD, default_hooks.fp16_compress_hook)


@program()
def a_hook_may_compress_to_bfloat16(me: Rank) -> Any:
    return train_with_hook(me, dist.group.WORLD, default_hooks.bf16_compress_hook)


@program()
def a_hook_may_wrap_another(me: Rank) -> Any:
    hook = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
    return train_with_hook(me, dist.group.WORLD, hook)


@program(exact=False)
def a_hook_may_be_power_sgd(me: Rank) -> Any:
    state = powerSGD_hook.PowerSGDState(
        dist.group.WORLD,
        matrix_approximation_rank=2,
        start_powerSGD_iter=2,
        min_compression_rate=0.5,
    )
    return train_with_hook(me, state, powerSGD_hook.powerSGD_hook, steps=6, bucket=ONE)


@program()
def a_hook_may_be_post_local_sgd(me: Rank) -> Any:
    subgroup, _ = dist.new_subgroups(group_size=1)
    state = post_localSGD_hook.PostLocalSGDState(dist.group.WORLD, subgroup, start_localSGD_iter=2)
    model = DistributedDataParallel(layers())
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(3, warmup_steps=2)
    )
    losses = [step_once(me, model, optimizer, step) for step in range(7)]
    return losses, weights(model)


@program()
def a_hook_may_wait_inside_its_callbacks(me: Rank) -> Any:
    # DDP compares a hook's annotations with the types themselves, and ours are strings: none here.
    def hook(state, bucket):  # type: ignore[no-untyped-def]
        first = dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future()

        def halve_the_largest(future: torch.futures.Future[Any]) -> torch.Tensor:
            summed = future.value()[0]
            largest = summed.abs().max().reshape(1)
            dist.all_reduce(largest, op=dist.ReduceOp.MAX, async_op=True).get_future().wait()
            return summed.div_(largest + 1)

        return first.then(halve_the_largest)

    return train_with_hook(me, None, hook, bucket=ONE)


@program()
def a_zero_optimizer_shares_its_state(me: Rank) -> Any:
    model = DistributedDataParallel(layers(), bucket_cap_mb=0.001)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    losses = [step_once(me, model, optimizer, step) for step in range(4)]
    optimizer.consolidate_state_dict(to=0)
    state = optimizer.state_dict()["state"] if me.rank == 0 else {}
    return losses, weights(model), state


@program()
def a_zero_optimizer_broadcasts_as_bucket_views(me: Rank) -> Any:
    model = DistributedDataParallel(layers())
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.SGD, lr=0.1, parameters_as_bucket_view=True
    )
    losses = [step_once(me, model, optimizer, step) for step in range(4)]
    return losses, weights(model)


@program()
def embeddings_have_sparse_gradients(me: Rank) -> Any:
    model = DistributedDataParallel(
        nn.Sequential(nn.Embedding(11, 5, sparse=True), nn.Linear(5, 3))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gradients = []
    for step in range(3):
        optimizer.zero_grad()
        rows = torch.tensor([me.rank, 3, 3 + me.rank * step, 10 - step])
        model(rows).square().sum().backward()
        gradients.append(model.module[0].weight.grad.clone())
        optimizer.step()
    return gradients, weights(model)


@program()
def batches_are_normalised_together(me: Rank) -> Any:
    # SyncBatchNorm itself wants an accelerator; its means and variances are these reductions.
    rows = data(me, 1)
    count = torch.tensor([float(len(rows))])
    sums, squares = rows.sum(0), rows.square().sum(0)
    with dist._coalescing_manager():
        for tensor in (count, sums, squares):
            dist.all_reduce(tensor)
    mean = sums / count
    return (rows - mean) / (squares / count - mean.square() + 1e-5).sqrt()


@program(exact=False)
def models_larger_than_a_bucket_train_in_float64_and_bfloat16(me: Rank) -> Any:
    wide = nn.Sequential(nn.Linear(7, 501), nn.Linear(501, 502)).double()
    narrow = nn.Linear(502, 3).bfloat16()

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.narrow = wide, narrow

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.narrow(self.wide(x.double()).bfloat16()).float()

    return train(me, DistributedDataParallel(Mixed(), bucket_cap_mb=0.5), steps=2)


@program()
def two_models_train_in_two_groups(me: Rank) -> Any:
    other = dist.new_group()
    first = DistributedDataParallel(layers(), bucket_cap_mb=0.001)
    second = DistributedDataParallel(layers(), process_group=other, bucket_cap_mb=0.001)
    for step in range(3):
        (first(data(me, step)).sum() + second(data(me, step)).square().sum()).backward()
    return [each.grad for each in [*first.parameters(), *second.parameters()]]


@program(meet=False)
def the_backend_may_be_named_for_the_device(me: Rank) -> Any:
    join(Rank(me.rank, me.world, f"cpu:{me.backend}", me.folder))
    return train(me, DistributedDataParallel(layers(), bucket_cap_mb=0.001))


class Crossroads(nn.Module):
    """A model of which each step uses one half."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(7, 3)
        self.right = nn.Linear(7, 3)

    def forward(self, x: torch.Tensor, left: bool) -> torch.Tensor:
        """Takes the left or the right way."""
        return self.left(x) if left else self.right(x)


def layers() -> nn.Module:
    """A small model with odd sizes, of several buckets when these are small."""
    return nn.Sequential(
        nn.Linear(7, 33), nn.ReLU(), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 3)
    )


def data(me: Rank, step: int) -> torch.Tensor:
    """The batch of a rank in a step; no two are the same."""
    generator = torch.Generator().manual_seed(1000 * me.rank + step)
    return torch.randn(5, 7, generator=generator)


def step_once(me: Rank, model: nn.Module, optimizer: Any, step: int) -> float:
    """One step of training; gives the loss."""
    optimizer.zero_grad()
    loss = model(data(me, step)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def train(me: Rank, model: nn.Module, steps: int = 4) -> tuple[list[float], list[torch.Tensor]]:
    """Some steps of training; gives the losses and the parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = [step_once(me, model, optimizer, step) for step in range(steps)]
    return losses, weights(model)


def train_with_hook(
    me: Rank, state: Any, hook: Callable[..., Any], steps: int = 4, bucket: float = 0.001
) -> Any:
    """Trains a model of several buckets (or one) whose gradients go through a hook."""
    model = DistributedDataParallel(layers(), bucket_cap_mb=bucket)
    model.register_comm_hook(state, hook)
    return train(me, model, steps)


def weights(model: nn.Module) -> list[torch.Tensor]:
    """The model's parameters, as tensors that can be sent away."""
    return [each.detach().clone() for each in model.parameters()]


# Megabytes, so that everything is one bucket: callbacks that start collectives do so in an order
# that differs from rank to rank when several buckets' callbacks run at once.
ONE = 25
