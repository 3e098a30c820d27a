"""Ranks of PyTorch's Gloo that do what they are told; README.md has the orders.

    python gloo_rank.py SOCKET HOST:PORT TIMEOUT WORLD FIRST COUNT

starts COUNT ranks from FIRST on, and ends with the last of them.
"""

import os
import signal
import socket
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

PATIENCE_SECONDS = 120
DTYPES = {"f32": torch.float32, "i32": torch.int32}
OPS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}


class Rank:
    def __init__(self, rank: int) -> None:
        path, self.address, timeout, world = sys.argv[1:5]
        self.rank, self.world, self.epoch = rank, int(world), 0
        self.timeout = timedelta(seconds=int(timeout))
        self.harness = socket.socket(socket.AF_UNIX)
        self.harness.connect(path)
        host, port = self.address.rsplit(":", 1)
        self.store = dist.TCPStore(
            host, int(port), self.world, rank == 0, timedelta(seconds=60), wait_for_workers=False
        )
        self.meet(rank, self.world)
        self.say(f"here {rank} {os.getpid()} PyTorch {torch.__version__} Gloo")

    def serve(self) -> None:
        for line in self.harness.makefile("r"):
            verb, *words = line.split()
            if verb == "abort":
                threading.Thread(target=self.abort, args=words, daemon=True).start()
                continue
            self.say(f"begins {time.monotonic_ns()}")
            try:
                value = getattr(self, verb)(*words)
                self.say(f"did {time.monotonic_ns()} good {value}")
            except Exception as error:  # whatever the library gives is what is asked for
                text = str(error).replace("\n", "; ")
                self.say(f"did {time.monotonic_ns()} failed {type(error).__name__} {text}")
                self.leave()

    def call(self, *words: str):
        work, result = begin(*words)
        work.wait()
        return result[0].item() if len(result) else ""

    def loop(self, *words: str) -> None:
        while True:
            self.call(*words)

    def pending(self, count: str, *words: str):
        begun = [begin(*words) for _ in range(int(count))]
        for work, _ in begun:
            work.wait()
        return begun[-1][1][0].item()

    def exit(self, code: str) -> None:
        # At once: to take Python down takes a second or two, which is not what is measured.
        os._exit(int(code))

    def abort(self, milliseconds: str) -> None:
        time.sleep(int(milliseconds) / 1e3)
        self.say(f"aborts {time.monotonic_ns()}")
        dist.distributed_c10d._abort_process_group()

    def regroup(self, *words: str):
        ranks = [int(word) for word in words]
        self.leave()
        self.epoch += 1
        self.meet(ranks.index(self.rank), len(ranks))
        return self.call("all_reduce", "f32", "1024", "sum", "1")

    def meet(self, rank: int, world: int) -> None:
        store = dist.PrefixStore(str(self.epoch), self.store)
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=world, timeout=self.timeout
        )

    def leave(self) -> None:
        """As a program does that wants to go on, and so that others notice."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def say(self, line: str) -> None:
        self.harness.sendall(f"{line}\n".encode())


def begin(op: str, *words: str):
    """Begins a call. Gives what to wait for, and the tensor that will have the result."""
    if op == "barrier":
        return dist.barrier(async_op=True), []
    dtype, count, how, value = words
    tensor = torch.full((int(count),), int(value), dtype=DTYPES[dtype])
    if op == "broadcast":
        return dist.broadcast(tensor, src=int(how), async_op=True), tensor
    return dist.all_reduce(tensor, op=OPS[how], async_op=True), tensor


def main() -> None:
    first, count = int(sys.argv[5]), int(sys.argv[6])
    children = []
    # Before the first thread is started.
    for rank in range(first, first + count):
        child = os.fork()
        if child == 0:
            # The harness may be gone, and a rank that hangs must not stay behind.
            signal.alarm(PATIENCE_SECONDS)
            Rank(rank).serve()
            return
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
