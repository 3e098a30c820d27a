"""The nursery: a process that imports torch once, and forks ranks whenever it is asked to.

It reads one request per line from its standard input, as pickled and base64-coded `Request`, and
answers with one line when every outcome of it is on disk. It ends, with all its children, when the
input ends.

A crew that loses a rank goes on until everybody is through with the program in which that
happened (the others find out, or reach their limit); then a new crew begins after it.
"""

from __future__ import annotations

import base64
import ctypes
import gc
import os
import pickle
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from ranks.outcome import Outcome, log_path, outcome_path
from ranks.program import Program


@dataclass(frozen=True)
class Request:
    """Programs of one world size that a crew shall run with a backend, and a folder for results."""

    programs: list[Program]
    backend: str
    folder: Path


def main() -> None:
    """Serves requests until there are no more."""
    warm_up()
    for line in sys.stdin.buffer:
        serve(pickle.loads(base64.b64decode(line)))
        sys.stdout.buffer.write(b"done\n")
        sys.stdout.buffer.flush()


def warm_up() -> None:
    """Imports what all ranks need. Ranks are forked from here, so nothing may start a thread."""
    import torch
    import torch.distributed
    import torch.distributed.checkpoint
    import torch.distributed.fsdp
    import torch.distributed.tensor.parallel

    try:
        import consort.torch  # noqa: F401
    except ModuleNotFoundError as missing:
        if missing.name != "consort":  # without it everything can still be run with Gloo
            raise
    torch.set_num_threads(1)
    import ranks.stage  # noqa: F401

    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        raise RuntimeError(f"imports have started {len(threads) - 1} threads; ranks are forked")
    # What is here now stays: ranks need not look through it, and so copy it, to collect garbage.
    gc.freeze()


def serve(request: Request) -> None:
    """Lets crews run all programs of a request, one crew after another."""
    left = list(enumerate(request.programs))
    while left:
        crew = Crew(request, left)
        broken = crew.follow()
        left = [(index, each) for index, each in left if broken is not None and index > broken]


class Crew:
    """The ranks that run the programs of a request, as far as they get."""

    def __init__(self, request: Request, programs: list[tuple[int, Program]]) -> None:
        self.request = request
        self.programs = programs
        self.alive: dict[int, int] = {}  # process id to rank
        for rank in range(programs[0][1].wish.world):
            self.alive[self.start(rank)] = rank

    def start(self, rank: int) -> int:
        """Forks a rank, which runs all programs and exits."""
        log_path(self.request.folder, rank).touch()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            die_with_parent()
            sys.stdin = open(os.devnull)
            from ranks.stage import perform, redirect

            redirect(self.request.folder, rank)
            perform(self.programs, self.request.backend, rank, self.request.folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            # As at the end of a program: exit handlers run, so that libraries can be seen to end.
            leave(code)

    def follow(self) -> int | None:
        """Waits for the crew; gives the index of the program in which a rank was lost, if any."""
        while self.alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                time.sleep(0.005)
                continue
            rank = self.alive.pop(pid, None)
            if rank is None:
                continue
            broken = self.first_missing(rank)
            if broken is not None:
                self.note(rank, broken, Outcome("died", text=describe(status)))
                self.gather(broken)
                return broken
            if status != 0:
                last = self.programs[-1][0]
                self.note(rank, last, Outcome("died", text=f"at its end: {describe(status)}"))
        return None

    def gather(self, broken: int) -> None:
        """Waits until the others are through with the program as well, then ends them."""
        while self.alive:
            for pid, rank in list(self.alive.items()):
                through = self.path(rank, broken).exists()
                if through:
                    os.kill(pid, signal.SIGKILL)
                ended, status = os.waitpid(pid, 0 if through else os.WNOHANG)
                if ended:
                    del self.alive[pid]
                    if not self.path(rank, broken).exists():
                        self.note(rank, broken, Outcome("died", text=describe(status)))
            time.sleep(0.005)

    def first_missing(self, rank: int) -> int | None:
        """The index of the first program without an outcome from this rank."""
        for index, _ in self.programs:
            if not self.path(rank, index).exists():
                return index
        return None

    def note(self, rank: int, index: int, outcome: Outcome) -> None:
        """Writes an outcome for a rank that no longer can, with the end of its log."""
        log = log_path(self.request.folder, rank).read_text(errors="replace")[-8000:]
        Outcome(outcome.kind, text=outcome.text, log=log).write(self.path(rank, index))

    def path(self, rank: int, index: int) -> Path:
        """Where a rank's outcome of a program is."""
        return outcome_path(self.request.folder, rank, index)


def leave(code: int) -> None:
    """Ends a forked rank with its exit handlers, but never returns into the nursery's loop."""
    import atexit
    import threading

    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def describe(status: int) -> str:
    """How a process ended, in words."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exited with {code}"


def die_with_parent() -> None:
    """Asks the kernel to end this process when the nursery ends."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    main()
