"""A group, as PyTorch wants it."""

from __future__ import annotations

import threading
import weakref
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, ProcessGroup, Work

from consort._core import Group
from consort.errors import Aborted, Deadline
from consort.torch.detail import Fingerprints
from consort.torch.ops import Operations
from consort.torch.work import Several

#: Whether PyTorch can be given a backend that is written in Python: since 2.14.
HAS_BACKENDS = "rank" in (Backend.__init__.__doc__ or "")


class Shared(Operations):
    """What PyTorch's group and its backend have in common beside their calls."""

    _batch: list[Work] | None = None
    # The thread whose calls are noted.
    _noting = 0

    def _join(self, core: Group, fingerprints: Fingerprints | None = None) -> None:
        self._core = core
        is_checked = dist.get_debug_level() == dist.DebugLevel.DETAIL
        self._fingerprints = fingerprints or (Fingerprints(core) if is_checked else None)
        alive.add(self)

    @property
    def core(self) -> Group:
        """The group as the compiled part knows it."""
        return self._core

    def getBackendName(self) -> str:
        """The name by which PyTorch knows it."""
        return "consort"

    name = getBackendName

    def shutdown(self) -> None:
        """Leaves the group in good order."""
        self._core.leave()
        kept.discard(self)

    def abort(self) -> None:
        """Ends the group on all ranks, at once: what waits in it gets an error that says so."""
        self._core.abort("it was aborted through torch.distributed")

    def _set_sequence_number_for_group(self) -> None:
        """Numbers are the group's own: every rank counts its calls from 0."""

    def _get_sequence_number_for_group(self) -> int:
        """How many calls the program has made in the group."""
        compared = 0 if self._fingerprints is None else self._fingerprints.calls
        return self._core.calls() - compared

    def set_timeout(self, timeout: timedelta) -> None:
        """Has calls wait so long for other ranks from now on."""
        self._core.set_timeout(timeout.total_seconds())

    _set_default_timeout = set_timeout

    def start_coalescing(self, device: Any = None) -> None:
        """Begins to note calls of this thread, which are begun as they come and waited for together.

        What was noted before and never waited for is forgotten: PyTorch does not say when an exception
        has ended a batch.
        """
        self._batch, self._noting = [], threading.get_ident()

    def end_coalescing(self, device: Any = None) -> Work:
        """One work for all calls since `start_coalescing`."""
        if self._batch is None:
            raise RuntimeError("consort: no calls are being coalesced")
        works, self._batch = self._batch, None
        return Several(works, [])

    _start_coalescing = start_coalescing
    _end_coalescing = end_coalescing

    def _make(self, *call: Any) -> Work:
        return self._noted(Operations._make(self, *call))

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Work:
        return self._noted(Operations.send(self, tensors, dst, tag))

    def _receive(self, tensors: Any, src: int | None, tag: int) -> Work:
        return self._noted(Operations._receive(self, tensors, src, tag))

    def _noted(self, work: Work) -> Work:
        if self._batch is not None and self._noting == threading.get_ident():
            self._batch.append(work)
        return work


class ConsortGroup(Shared, ProcessGroup):  # type: ignore[misc]
    """A group of processes whose tensors consort moves.

    PyTorch makes it (``init_process_group("consort")``, ``new_group``, device meshes) and hands it to
    everything that communicates. Calls from Python come here directly, which costs half of what a
    backend behind PyTorch's dispatcher does.
    """

    def __init__(self, core: Group, store: Any) -> None:
        ProcessGroup.__init__(self, store, core.rank, core.world)
        self._join(core)
        self._group_name = ""
        self._group_desc = ""
        if HAS_BACKENDS:
            self._backend = ConsortBackend(core, self)
            cpu, kind = torch.device("cpu"), ProcessGroup.BackendType.CUSTOM
            self._register_backend(cpu, kind, self._backend)
            self._set_default_backend(kind)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """A barrier that names every rank that does not come in time, which ends the group."""
        self._monitored_barrier(timeout, wait_all_ranks)


def ours(group: Any) -> Shared | None:
    """What of a group is consort's: itself, or its backend for the CPU; `None` if nothing is."""
    if isinstance(group, Shared):
        return group
    if not (HAS_BACKENDS and isinstance(group, ProcessGroup)):
        return None
    try:
        backend = group._get_backend(torch.device("cpu"))
    except RuntimeError:
        return None
    return backend if isinstance(backend, Shared) else None


def core_of(group: Any, what: str) -> Group:
    """The group as the compiled part knows it; that of all if it is `None`."""
    group = dist.group.WORLD if group is None else group
    if (found := ours(group)) is not None:
        return found.core
    if group is None:
        raise RuntimeError(f'{what}: call init_process_group("consort") first')
    try:
        kind = f"one of backend {dist.get_backend(group)}"
    except (ValueError, RuntimeError, TypeError):
        kind = f"a {type(group).__name__}"
    raise TypeError(f"{what} needs a process group of backend consort, and this is {kind}")


def _named(cls: type) -> None:
    """Before PyTorch has backends in Python, a group has to keep its names itself."""

    def set_name(self: ConsortGroup, name: str) -> None:
        self._group_name = name

    def set_desc(self: ConsortGroup, desc: str) -> None:
        self._group_desc = desc

    cls.setGroupName = cls._set_group_name = set_name  # type: ignore[attr-defined]
    cls.setGroupDesc = cls._set_group_desc = set_desc  # type: ignore[attr-defined]
    cls.getGroupName = lambda self: self._group_name  # type: ignore[attr-defined]
    cls.getGroupDesc = lambda self: self._group_desc  # type: ignore[attr-defined]
    cls.group_name = property(lambda self: self._group_name)  # type: ignore[attr-defined]
    cls.group_desc = property(lambda self: self._group_desc)  # type: ignore[attr-defined]


#: Groups that may have to be left when the program ends.
alive: weakref.WeakSet[Shared] = weakref.WeakSet()
#: Backends that PyTorch was given by themselves, until they are shut down.
kept: set[Shared] = set()

if HAS_BACKENDS:

    class ConsortBackend(Shared, Backend):
        """The same calls for who comes by way of PyTorch's dispatcher."""

        supports_splitting = False
        supports_coalescing = False
        supports_shrinking = False
        supports_reconfigure = False
        supports_window = False
        supports_abort_hooks = False
        _supports_time_estimate = False

        def __init__(self, core: Group, group: ConsortGroup | None = None) -> None:
            Backend.__init__(self, core.rank, core.world)
            self._join(core, None if group is None else group._fingerprints)
            self._options = Backend.Options("consort", timedelta(seconds=core.timeout()))
            # Calls that are coalesced may come by either way.
            self._group = None if group is None else weakref.ref(group)

        @property
        def options(self) -> Any:
            """What PyTorch asks a backend for: its name and its time."""
            self._options._timeout = timedelta(seconds=self._core.timeout())
            return self._options

        def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
            """As that of the group."""
            self._monitored_barrier(getattr(opts, "timeout", None), wait_all_ranks)

        def eager_connect_single_device(self, device: Any) -> None:
            """There is nothing to connect: the ranks have met."""

        def get_error(self) -> Any:
            """What has ended the group, sorted as PyTorch sorts it."""
            kinds = torch._C._distributed_c10d.ErrorType
            match self._core.error():
                case None:
                    return kinds.SUCCESS
                case Deadline():
                    return kinds.TIMEOUT
                case Aborted():
                    return kinds.REMOTE_ERROR
                case _:
                    return kinds.COMM_ERROR

        def start_coalescing(self, device: Any = None) -> None:
            Shared.start_coalescing(self._whole(), device)

        def end_coalescing(self, device: Any = None) -> Work:
            return Shared.end_coalescing(self._whole(), device)

        def _noted(self, work: Work) -> Work:
            return Shared._noted(self._whole(), work)

        def _whole(self) -> Shared:
            group = None if self._group is None else self._group()
            return self if group is None else group

else:
    _named(ConsortGroup)
