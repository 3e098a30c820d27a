"""Keeps PyTorch's compiler from looking into this package.

A compiled program's calls reach a group from PyTorch's compiled part, while the compiler still looks
at every frame of Python that begins. There is nothing for it to gain here, and what it does not know
it fails on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import torch


def leave_untraced() -> None:
    """Has the compiler pass over every function of this package that was loaded so far.

    The compiler itself need not be loaded for that, which would take seconds.
    """
    skip = _skip()
    if skip is None:
        return
    for name, module in list(sys.modules.items()):
        if name == _PACKAGE or name.startswith(f"{_PACKAGE}."):
            for code in _codes_of(vars(module), name):
                skip(code)


def _skip() -> Callable[[CodeType], None] | None:
    """What has the compiler pass over a function; `None` where it is called otherwise."""
    frames: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "skip_code"):
        return frames.skip_code
    if not hasattr(frames, "set_code_exec_strategy"):
        return None
    action = frames._FrameAction.SKIP
    # Whatever is called by it is passed over as well.
    strategy = frames._FrameExecStrategy(action, action)
    return lambda code: frames.set_code_exec_strategy(code, strategy)


def _codes_of(names: Any, module: str) -> Iterator[CodeType]:
    """The code of all functions and methods that were defined in a module."""
    for value in list(names.values()):
        value = getattr(value, "__func__", getattr(value, "fget", value))
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield from _with_inner(value.__code__)
        elif isinstance(value, type) and value.__module__ == module:
            yield from _codes_of(vars(value), module)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


_PACKAGE = "consort"
