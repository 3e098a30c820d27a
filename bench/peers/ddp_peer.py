"""Trains with PyTorch's DistributedDataParallel on Gloo, and times the steps (README.md has the protocol).

    python ddp_peer.py RANKS THREADS LAYERS WIDTH BATCH [--views]

Every rank has the model twice: one learns together with the other ranks, one alone. Each question is how
many steps to make with the first, and then with the second.
"""

import signal
import sys
from time import monotonic_ns, process_time_ns

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gloo_peer import PATIENCE_SECONDS, fork_ranks, meet, pass_on, say

# As small as is sensible: what is learned does not matter, but it must stay finite.
LEARNING_RATE = 1e-4

# So many passes DDP times without being asked to.
CLOCKED = 10


def main() -> None:
    ranks, threads, layers, width, batch = map(int, sys.argv[1:6])
    # Before the first thread is started.
    rank, lines, pipes = fork_ranks(ranks)
    torch.set_num_threads(threads)
    signal.alarm(PATIENCE_SECONDS)
    meet(rank, ranks, lines, pipes)
    torch.manual_seed(rank)
    wrapped = DistributedDataParallel(
        chain(layers, width), gradient_as_bucket_view="--views" in sys.argv
    )
    together, alone = Learner(wrapped, width, batch), Learner(chain(layers, width), width, batch)
    signal.alarm(0)
    say(rank, {"ready": f"PyTorch {torch.__version__} on Gloo"})
    for line in lines:
        pass_on(line, pipes)
        # Whoever asked may be gone, and a rank that hangs must not stay behind.
        signal.alarm(PATIENCE_SECONDS)
        answer(int(line), together, alone, rank)
        signal.alarm(0)


def chain(layers: int, width: int) -> nn.Module:
    """Linear layers with nothing but a threshold in between; numbers keep their size on the way."""
    parts = []
    for _ in range(layers):
        layer = nn.Linear(width, width)
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Learner:
    """A model with an optimizer and a batch of data."""

    def __init__(self, model: nn.Module, width: int, batch: int) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
        self.inputs, self.targets = torch.randn(batch, width), torch.randn(batch, width)

    def learn(self, steps: int) -> tuple:
        """Start and end of each step by the clock that all processes share, and for how long this one
        computed meanwhile, in nanoseconds; and what is known of its communication."""
        times, clocked = [], []
        for _ in range(steps):
            dist.barrier()
            start, before = monotonic_ns(), process_time_ns()
            loss = self.step()
            times.append((start, monotonic_ns(), process_time_ns() - before))
            clocked += passes(self.model)
        if not torch.isfinite(loss):
            raise RuntimeError(f"the loss is {loss.item()}")
        return times, clocked

    def step(self) -> torch.Tensor:
        loss = nn.functional.mse_loss(self.model(self.inputs), self.targets)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def passes(model: nn.Module) -> list:
    """What DDP's own clock says of the last pass but one. It is wound up for the first ten passes only."""
    data = model._get_ddp_logging_data() if isinstance(model, DistributedDataParallel) else {}
    iteration = data.get("iteration", 0)
    # In the very first pass there is one bucket for all.
    if "backward_comm_time" not in data or not 2 <= iteration < CLOCKED:
        return []
    hidden = data["backward_compute_comm_overlap_time"]
    return [{"communication": data["backward_comm_time"], "hidden": max(hidden, 0)}]


def answer(steps: int, together: Learner, alone: Learner, rank: int) -> None:
    times, clocked = together.learn(steps)
    mine = {"together": times, "alone": alone.learn(steps)[0], "passes": clocked}
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, mine)
    say(rank, {"ranks": everyones})


if __name__ == "__main__":
    main()
