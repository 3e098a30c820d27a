"""A job for torchrun: trains with DDP and compares with training on one rank, in group after group.

    torchrun --nproc-per-node 2 train.py BACKEND FOLDER GROUPS

Nothing is imported for the backend: its entry point registers it. Every rank leaves a file in the
folder when all is well.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main(backend: str, folder: Path, groups: int) -> None:
    """Trains in several groups, one after the other."""
    for turn in range(groups):
        dist.init_process_group(backend)
        rank, world = dist.get_rank(), dist.get_world_size()
        trained, expected = train_together(rank), train_alone(world)
        for ours, theirs in zip(trained.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs)
        total = torch.tensor([rank + 1 + turn])
        dist.all_reduce(total)
        assert total.item() == sum(each + 1 + turn for each in range(world))
        dist.barrier()
        dist.destroy_process_group()
    (folder / f"done-{rank}").touch()


def train_together(rank: int) -> nn.Module:
    """Each rank has its own data, and gradients are averaged."""
    model = DistributedDataParallel(make_model(), bucket_cap_mb=0.001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        model(make_data(rank, step)).square().mean().backward()
        optimizer.step()
    return model.module


def train_alone(world: int) -> nn.Module:
    """The same on one rank, with the data of all."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        for rank in range(world):
            (model(make_data(rank, step)).square().mean() / world).backward()
        optimizer.step()
    return model


def make_model() -> nn.Module:
    """The same model everywhere."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(7, 33), nn.Tanh(), nn.Linear(33, 3))


def make_data(rank: int, step: int) -> torch.Tensor:
    """What a rank learns from in a step."""
    return torch.randn(5, 7, generator=torch.Generator().manual_seed(100 * rank + step))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
