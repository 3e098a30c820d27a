"""Measures PyTorch's Gloo: reads points from standard input, answers each with one line of JSON.

    python gloo_peer.py RANKS

Between points every rank sleeps in the kernel: rank 0 reads standard input, the others read from a
pipe on which rank 0 passes the line on.
"""

import json
import os
import signal
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from gloo_call import Call, Point, bus_factor
from gloo_timing import Figures, measure

PATIENCE_SECONDS = 300


def main() -> None:
    ranks = int(sys.argv[1])
    # Before the first thread is started.
    rank, lines, pipes = fork_ranks(ranks)
    meet(rank, ranks, lines, pipes)
    say(rank, {"ready": f"PyTorch {torch.__version__} Gloo"})
    for line in lines:
        pass_on(line, pipes)
        # Whoever asked may be gone, and a rank that hangs must not stay behind.
        signal.alarm(PATIENCE_SECONDS)
        answer(line.decode(), rank, ranks)
        signal.alarm(0)
    for pipe in pipes:
        os.close(pipe)


def fork_ranks(ranks: int):
    """Becomes all ranks. Gives this one's number, where its lines come from and go to."""
    pipes = []
    for rank in range(1, ranks):
        read_end, write_end = os.pipe()
        if os.fork() == 0:
            for pipe in [*pipes, write_end]:
                os.close(pipe)
            return rank, os.fdopen(read_end, "rb", buffering=0), []
        os.close(read_end)
        pipes.append(write_end)
    return 0, os.fdopen(0, "rb"), pipes


def meet(rank: int, ranks: int, lines, pipes: list) -> None:
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, ranks, is_master=True, wait_for_workers=False)
        pass_on(f"{store.port}\n".encode(), pipes)
    else:
        store = dist.TCPStore("127.0.0.1", int(lines.readline()), ranks, is_master=False)
    limit = timedelta(seconds=PATIENCE_SECONDS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=limit)


def pass_on(line: bytes, pipes: list) -> None:
    for pipe in pipes:
        os.write(pipe, line)


def answer(line: str, rank: int, ranks: int) -> None:
    try:
        point = Point.parse(line)
        call = Call(point, rank, ranks)
        right = check(call)
        figures = measure(call)
        # A result in place has been combined with itself many times.
        right = check(call) and right
    except (RuntimeError, ValueError) as error:
        # Every rank is told the same point and meets the same limit of the library.
        say(rank, {"error": str(error).splitlines()[0]})
        return
    say(rank, record(point, ranks, figures) if right else {"error": "the result is wrong"})


def check(call: Call) -> bool:
    call.fill()
    call.run()
    right = torch.tensor([call.is_right()], dtype=torch.int32)
    dist.all_reduce(right, op=dist.ReduceOp.MIN)
    return bool(right.item())


def record(point: Point, ranks: int, figures: Figures) -> dict:
    bandwidth = point.bytes / figures.p50_us * 1e-3
    return {
        "impl": "gloo",
        "transport": "tcp",
        "op": point.op,
        "dtype": point.dtype_name,
        "ranks": ranks,
        "bytes": point.bytes,
        "p50_us": round(figures.p50_us, 4),
        "p99_us": round(figures.p99_us, 4),
        "min_us": round(figures.min_us, 4),
        "algbw_GBs": round(bandwidth, 4),
        "busbw_GBs": round(bandwidth * bus_factor(point.op, ranks), 4),
    }


def say(rank: int, answer: dict) -> None:
    if rank == 0:
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
