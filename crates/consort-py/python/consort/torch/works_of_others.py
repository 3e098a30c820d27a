"""Works that PyTorch's compiled part was given.

It keeps its own half of a work that is written in Python, and not the half that knows how to wait.
Wherever Python hands a work over, the other half is kept beside it.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from torch._C._distributed_c10d import Reducer, Work


def keep_works() -> None:
    """Has DDP's reducer keep the whole of the work that it is given, until it is given the next."""
    hand_over = Reducer._set_forward_pass_work_handle
    if hasattr(hand_over, "__wrapped__"):
        return

    @functools.wraps(hand_over)
    def hand_over_whole(reducer: Any, work: Work, *rest: Any, **named: Any) -> Any:
        _kept[reducer] = work
        return hand_over(reducer, work, *rest, **named)

    Reducer._set_forward_pass_work_handle = hand_over_whole


_kept: weakref.WeakKeyDictionary[Any, Work] = weakref.WeakKeyDictionary()
