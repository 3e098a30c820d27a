"""Programs that are started as users start them, and what they print."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LIMIT_SECONDS = 120


def run(arguments: Sequence[str | Path], **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, or to the limit, with all that it has started."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    process = subprocess.Popen(
        [str(argument) for argument in arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, _ = process.communicate()
        raise AssertionError(f"it had not ended after {LIMIT_SECONDS} s:\n{printed}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, printed)


def python(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs this Python."""
    return run([sys.executable, *arguments], **variables)


def consort(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the `consort` program, which is built if it is not there."""
    program = ROOT / "target/debug/consort"
    if not program.exists():
        build = ["cargo", "build", "--quiet", "--locked", "-p", "consort-cli"]
        subprocess.run(build, cwd=ROOT, check=True)
    return run([program, *arguments], **variables)


def lines(result: subprocess.CompletedProcess[str]) -> list[str]:
    """What it printed, if it ended well."""
    assert result.returncode == 0, result.stdout
    return result.stdout.splitlines()
