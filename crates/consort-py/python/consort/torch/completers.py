"""Threads that complete futures."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from consort._core import Completions, Op


class Completers:
    """Threads that do in Python what is to be done when calls are.

    The thread that completes a call must not run Python. A function that a future calls may itself
    wait for another call's future, so there is always one thread more than are inside functions.
    None is started before the first future is asked for.
    """

    def __init__(self) -> None:
        self._queue = Completions()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._idle = 0

    def when_done(self, op: Op, function: Callable[[], None]) -> None:
        """Has a function called when a call is done."""
        with self._lock:
            if not self._threads:
                self._start()
        op.notify(self._queue, function)

    def close(self, seconds: float) -> None:
        """Ends the threads, and waits so long for those that are inside functions."""
        self._queue.close()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(seconds)

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="consort completer", daemon=True)
        thread.start()
        self._threads.add(thread)
        self._idle += 1

    def _run(self) -> None:
        while (function := self._queue.take()) is not None:
            self._keep_one_idle()
            try:
                function()
            except BaseException:
                # Nobody waits here: it is shown as any thread's, and the thread goes on.
                sys.excepthook(*sys.exc_info())
            # What it refers to must not live until the next one comes.
            del function
            with self._lock:
                if self._idle >= _IDLE:
                    self._threads.discard(threading.current_thread())
                    return
                self._idle += 1

    def _keep_one_idle(self) -> None:
        """Has somebody else wait for what comes while this thread is inside a function."""
        with self._lock:
            self._idle -= 1
            if self._idle > 0:
                return
            try:
                self._start()
            except RuntimeError as error:
                # Functions that wait for each other may then wait for ever; most do not.
                print(f"consort: no thread to complete futures with: {error}", file=sys.stderr)


def when_done(op: Op, function: Callable[[], None]) -> None:
    """Has a function called, by a thread of its own, when a call is done."""
    _completers.when_done(op, function)


def close(seconds: float) -> None:
    """Ends the threads, at the end of the program."""
    _completers.close(seconds)


def _begin_anew() -> None:
    """A forked child has none of its parent's threads."""
    global _completers
    _completers = Completers()


# So many threads are kept that have nothing to do.
_IDLE = 2
_completers = Completers()
os.register_at_fork(after_in_child=_begin_anew)
