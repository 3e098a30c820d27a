"""Calls in PyTorch's profiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._C._distributed_c10d import Work
from torch.autograd.profiler import record_function


def profiled(operation: str, function: Callable[..., Work], *given: Any) -> Work:
    """Makes a call as an event `consort:…` of the profiler.

    It lasts as long as the caller is in the call: until it is done if somebody waits for it, until it
    is begun if not.
    """
    with record_function(f"consort:{operation}"):
        return function(*given)
