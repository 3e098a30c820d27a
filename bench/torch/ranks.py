"""Ranks as processes, each in a group of Gloo and in one of consort."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

# Each rank computes with its share of the cores, also in what is read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist


@dataclass
class Ranks:
    """What a rank measures with."""

    rank: int
    world: int
    gloo: Any
    consort: Any

    def backends(self) -> dict[str, Any]:
        """The groups, in the order in which they take turns."""
        return {"gloo": self.gloo, "consort": self.consort}


def together(world: int, function: Callable[..., Any], *given: Any) -> Any:
    """Calls a function on all ranks, and gives what it returns on the first."""
    # Before torch has started a thread: forked ranks need not import it.
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="consort-bench-") as folder:
        place = os.path.join(folder, "store")
        processes = [
            context.Process(target=_be, args=(rank, world, place, results, function, given))
            for rank in range(world)
        ]
        for process in processes:
            process.start()
        found = _await(processes, results)
        for process in processes:
            process.join()
    return found


def _await(processes: list[Any], results: Any) -> Any:
    """The first rank's result; the end if any rank fails."""
    while results.empty():
        failed = [p for p in processes if p.exitcode not in (None, 0)]
        if failed:
            for process in processes:
                process.kill()
            raise SystemExit(f"{len(failed)} of {len(processes)} ranks have failed")
        processes[0].join(0.2)
    return results.get()


def _be(rank: int, world: int, place: str, results: Any, function: Any, given: Any) -> None:
    torch.set_num_threads(1)
    limit = timedelta(minutes=5)
    store = dist.FileStore(place, world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=limit)
    consort = dist.new_group(backend="consort", timeout=limit)
    found = function(Ranks(rank, world, dist.group.WORLD, consort), *given)
    if rank == 0:
        results.put(found)
    dist.barrier()
    dist.destroy_process_group()
