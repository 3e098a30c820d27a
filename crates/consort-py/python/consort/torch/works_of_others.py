"""Works that PyTorch's compiled part was given.

It keeps its own half of a work that is written in Python, and not the half that knows how to wait.
Wherever that happens, the other half is kept here.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from typing import Any

import torch
from torch._C._distributed_c10d import Reducer, Work


class Recent(Work):
    """A work that is kept until it was waited for, or many others have come since.

    PyTorch 2.6 keeps only its half of every work that it is given; later versions keep the whole.
    """

    def __init__(self) -> None:
        Work.__init__(self)
        _recent[id(self)] = self
        if len(_recent) > _MANY:
            _recent.popitem(last=False)

    def __init_subclass__(cls) -> None:
        if "wait" not in vars(cls):
            return
        wait = cls.wait

        @functools.wraps(wait)
        def wait_and_forget(self: Any, *given: Any, **named: Any) -> bool:
            _recent.pop(id(self), None)
            return wait(self, *given, **named)

        cls.wait = wait_and_forget  # type: ignore[method-assign]


def keep_works() -> None:
    """Has DDP's reducer keep the whole of the work that it is given, until it is given the next."""
    hand_over = Reducer._set_forward_pass_work_handle
    if hasattr(hand_over, "__wrapped__"):
        return

    @functools.wraps(hand_over)
    def hand_over_whole(reducer: Any, work: Work, *rest: Any, **named: Any) -> Any:
        _kept[reducer] = work
        return hand_over(reducer, work, *rest, **named)

    setattr(Reducer, hand_over.__name__, hand_over_whole)


def _version() -> tuple[int, int]:
    major, minor, *_ = torch.__version__.split(".")
    return int(major), int(minor)


_kept: weakref.WeakKeyDictionary[Any, Work] = weakref.WeakKeyDictionary()
_recent: OrderedDict[int, Work] = OrderedDict()
_MANY = 256

#: What works are made of.
Whole: type[Work] = Recent if _version() < (2, 7) else Work
