"""Processes that work together: collectives over shared memory and TCP.

With PyTorch there is nothing to import: ``torch.distributed`` knows the backend as soon as this
package is installed.

    import torch
    import torch.distributed as dist

    dist.init_process_group("consort")
    numbers = torch.ones(4) * dist.get_rank()
    dist.all_reduce(numbers)

``consort.torch`` has what goes beyond PyTorch's own interface; ``consort.errors`` what can go wrong.
"""

from consort import errors
from consort._core import __version__
from consort.errors import (
    Aborted,
    Deadline,
    Error,
    Mismatch,
    Mistake,
    PeerGone,
    SystemTrouble,
)

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
