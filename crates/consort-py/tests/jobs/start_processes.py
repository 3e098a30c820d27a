"""A program that starts its ranks itself, with one of multiprocessing's start methods.

    python start_processes.py METHOD BACKEND FOLDER TURNS

The backend is imported before, so that forked ranks inherit it as their parent has loaded it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(method: str, backend: str, folder: Path, turns: int) -> None:
    """Starts two ranks and waits for them, so many times."""
    if backend == "consort":
        import consort.torch  # noqa: F401
    for turn in range(turns):
        torch.multiprocessing.start_processes(
            run_rank, args=(backend, folder, turn), nprocs=2, start_method=method
        )


def run_rank(rank: int, backend: str, folder: Path, turn: int) -> None:
    """One rank: sums, asynchronously too, and leaves a file."""
    dist.init_process_group(
        backend, init_method=f"file://{folder}/meeting-{turn}", rank=rank, world_size=2
    )
    total = torch.full((1001,), rank + 1)
    dist.all_reduce(total, async_op=True).wait()
    assert total.tolist() == [3] * 1001
    dist.destroy_process_group()
    (folder / f"done-{turn}-{rank}").touch()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
