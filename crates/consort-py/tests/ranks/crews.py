"""The tests' side: asks the nursery for crews, and hands out what came of each program."""

from __future__ import annotations

import base64
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from ranks.compare import assert_same
from ranks.nursery import Request
from ranks.outcome import Outcome, outcome_path
from ranks.program import Program


class Crews:
    """Runs programs when the first test asks for one of them, all those of its module together."""

    def __init__(self, wanted: list[Program], backend: str) -> None:
        self.backend = backend
        self.folder = tempfile.TemporaryDirectory(prefix="consort-tests-")
        self.requests: dict[tuple[str, int, str], list[Program]] = defaultdict(list)
        for program in dict.fromkeys(wanted):
            self.requests[request_key(program)].append(program)
        self.done: dict[tuple[str, Program], list[Outcome]] = {}
        self.nursery: subprocess.Popen[bytes] | None = None

    def values(self, program: Program, backend: str | None = None) -> list[Any]:
        """What each rank has returned. The test fails if any of them did not come to that."""
        outcomes = self.outcomes(program, backend)
        if any(outcome.kind != "value" for outcome in outcomes):
            pytest.fail(report(program, backend or self.backend, outcomes), pytrace=False)
        return [outcome.value for outcome in outcomes]

    def assert_same_as_gloo(self, program: Program) -> None:
        """Every rank returns the same with the backend under test as with Gloo."""
        expected = self.values(program, "gloo")
        actual = self.values(program)
        for rank, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
            assert_same(ours, theirs, f"rank {rank}", exact=program.wish.exact)

    def outcomes(self, program: Program, backend: str | None = None) -> list[Outcome]:
        """What came of a program on each rank."""
        backend = backend or self.backend
        if (backend, program) not in self.done:
            self.run(self.requests[request_key(program)], backend)
        return self.done[backend, program]

    def run(self, programs: list[Program], backend: str) -> None:
        """Has a crew run these programs, and reads their outcomes."""
        folder = Path(tempfile.mkdtemp(dir=self.folder.name))
        self.ask(Request(programs, backend, folder))
        for index, program in enumerate(programs):
            self.done[backend, program] = [
                read_outcome(outcome_path(folder, rank, index))
                for rank in range(program.wish.world)
            ]

    def ask(self, request: Request) -> None:
        """Sends a request to the nursery, which is started for the first, and waits for its end."""
        if self.nursery is None or self.nursery.poll() is not None:
            self.nursery = start_nursery()
        assert self.nursery.stdin and self.nursery.stdout
        self.nursery.stdin.write(base64.b64encode(pickle.dumps(request)) + b"\n")
        self.nursery.stdin.flush()
        if self.nursery.stdout.readline() != b"done\n":
            raise RuntimeError("the nursery ended; its error is above")

    def close(self) -> None:
        """Ends the nursery with everything that it has started, and removes what was written."""
        if self.nursery is not None:
            try:
                os.killpg(self.nursery.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.nursery.wait()
        self.folder.cleanup()


def start_nursery() -> subprocess.Popen[bytes]:
    """Starts the nursery in a session of its own, so that its whole family can be ended."""
    here = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-m", "ranks.nursery"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **QUIET, "PYTHONPATH": path},
        start_new_session=True,
    )


def request_key(program: Program) -> tuple[str, int, str]:
    """Programs with the same key are run by the same crew."""
    return program.module, program.wish.world, program.name if program.wish.alone else ""


def read_outcome(path: Path) -> Outcome:
    """An outcome from disk, or one that says that there is none."""
    if not path.exists():
        return Outcome("missing", text="the program was never run to an end")
    return Outcome.read(path)


def report(program: Program, backend: str, outcomes: list[Outcome]) -> str:
    """What went wrong on which rank, for whoever reads the failed test."""
    lines = [f"{program.name} with {backend}, {program.wish.world} ranks:"]
    for rank, outcome in enumerate(outcomes):
        lines.append(f"--- rank {rank}: {outcome.kind} {outcome.text}")
        if outcome.log:
            lines.append(f"    rank {rank} wrote:\n{outcome.log}")
    return "\n".join(lines)


# One thread per rank, as the machine may have fewer cores than a crew has ranks. The addresses
# keep Gloo and everything else on this host. Some virtual machines show matrix instructions (AMX) that
# they do not carry out, and PyTorch's bfloat16 ends with the first of them.
QUIET = {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "PYTHONFAULTHANDLER": "1",
    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
}
