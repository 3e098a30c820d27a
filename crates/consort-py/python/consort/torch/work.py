"""Handles on calls, as PyTorch wants them."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor
from torch._C import _distributed_c10d as compiled
from torch._C._distributed_c10d import Work
from torch.futures import Future, collect_all

from consort._core import Op
from consort.errors import _make
from consort.torch import completers
from consort.torch.tensors import bring_back
from consort.torch.works_of_others import Whole


class Handle(Whole):  # type: ignore[misc,valid-type]
    """What handles have in common. There are no streams on the CPU: to synchronize is to wait."""

    def is_success(self) -> bool:
        """Whether nothing has gone wrong so far."""
        return self.exception() is None

    def source_rank(self) -> int:
        """The rank whose message was received."""
        raise RuntimeError("source_rank is known only of a receive")

    def _source_rank(self) -> int:
        return self.source_rank()

    def synchronize(self) -> None:
        """Waits."""
        self.wait()

    def block_current_stream(self) -> None:
        """Waits."""
        self.wait()


class Done(Handle):
    """A call that is done."""

    def __init__(self, result: Any) -> None:
        Whole.__init__(self)
        self._result = result

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """There is nothing to wait for."""
        return True

    def is_completed(self) -> bool:
        """It is."""
        return True

    def exception(self) -> None:
        """There was none: whoever made the call would have had it."""
        return None

    def result(self) -> Any:
        """The tensors that the call has written."""
        return self._result

    def get_future(self) -> Future:
        """A future that is done."""
        future: Future = Future()
        future.set_result(self._result)
        return future


class Begun(Handle):
    """A call that is on its way.

    It goes on when this is forgotten. What has to be copied to where it belongs is copied in any
    case, by whoever comes first: the one who waits, or a thread that is told when the call is done.
    """

    def __init__(self, op: Op, result: Any, copies: Sequence[tuple[Tensor, Tensor]] = ()) -> None:
        Whole.__init__(self)
        self._op = op
        self._result = result
        self._copies = copies
        self._is_staged = bool(copies)
        self._error: Exception | None = None
        self._future: Future | None = None
        self._lock = threading.Lock()
        if copies:
            completers.when_done(op, self._settle_unheard)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until the call is done, or for so long; raises what went wrong.

        A call that is not done in time goes on, and can be waited for again.
        """
        seconds = timeout.total_seconds() if timeout else None
        if not self._op.wait(seconds):
            told = f"{self._op.operation} is not done after {seconds} s; it goes on: wait again"
            raise _make("Deadline", told, [])
        if self._is_staged:
            self._settle()
        return True

    def is_completed(self) -> bool:
        """Whether the call is done, for better or worse."""
        if not self._op.is_done():
            return False
        self._settle_unheard()
        return True

    def exception(self) -> BaseException | None:
        """What went wrong, if the call is done and something did."""
        if not self._op.is_done():
            return None
        try:
            self.wait()
        except Exception as error:
            return error
        return None

    def result(self) -> Any:
        """The tensors that the call has written, once it is done."""
        if not self.is_completed():
            raise RuntimeError(
                f"consort {self._op.operation}: there is no result before the call is done: wait "
                "for it first"
            )
        self.wait()
        return self._result

    def get_future(self) -> Future:
        """A future of the tensors that the call writes."""
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
        """The rank whose message was received."""
        source = self._op.source()
        return super().source_rank() if source is None else source

    def _get_sequence_number(self) -> int:
        """Which of the group's calls it is; 0 for a message."""
        return self._op.number

    def _get_op_type(self) -> Any:
        """What PyTorch calls the operation."""
        return _TYPES.get(self._op.operation, _OpType.UNKNOWN)

    def _outcome(self, done: Future) -> Any:
        """What the future gives."""
        self.wait()
        return self._result

    def _settle(self) -> None:
        """Copies what was written elsewhere to where it belongs, once; who comes meanwhile waits."""
        with self._lock:
            copies, self._copies = self._copies, ()
            try:
                bring_back(copies)
            except Exception as error:
                self._error = error
            if self._error is not None:
                raise self._error

    def _settle_unheard(self) -> None:
        """As `_settle`, for nobody: whoever waits hears of what went wrong."""
        if not self._is_staged:
            return
        try:
            self._op.wait()
            self._settle()
        except Exception:
            return


class Several(Handle):
    """Calls that were begun together."""

    def __init__(self, works: Sequence[Work], result: Any) -> None:
        Whole.__init__(self)
        self._works = works
        self._result = result

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until all are done, or for so long; raises the first thing that went wrong."""
        until = time.monotonic() + timeout.total_seconds() if timeout else None
        failure: Exception | None = None
        for work in self._works:
            left = timedelta(0)
            if until is not None:
                left = timedelta(seconds=max(until - time.monotonic(), _SOON))
            try:
                work.wait(left)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return True

    def is_completed(self) -> bool:
        """Whether all are done."""
        return all(work.is_completed() for work in self._works)

    def exception(self) -> BaseException | None:
        """The first thing that went wrong."""
        found = (work.exception() for work in self._works)
        return next((error for error in found if error is not None), None)

    def result(self) -> Any:
        """The tensors that the calls have written, once all are done."""
        if not self.is_completed():
            raise RuntimeError("there is no result before the calls are done: wait for them first")
        self.wait()
        return self._result

    def get_future(self) -> Future:
        """A future of the tensors that the calls write."""
        return collect_all([work.get_future() for work in self._works]).then(self._outcome)

    def _outcome(self, done: Future) -> Any:
        for part in done.value():
            part.value()
        return self._result


_OpType: Any = compiled.OpType  # type: ignore[attr-defined]
_TYPES = {
    "all_reduce": _OpType.ALLREDUCE,
    "broadcast": _OpType.BROADCAST,
    "reduce": _OpType.REDUCE,
    "all_gather": _OpType.ALLGATHER,
    "gather": _OpType.GATHER,
    "scatter": _OpType.SCATTER,
    "reduce_scatter": _OpType.REDUCE_SCATTER,
    "all_to_all": _OpType.ALLTOALL,
    "barrier": _OpType.BARRIER,
    "send": _OpType.SEND,
    "recv": _OpType.RECV,
}
# When the time is over there is still a look at each.
_SOON = 1e-6
