"""Handles on calls, as PyTorch wants them."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.futures import Future, collect_all

from consort._core import Op
from consort.torch import completers
from consort.torch.tensors import bring_back
from consort.torch.works_of_others import Whole


class Done(Whole):  # type: ignore[misc,valid-type]
    """A call that is done."""

    def __init__(self, result: Any) -> None:
        Whole.__init__(self)
        self._result = result

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Future:
        future: Future = Future()
        future.set_result(self._result)
        return future

    def source_rank(self) -> int:
        raise RuntimeError("source_rank is known only of a receive")

    _source_rank = source_rank

    def synchronize(self) -> None:
        pass

    def block_current_stream(self) -> None:
        pass


class Begun(Whole):  # type: ignore[misc,valid-type]
    """A call that is on its way.

    It goes on when this is forgotten. What has to be copied to where it belongs is copied in any
    case, by whoever comes first: the one who waits, or a thread that is told when the call is done.
    """

    def __init__(self, op: Op, result: Any, copies: Sequence[tuple[Tensor, Tensor]] = ()) -> None:
        Whole.__init__(self)
        self._op = op
        self._result = result
        self._copies = copies
        self._future: Future | None = None
        self._lock = threading.Lock()
        if copies:
            completers.when_done(op, self._settle_unheard)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        seconds = timeout.total_seconds() if timeout else None
        if not self._op.wait(seconds):
            raise RuntimeError(
                f"consort {self._op.operation}: waited {seconds} s, and the call is not done; it "
                "goes on, and can be waited for again"
            )
        if self._copies:
            self._settle()
        return True

    def is_completed(self) -> bool:
        if not self._op.is_done():
            return False
        self._settle_unheard()
        return True

    def is_success(self) -> bool:
        return self.exception() is None

    def exception(self) -> BaseException | None:
        if not self._op.is_done():
            return None
        try:
            self.wait()
        except Exception as error:
            return error
        return None

    def result(self) -> Any:
        if not self.is_completed():
            raise RuntimeError(
                f"consort {self._op.operation}: there is no result before the call is done: wait "
                "for it first"
            )
        self.wait()
        return self._result

    def get_future(self) -> Future:
        with self._lock:
            if self._future is not None:
                return self._future
            done: Future = Future()
            # An exception that is raised there reaches those who wait in PyTorch's compiled part,
            # which would take one that the future is given for a result.
            self._future = future = done.then(self._outcome)
        tell = functools.partial(done.set_result, None)
        if self._op.is_done():
            tell()
        else:
            completers.when_done(self._op, tell)
        return future

    def source_rank(self) -> int:
        source = self._op.source()
        if source is None:
            raise RuntimeError("source_rank is known only of a receive")
        return source

    _source_rank = source_rank

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def _outcome(self, done: Future) -> Any:
        """What the future gives."""
        self.wait()
        return self._result

    def _settle(self) -> None:
        """Copies what was written elsewhere to where it belongs, once."""
        with self._lock:
            copies, self._copies = self._copies, ()
            bring_back(copies)

    def _settle_unheard(self) -> None:
        """As `_settle`, if the call has succeeded; if not, whoever waits hears of that."""
        if not self._copies:
            return
        try:
            self._op.wait()
        except Exception:
            return
        self._settle()


class Several(Whole):  # type: ignore[misc,valid-type]
    """Calls that were begun together."""

    def __init__(self, works: Sequence[Work], result: Any) -> None:
        Whole.__init__(self)
        self._works = works
        self._result = result

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        for work in self._works:
            work.wait(timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return self.exception() is None

    def exception(self) -> BaseException | None:
        found = (work.exception() for work in self._works)
        return next((error for error in found if error is not None), None)

    def result(self) -> Any:
        if not self.is_completed():
            raise RuntimeError("there is no result before the calls are done: wait for them first")
        self.wait()
        return self._result

    def get_future(self) -> Future:
        return collect_all([work.get_future() for work in self._works]).then(self._outcome)

    def _outcome(self, done: Future) -> Any:
        for part in done.value():
            part.value()
        return self._result

    def source_rank(self) -> int:
        raise RuntimeError("source_rank is known only of a receive")

    _source_rank = source_rank

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()
