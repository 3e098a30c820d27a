"""Distributed checkpoints: saved, loaded, loaded by other shards, saved in the background."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import Rank, program
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from programs.ddp import data, layers
from programs.sharding import whole_weights


@program()
def what_was_saved_is_loaded(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (me.world,))
    whole = torch.arange(35.0).reshape(5, 7)
    state = {"weight": distribute_tensor(whole, mesh, [Shard(0)]), "step": 3 + me.rank}
    dcp.save(state, checkpoint_id=me.folder / "saved")
    empty = {"weight": distribute_tensor(torch.zeros(5, 7), mesh, [Shard(0)]), "step": 0}
    dcp.load(empty, checkpoint_id=me.folder / "saved")
    assert torch.equal(empty["weight"].full_tensor(), whole)
    return empty["weight"].to_local(), empty["step"]


@program(world=4)
def two_ranks_save_and_four_load_other_shards(me: Rank) -> Any:
    whole = torch.arange(99.0).reshape(11, 9)
    two = dist.new_group([0, 1])
    if me.rank < 2:
        mesh = dist.device_mesh.DeviceMesh.from_group(two, "cpu")
        state = {"weight": distribute_tensor(whole, mesh, [Shard(0)])}
        dcp.save(state, checkpoint_id=me.folder / "saved", process_group=two)
    dist.barrier()
    found = []
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("x", "y"))
    for placement in ([Shard(1), Shard(0)], [Shard(0), Replicate()], [Replicate(), Shard(1)]):
        state = {"weight": distribute_tensor(torch.zeros(11, 9), mesh, placement)}
        dcp.load(state, checkpoint_id=me.folder / "saved")
        assert torch.equal(state["weight"].full_tensor(), whole)
        found.append(state["weight"].to_local())
    return found


@program()
def training_goes_on_from_a_checkpoint(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (me.world,))
    model = fully_shard(layers(), mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=False)
    step_both(me, model, optimizer, 0)
    parts = get_state_dict(model, optimizer)
    dcp.save({"model": parts[0], "optimizer": parts[1]}, checkpoint_id=me.folder / "saved")
    straight_on = step_both(me, model, optimizer, 1)

    torch.manual_seed(99)
    model = fully_shard(layers(), mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=False)
    parts = get_state_dict(model, optimizer)
    state = {"model": parts[0], "optimizer": parts[1]}
    dcp.load(state, checkpoint_id=me.folder / "saved")
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    resumed = step_both(me, model, optimizer, 1)
    for here, there in zip(straight_on, resumed, strict=True):
        assert torch.equal(here, there)
    return resumed


@program()
def a_checkpoint_is_saved_while_ranks_go_on(me: Rank) -> Any:
    mesh = init_device_mesh("cpu", (me.world,))
    whole = torch.arange(1001.0)
    state = {"weight": distribute_tensor(whole, mesh, [Shard(0)])}
    # Saved from a thread, with a group of its own, so that both can use theirs at once.
    aside = dist.new_group()
    saving = dcp.async_save(state, checkpoint_id=me.folder / "saved", process_group=aside)
    tensor = torch.tensor([me.rank + 1])
    for _ in range(5):
        dist.all_reduce(tensor)
    saving.result()
    dist.barrier()
    empty = {"weight": distribute_tensor(torch.zeros(1001), mesh, [Shard(0)])}
    dcp.load(empty, checkpoint_id=me.folder / "saved")
    assert torch.equal(empty["weight"].full_tensor(), whole)
    return tensor


def step_both(me: Rank, model: Any, optimizer: Any, step: int) -> list[torch.Tensor]:
    """One step of training; gives the whole parameters."""
    optimizer.zero_grad()
    model(data(me, step)).square().mean().backward()
    optimizer.step()
    return whole_weights(model)
