"""What communication adds to a step of data-parallel training.

Every rank has the same model several times: one learns alone, the others with the ranks, each in its
own way. They take turns step by step, after a barrier; a step lasts from the earliest start to the
latest end over ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import consort.torch
import torch
import torch.distributed as dist
from ranks import Ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Model:
    """A chain of linear layers with a threshold in between."""

    name: str
    layers: int
    width: int
    batch: int

    def make(self) -> nn.Module:
        torch.manual_seed(0)
        parts: list[nn.Module] = []
        for _ in range(self.layers):
            layer = nn.Linear(self.width, self.width)
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            parts += [layer, nn.ReLU()]
        return nn.Sequential(*parts[:-1])


class Learner:
    """A model with an optimizer and data of its own."""

    def __init__(self, model: nn.Module, shape: Model) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        self.inputs = torch.randn(shape.batch, shape.width)
        self.targets = torch.randn(shape.batch, shape.width)

    def step(self) -> None:
        loss = nn.functional.mse_loss(self.model(self.inputs), self.targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def measure(ranks: Ranks, shape: Model, steps: int) -> list[dict[str, Any]]:
    """The time of a step for each kind, and how much of it communication adds."""
    learners = {name: Learner(model, shape) for name, model in _models(ranks, shape).items()}
    times: dict[str, list[float]] = {name: [] for name in learners}
    for step in range(WARM_UP + steps):
        for name, learner in learners.items():
            took = _timed(ranks, learner)
            if step >= WARM_UP:
                times[name].append(took)
    found = {name: sorted(taken)[len(taken) // 2] for name, taken in times.items()}
    alone = found["alone"]
    return [
        {
            "model": shape.name,
            "kind": name,
            "ranks": ranks.world,
            "step_ms": round(time, 3),
            "exposed_ms": round(time - alone, 3),
        }
        for name, time in found.items()
    ]


def _models(ranks: Ranks, shape: Model) -> dict[str, nn.Module]:
    def ddp(group: Any, views: bool) -> nn.Module:
        made = shape.make()
        return DistributedDataParallel(made, process_group=group, gradient_as_bucket_view=views)

    ours = consort.torch.DistributedDataParallel(shape.make(), process_group=ranks.consort)
    return {
        "alone": shape.make(),
        "DDP on Gloo": ddp(ranks.gloo, False),
        "DDP on Gloo, views": ddp(ranks.gloo, True),
        "DDP on consort": ddp(ranks.consort, False),
        "DDP on consort, views": ddp(ranks.consort, True),
        "consort.torch": ours,
    }


def _timed(ranks: Ranks, learner: Learner) -> float:
    dist.barrier(group=ranks.consort)
    start = perf_counter()
    learner.step()
    span = torch.tensor([-start, perf_counter()], dtype=torch.float64)
    dist.all_reduce(span, op=dist.ReduceOp.MAX, group=ranks.consort)
    return (span[0] + span[1]).item() * 1e3


# As small as is sensible: what is learned does not matter, but it must stay finite.
LEARNING_RATE = 1e-4
WARM_UP = 5
MODELS = [Model("mlp", 6, 2048, 32), Model("small", 200, 64, 32)]
