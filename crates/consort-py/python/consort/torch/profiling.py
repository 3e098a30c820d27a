"""Calls in PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._C._distributed_c10d import Work
from torch.autograd.profiler import record_function

from consort.torch.work import Done


def profiled(operation: str, function: Callable[..., Work], *given: Any) -> Work:
    """Makes a call as an event `consort:…` of the profiler, which lasts until the call is done."""
    with record_function(f"consort:{operation}") as event:
        work = function(*given)
        if not isinstance(work, Done):
            event._call_end_callbacks_on_future(work.get_future())
    return work
