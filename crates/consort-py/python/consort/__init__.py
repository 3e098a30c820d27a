"""Processes that work together: collectives over shared memory and TCP.

With PyTorch there is nothing to import: ``torch.distributed`` knows the backend as soon as this
package is installed.

    import torch
    import torch.distributed as dist

    dist.init_process_group("consort")
    numbers = torch.ones(4) * dist.get_rank()
    dist.all_reduce(numbers)

``consort.torch`` has what goes beyond PyTorch's own interface; ``consort.nccl`` NCCL's own calls;
``consort.errors`` what can go wrong.
"""

from __future__ import annotations

from consort import errors
from consort.errors import (
    Aborted,
    Deadline,
    Error,
    Mismatch,
    Mistake,
    PeerGone,
    SystemTrouble,
)

#: The version of the package, which the compiled part knows.
__version__: str

__all__ = [
    "Aborted",
    "Deadline",
    "Error",
    "Mismatch",
    "Mistake",
    "PeerGone",
    "SystemTrouble",
    "__version__",
    "errors",
]


def __getattr__(name: str) -> str:
    """The compiled part is loaded when it is needed: PyTorch imports this package at its own start."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from consort._core import __version__

    return __version__
