"""Errors of consort that are PyTorch's as well.

Once a group is made, whoever catches ``consort.PeerGone`` catches these, and so does whoever catches
``torch.distributed.DistBackendError``, as programs do that were written for other backends.
"""

from __future__ import annotations

from torch.distributed import DistBackendError, DistStoreError

from consort import errors


class Mismatch(errors.Mismatch, DistBackendError):
    __doc__ = errors.Mismatch.__doc__


class PeerGone(errors.PeerGone, DistBackendError):
    __doc__ = errors.PeerGone.__doc__


class Deadline(errors.Deadline, DistBackendError):
    __doc__ = errors.Deadline.__doc__


class Aborted(errors.Aborted, DistBackendError):
    __doc__ = errors.Aborted.__doc__


class SystemTrouble(errors.SystemTrouble, DistBackendError):
    __doc__ = errors.SystemTrouble.__doc__


class StoreDeadline(errors.Deadline, DistStoreError):
    """A key did not appear in the store in time."""


class StoreTrouble(errors.SystemTrouble, DistStoreError):
    """The store refused something, or is gone."""


def be_torch_errors() -> None:
    """Has consort raise these from here on."""
    for kind in (Mismatch, PeerGone, Deadline, Aborted, SystemTrouble):
        errors._kinds[kind.__name__] = kind
