"""A rank's part: meets the others, runs one program after another, notes what came of each."""

from __future__ import annotations

import faulthandler
import importlib
import os
import random
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ranks.outcome import Outcome, log_path, outcome_path
from ranks.program import Program, Rank


def perform(programs: list[tuple[int, Program]], backend: str, rank: int, folder: Path) -> None:
    """Runs all programs on this rank. Each has an index, under which its outcome is noted."""
    for index, program in programs:
        common = folder / f"common-{index}"
        common.mkdir(exist_ok=True)
        me = Rank(rank, program.wish.world, backend, common)
        # The limit holds even if the program has stopped inside a library with the GIL held: the
        # watchdog is a thread in C, which shows where every thread is and ends the process.
        faulthandler.dump_traceback_later(program.wish.seconds, exit=True)
        start = log_path(folder, rank).stat().st_size
        outcome = run(program, me)
        faulthandler.cancel_dump_traceback_later()
        log = read_log(folder, rank, start)
        Outcome(outcome.kind, outcome.value, outcome.text, log).write(
            outcome_path(folder, rank, index)
        )
    faulthandler.dump_traceback_later(SECONDS_TO_END, exit=True)


def run(program: Program, me: Rank) -> Outcome:
    """Runs one program, in a group that it does not share with any other."""
    torch.manual_seed(0)
    random.seed(0)
    try:
        with meeting(me, program):
            return Outcome("value", call(program, me))
    except BaseException:  # also SystemExit: no program may end its rank unnoticed
        return Outcome("raised", text=traceback.format_exc())


@contextmanager
def meeting(me: Rank, program: Program) -> Iterator[None]:
    """The default group for one program, in good order again afterwards whatever has happened."""
    if program.wish.meet:
        join(me, program.wish.timeout)
    try:
        yield
    finally:
        if dist.is_initialized():
            keep_if_gloo(me.backend)
            dist.destroy_process_group()


def keep_if_gloo(backend: str) -> None:
    """Keeps the groups of the last program for a while, if they are Gloo's.

    A callback of a future can hold the last reference to a group. Gloo then ends the group on the
    group's own thread, which waits for itself and aborts the process.
    """
    if backend == "gloo":
        KEPT[:] = list(dist.distributed_c10d._world.pg_map)


def join(me: Rank, timeout: float = 40, name: str = "meeting", **more: Any) -> None:
    """Forms the default group through a file in the common folder."""
    store = dist.FileStore(str(me.folder / name), me.world)
    dist.init_process_group(
        me.backend,
        store=store,
        rank=me.rank,
        world_size=me.world,
        timeout=timedelta(seconds=timeout),
        **more,
    )


def call(program: Program, me: Rank) -> Any:
    """Calls the program's function, with its case if it has one."""
    function = getattr(importlib.import_module(program.module), program.function)
    return function(me) if program.case is None else function(me, program.case)


def redirect(folder: Path, rank: int) -> None:
    """Sends this process's standard output and error to its log."""
    log = os.open(log_path(folder, rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    faulthandler.enable(file=sys.stderr)


def read_log(folder: Path, rank: int, start: int) -> str:
    """What the log has from `start` on."""
    sys.stdout.flush()
    sys.stderr.flush()
    with log_path(folder, rank).open("rb") as log:
        log.seek(start)
        return log.read().decode(errors="replace")


KEPT: list[dist.ProcessGroup] = []

SECONDS_TO_END = 60  # for what a rank does when it has run all programs
