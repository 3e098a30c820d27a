"""Train on four ranks, lose one, go on with three.

    consort run -n 4 --tolerate 1 -- python survive.py

Nothing here is consort's but the backend's name, `failure` and `shrink`: the rest is how programs for
PyTorch are written anyway. `--tolerate 1` tells the launcher to let the others live when one rank
fails; torchrun has no such thing, and restarts all of them.
"""

import os
import signal

import consort
import consort.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 60
VICTIM, FATAL_STEP = 2, 20


def main() -> None:
    # 1. One line. Ranks, world and meeting place come from the launcher, consort run or torchrun.
    dist.init_process_group("consort")
    torch.manual_seed(0)
    truth = torch.randn(16, 1)
    network = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
    torch.manual_seed(1000 + dist.get_rank())

    step, trainer = 0, Trainer(network)
    while step < STEPS:
        if step == FATAL_STEP and dist.get_rank() == VICTIM and dist.get_world_size() == 4:
            print(f"rank {VICTIM}: about to be killed", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            # 2. Train as usual.
            loss = trainer.step(truth)
        except RuntimeError:
            # 3. Every rank that is left comes here. PyTorch's DDP keeps the text of an error; what has
            #    ended the group, and which ranks it is about, consort knows.
            error = consort.torch.failure()
            if not isinstance(error, consort.PeerGone):
                raise
            print(f"rank {dist.get_rank()}: lost rank {error.ranks[0]} in step {step}", flush=True)
            # 4. Agree on who is left. The group of all is theirs from here on; ranks count anew.
            consort.torch.shrink()
            # 5. Some may have finished the step and others not: a new DDP starts with what rank 0
            #    has, and so does the count of steps.
            trainer = Trainer(network)
            step = agreed(step)
            print(f"rank {dist.get_rank()} of {dist.get_world_size()} goes on", flush=True)
            continue
        step += 1
        if step % 20 == 0 and dist.get_rank() == 0:
            print(f"step {step}, {dist.get_world_size()} ranks: loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


class Trainer:
    """A network that learns together with the other ranks."""

    def __init__(self, network: nn.Module) -> None:
        self.model = DistributedDataParallel(network)
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.05)

    def step(self, truth: torch.Tensor) -> float:
        """Learns from some data of this rank's own; gives the loss over all ranks."""
        inputs = torch.randn(64, 16)
        loss = nn.functional.mse_loss(self.model(inputs), inputs @ truth)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        everyones = loss.detach()
        dist.all_reduce(everyones, op=dist.ReduceOp.AVG)
        return everyones.item()


def agreed(step: int) -> int:
    """Rank 0's step."""
    number = torch.tensor([step])
    dist.broadcast(number, 0)
    return int(number)


if __name__ == "__main__":
    main()
