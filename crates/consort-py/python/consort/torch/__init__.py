"""consort as a backend of ``torch.distributed``, for tensors on the CPU.

Once the package is installed PyTorch finds it by itself:

    import torch.distributed as dist

    dist.init_process_group("consort")

Importing this module does the same where PyTorch is told not to look for backends
(``TORCH_DEVICE_BACKEND_AUTOLOAD=0``). Nothing else happens: no thread is started, and nothing is
loaded before the first group is made.

What goes beyond PyTorch's own interface:

* :class:`Options` for ``pg_options``: how data travels, and what a rank tells of itself
* :func:`shrink`: go on without the ranks that have died
* :func:`failure`: what has ended a group
* :func:`flight_record`: the last calls of this rank, as ``consort trace`` reads them
* :mod:`symm_mem <consort.torch.symm_mem>`: memory that all ranks of a host reach, as tensors
* :class:`DistributedDataParallel`: gradients that are averaged where they lie
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from consort.torch._registration import register

if TYPE_CHECKING:
    from consort.torch import symm_mem
    from consort.torch.data_parallel import DistributedDataParallel
    from consort.torch.flight import failure, flight_record
    from consort.torch.options import Options
    from consort.torch.shrinking import shrink
    from consort.torch.store import Store

__all__ = [
    "DistributedDataParallel",
    "Options",
    "Store",
    "failure",
    "flight_record",
    "shrink",
    "symm_mem",
]


def __getattr__(name: str) -> Any:
    """Loads what is asked for, when it is asked for: PyTorch imports this module at its own start."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = importlib.import_module(f"{__name__}.{_PLACES[name]}")
    found = place if name == _PLACES[name] else getattr(place, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])


def _autoload() -> None:
    """What PyTorch calls at the end of ``import torch``, which must not fail because of this."""


# The module of each public name.
_PLACES = {
    "DistributedDataParallel": "data_parallel",
    "Options": "options",
    "Store": "store",
    "failure": "flight",
    "flight_record": "flight",
    "shrink": "shrinking",
    "symm_mem": "symm_mem",
}

register()
