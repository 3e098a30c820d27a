"""Tells PyTorch of the backend."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any


def register() -> None:
    """Makes ``torch.distributed`` know the backend ``consort``, if it can be known there.

    It is called inside ``import torch``, which fails if this does: whatever goes wrong becomes a
    warning, and ``init_process_group("consort")`` then says that there is no such backend.
    """
    try:
        _register()
    except Exception as error:
        # A warning may have been made an error.
        with contextlib.suppress(Warning):
            warnings.warn(f"consort is not available in torch.distributed: {error}", stacklevel=2)


def _register() -> None:
    import torch.distributed as dist

    if not dist.is_available() or hasattr(dist.Backend, _NAME.upper()):
        return
    # A list: PyTorch would take a text for a list of letters.
    dist.Backend.register_backend(_NAME, _create, extended_api=True, devices=["cpu"])


def _create(given: Any, options: Any) -> Any:
    """What PyTorch calls to make a group. The rest of the package is loaded here, not before."""
    from consort.torch.creation import create

    return create(given, options)


_NAME = "consort"
