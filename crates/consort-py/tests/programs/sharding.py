"""Models in pieces: FSDP, DTensor, tensor parallelism, pipelines and meshes of devices."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from programs.ddp import data, layers


@program()
def fsdp_trains_whole_shards(me: Rank) -> Any:
    return train_fsdp1(me, ShardingStrategy.FULL_SHARD)


@program()
def fsdp_trains_with_sharded_gradients_only(me: Rank) -> Any:
    return train_fsdp1(me, ShardingStrategy.SHARD_GRAD_OP)


@program()
def fsdp_trains_without_shards(me: Rank) -> Any:
    return train_fsdp1(me, ShardingStrategy.NO_SHARD)


@program()
def fully_shard_trains_layer_by_layer(me: Rank) -> Any:
    model = layers()
    mesh = init_device_mesh("cpu", (me.world,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train_sharded(me, model)


@program()
def fully_shard_gathers_after_backward_if_told(me: Rank) -> Any:
    model = layers()
    fully_shard(model, mesh=init_device_mesh("cpu", (me.world,)), reshard_after_forward=False)
    return train_sharded(me, model)


@program(world=4, exact=False)  # four summands, which Gloo may add in another order
def fully_shard_trains_on_a_mesh_of_two_dimensions(me: Rank) -> Any:
    model = layers()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(model, mesh=mesh)
    return train_sharded(me, model)


@program()
def tensors_are_distributed_and_put_together(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (me.world,))
    whole = torch.arange(35.0).reshape(5, 7)  # uneven in both dimensions
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    everywhere = columns.redistribute(mesh, [Replicate()])
    return rows.to_local(), columns.to_local(), everywhere.to_local(), rows.full_tensor()


@program()
def partial_sums_are_reduced_where_they_are_wanted(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (me.world,))
    local = torch.arange(12.0).reshape(4, 3) * (me.rank + 1)
    partial = DTensor.from_local(local, mesh, [Partial()])
    largest = DTensor.from_local(local, mesh, [Partial("max")])
    mean = DTensor.from_local(local, mesh, [Partial("avg")])
    return [
        partial.redistribute(mesh, [Replicate()]).to_local(),
        partial.redistribute(mesh, [Shard(0)]).to_local(),
        partial.redistribute(mesh, [Shard(1)]).to_local(),
        largest.full_tensor(),
        mean.full_tensor(),
    ]


@program()
def distributed_matrices_are_multiplied_and_differentiated(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (me.world,))
    left = distribute_tensor(torch.randn(6, 4), mesh, [Shard(1)]).requires_grad_()
    right = distribute_tensor(torch.randn(4, 5), mesh, [Shard(0)]).requires_grad_()
    product = left @ right
    product.square().sum().backward()
    return product.full_tensor().detach(), left.grad.full_tensor(), right.grad.full_tensor()


@program(world=4)
def tensors_are_distributed_on_two_dimensions(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("x", "y"))
    whole = torch.arange(54).reshape(6, 9)
    tensor = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    turned = tensor.redistribute(mesh, [Shard(1), Shard(0)])
    half = turned.redistribute(mesh, [Replicate(), Shard(0)])
    return tensor.to_local(), turned.to_local(), half.to_local(), tensor.full_tensor()


@program(world=4)
def a_mesh_is_sliced_into_groups(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    found = []
    for name in ("outer", "inner"):
        group = mesh[name].get_group()
        tensor = torch.tensor([10**me.rank])
        dist.all_reduce(tensor, group=group)
        found.append((dist.get_process_group_ranks(group), mesh.get_local_rank(name), tensor))
    flat = mesh._flatten("all")
    tensor = torch.tensor([10**me.rank])
    dist.all_reduce(tensor, group=flat.get_group())
    return found, tensor, mesh.get_coordinate()


@program()
def layers_are_parallel_in_columns_and_rows(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (me.world,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 3))
    model = parallelize_module(model, mesh, plan)
    return train_sharded(me, model, same_data=True)


@program()
def layers_are_parallel_in_sequences(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (me.world,))
    plan = {
        "0": SequenceParallel(sequence_dim=0),
        "1": ColwiseParallel(input_layouts=Shard(0)),
        "3": RowwiseParallel(output_layouts=Shard(0)),
    }
    model = nn.Sequential(nn.LayerNorm(7), nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 3))
    model = parallelize_module(model, mesh, plan)
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(data(Rank(0, me.world, me.backend, me.folder), step)[:4]).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, whole_weights(model)


@program(world=4)
def shards_and_parallel_layers_go_together(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    model = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 4))
    model = parallelize_module(
        model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()}
    )
    fully_shard(model, mesh=mesh["data"])
    seen = Rank(mesh.get_local_rank("data"), 2, me.backend, me.folder)
    return train_sharded(seen, model)


@program()
def a_pipeline_fills_and_drains(me: Rank) -> Any:
    return run_pipeline(me, ScheduleGPipe)


@program()
def a_pipeline_alternates_forward_and_backward(me: Rank) -> Any:
    return run_pipeline(me, Schedule1F1B)


@program()
def a_pipeline_interleaves_several_stages_of_a_rank(me: Rank) -> Any:
    mine = [stage_module(each) for each in (me.rank, me.rank + 2)]
    stages = [
        PipelineStage(module, me.rank + 2 * index, 4, torch.device("cpu"))
        for index, module in enumerate(mine)
    ]
    schedule = ScheduleInterleaved1F1B(stages, 4, loss_fn=nn.functional.mse_loss)
    return step_pipeline(me, schedule, mine, last=me.rank == 1)


def train_fsdp1(me: Rank, strategy: ShardingStrategy) -> Any:
    """Trains with the first FSDP; gives losses and the whole parameters."""
    model = FullyShardedDataParallel(
        layers(),
        sharding_strategy=strategy,
        device_id=torch.device("cpu"),
        auto_wrap_policy=torch.distributed.fsdp.wrap.ModuleWrapPolicy({nn.Linear}),
        use_orig_params=True,
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        loss = model(data(me, step)).square().mean()
        loss.backward()
        norm = model.clip_grad_norm_(1.0)
        optimizer.step()
        losses.append((loss.item(), norm.item()))
    with FullyShardedDataParallel.summon_full_params(model):
        return losses, [each.detach().clone() for each in model.parameters()]


def train_sharded(me: Rank, model: nn.Module, same_data: bool = False) -> Any:
    """Trains a model of DTensors; gives losses and the whole parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        source = Rank(0, me.world, me.backend, me.folder) if same_data else me
        loss = model(data(source, step)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, whole_weights(model)


def whole_weights(model: nn.Module) -> list[torch.Tensor]:
    """The parameters, each gathered from its shards."""
    return [
        (each.full_tensor() if isinstance(each, DTensor) else each).detach().clone()
        for each in model.parameters()
    ]


def run_pipeline(me: Rank, schedule_type: type) -> Any:
    """Two stages on two ranks, with four micro-batches a step."""
    module = stage_module(me.rank)
    stage = PipelineStage(module, me.rank, me.world, torch.device("cpu"))
    schedule = schedule_type(stage, 4, loss_fn=nn.functional.mse_loss)
    return step_pipeline(me, schedule, [module], last=me.rank == me.world - 1)


def stage_module(stage: int) -> nn.Module:
    """The layers of one stage."""
    torch.manual_seed(stage)
    return nn.Sequential(nn.Linear(7, 7), nn.Tanh())


def step_pipeline(me: Rank, schedule: Any, modules: list[nn.Module], last: bool) -> Any:
    """Some steps of a pipeline; gives outputs and losses where they are known, and gradients."""
    torch.manual_seed(7)
    found: list[Any] = []
    for _ in range(2):
        batch, target = torch.randn(8, 7), torch.randn(8, 7)
        losses: list[torch.Tensor] = []
        inputs = (batch,) if me.rank == 0 else ()
        more = {"target": target, "losses": losses} if last else {}
        output = schedule.step(*inputs, **more)
        found.append((output.detach() if last else None, [loss.detach() for loss in losses]))
    return found, [each.grad.clone() for module in modules for each in module.parameters()]
