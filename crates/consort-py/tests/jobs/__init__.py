"""Programs that are started as users start them, and how a test does that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


def torchrun(arguments: Sequence[str], script: str, *given: str, **environment: str) -> str:
    """Runs a job of two ranks with torchrun, on ports of the system's choice; gives its output."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return run([*launcher, *arguments, str(HERE / script), *given], environment)


def python(script: str, *given: str) -> str:
    """Runs a program that starts its ranks itself; gives its output."""
    return run([str(HERE / script), *given], {})


def run(command: Sequence[str], environment: dict[str, str]) -> str:
    """Runs Python with a hard limit. It must end well, and nothing of it is left behind."""
    mark = f"consort-test-{uuid.uuid4()}"
    job = subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, **environment, MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    try:
        output, _ = job.communicate(timeout=LIMIT)
    finally:
        end_all(mark)
        job.wait()
    assert job.returncode == 0, f"{' '.join(command)} ended with {job.returncode}:\n{output}"
    return output


def end_all(mark: str) -> None:
    """Ends every process that has the mark in its environment: launchers start sessions anew."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue


MARK = "TESTS_OF_CONSORT"  # not CONSORT_…, which consort reads
LIMIT = 150  # seconds
