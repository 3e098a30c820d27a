"""Runs one test in a process group of its own, within a limit, and leaves nothing of it behind."""

import ctypes
import faulthandler
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unittest
from dataclasses import dataclass
from pathlib import Path

from suite import Test, become


@dataclass(frozen=True)
class Outcome:
    """What became of a test: `passed`, `failed` or `skipped`."""

    status: str
    detail: str = ""
    """The error with its traceback, or the reason for the skip."""
    seconds: float = 0.0

    def last_line(self) -> str:
        """The error without the way to it, for a table."""
        lines = [line for line in self.detail.splitlines() if line.strip()]
        errors = [line for line in lines if _AN_ERROR.match(line)]
        return (errors or lines or [""])[-1]


class Trial:
    """A test under way.

    Ask `outcome()` again and again until it answers; by then every process of the test is gone.
    """

    def __init__(self, test: Test, backend: str, world: int, limit: float) -> None:
        self.test = test
        self.backend = backend
        self._limit = limit
        self._place = Path(tempfile.mkdtemp(prefix="torch-suite-"))
        (self._place / _LOG).touch(mode=0o600)
        self._begun = time.monotonic()
        self._leader = os.fork()
        if self._leader == 0:
            _lead(self._place, test, backend, world)
        # Both sides say so: whichever is first, the group exists before anyone needs it.
        _quietly(os.setpgid, self._leader, self._leader)

    def outcome(self) -> Outcome | None:
        """What became of the test, or None while it runs."""
        # Not waited for yet: until then its number, by which the group is killed, is no one else's.
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        overdue = os.waitid(os.P_PID, self._leader, how) is None
        if overdue and time.monotonic() - self._begun < self._limit:
            return None
        if overdue:
            self._ask_where_it_is()
        self._end_everyone()
        outcome = self._read(overdue, seconds=time.monotonic() - self._begun)
        self._remove_files()
        return outcome

    def end(self) -> None:
        """Ends a test that `outcome` has not answered for yet."""
        self._end_everyone()
        self._remove_files()

    def _ask_where_it_is(self) -> None:
        """Has each rank write the stacks of its threads into the log, one rank after the other."""
        children = Path(f"/proc/{self._leader}/task/{self._leader}/children")
        for rank in children.read_text().split():
            _quietly(os.kill, int(rank), signal.SIGUSR1)
            time.sleep(_TIME_TO_SAY)

    def _end_everyone(self) -> None:
        """Kills what is left of the group and waits for it, grandchildren too (see `adopt`)."""
        _quietly(os.killpg, self._leader, signal.SIGKILL)
        try:
            while True:
                os.waitpid(-self._leader, 0)
        except ChildProcessError:
            return

    def _remove_files(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)

    def _read(self, overdue: bool, seconds: float) -> Outcome:
        log = (self._place / _LOG).read_text(errors="replace")
        answer = self._place / _ANSWER
        if overdue:
            log = _without_the_way_in(log)
            return Outcome("failed", f"{log}\nError: not done within {self._limit:.0f} s", seconds)
        if not answer.exists():
            return Outcome("failed", f"{log}\nError: the test took its parent down", seconds)
        status, detail = json.loads(answer.read_text())
        return Outcome(status, _without_native_frames(detail), seconds)


def adopt() -> None:
    """Makes this process the parent of orphans below it, so that it can wait for all it kills."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _lead(place: Path, test: Test, backend: str, world: int) -> None:
    """The life of a group's leader: runs the test, whose ranks it forks, and writes the answer."""
    try:
        os.setpgid(0, 0)
        _die_with_parent()
        os.register_at_fork(after_in_child=_die_with_parent)
        # A rank is ended by this signal, without a word to the runner.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        log = os.open(place / _LOG, os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        tempfile.tempdir = os.environ["TMPDIR"] = str(place)
        answer = _judge(become(test, backend, world))
        (place / _ANSWER).write_text(json.dumps(answer))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Whatever happened, no fork may go on with the life of the process it was forked from.
        os._exit(0)


def _judge(case: unittest.TestCase) -> tuple[str, str]:
    result = unittest.TestResult()
    type(case).setUpClass()
    case.run(result)
    bad = result.errors + result.failures
    if bad:
        return "failed", "\n".join(text for _, text in bad)
    if result.unexpectedSuccesses:
        return "failed", "Error: passed, though it is marked as one that fails"
    if result.skipped:
        return "skipped", result.skipped[0][1]
    return "passed", ""


def _without_the_way_in(log: str) -> str:
    """Drops the outermost frames of the stacks, by which every rank came to its test."""
    return _WAY_IN.sub("", log)


def _without_native_frames(text: str) -> str:
    """Drops the C++ frames PyTorch adds to its errors: a hundred lines that tell nothing here."""
    return _NATIVE.sub("", text)


def _die_with_parent() -> None:
    """Even if the runner is killed, no rank stays."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


def _quietly(call, *arguments: int) -> None:
    try:
        call(*arguments)
    except (ProcessLookupError, PermissionError):
        return


_LOG = "log"
_ANSWER = "answer.json"
_TIME_TO_SAY = 0.2
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_AN_ERROR = re.compile(r"[A-Za-z_][\w.]*: (?!Process \d)")
_WAY_IN = re.compile(r'  File ".*common_distributed.py", line \d+ in run_test\n(  File .*\n)*')
_NATIVE = re.compile(
    r"Exception raised from .*\n(C\+\+ CapturedTraceback:\n)?((frame )?#\d+.*(\n|$))*"
)
