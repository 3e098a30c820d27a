"""How ranks find each other: through the store that PyTorch hands over.

PyTorch's store is open to anybody who reaches its port, so consort says no more in it than it must:
rank 0 opens a door of its own and tells the others where it is, and what opens it; when all are in,
that is deleted. Under ``consort run`` not even that: the launcher has opened one, and its secret is in
a file.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from datetime import timedelta
from typing import Any

from consort import _core
from consort.errors import Error, _make
from consort.torch.invitation import Invitation
from consort.torch.options import Options


def meet(store: Any, rank: int, world: int, timeout: timedelta, options: Options) -> _core.Group:
    """Meets the ranks that were given the same store."""
    if world == 1:
        alone = timeout.total_seconds()
        return _core.meet(rank=0, world=1, job=_job(), timeout=alone, options=options)
    room = _Room(store, rank, world, timeout)
    if rank == 0:
        door, invitation = room.invite(options)
    else:
        door, invitation = None, room.hear()
    met = _core.meet(
        rank=rank,
        world=world,
        job=invitation.job,
        timeout=invitation.timeout,
        address=invitation.address,
        secret=invitation.secret,
        door=door,
        options=options,
    )
    # Ranks may have been given different ones, and meet all the same.
    met.set_timeout(timeout.total_seconds())
    if rank == 0:
        room.close()
    return met


class _Room:
    """Where in the store ranks meet: elsewhere each time, for a store may be used again."""

    def __init__(self, store: Any, rank: int, world: int, timeout: timedelta) -> None:
        self._store, self._world, self._timeout = store, world, timeout
        self._name = f"consort/{store.add(f'consort/visits/{rank}', 1)}"
        self._invitation = f"{self._name}/invitation"
        store.set(self._host(rank), _core.host())

    def invite(self, options: Options) -> tuple[_core.Door | None, Invitation]:
        """Rank 0's part: to open a door that all can reach, and to say where it is."""
        seconds = self._timeout.total_seconds()
        try:
            if "CONSORT_RDZV" in os.environ:
                door, invitation = None, Invitation(_job(), seconds)
            else:
                door = _core.Door(self._where_to_listen(options))
                invitation = Invitation(_job(), seconds, door.address, door.secret)
        except Exception as error:
            # The others would wait for it until their time is over.
            self._store.set(self._invitation, Invitation.refusal(str(error)))
            raise
        self._store.set(self._invitation, invitation.write())
        return door, invitation

    def hear(self) -> Invitation:
        """Everyone else's part."""
        self._await([self._invitation])
        return Invitation.read(self._store.get(self._invitation))

    def close(self) -> None:
        """Forgets what opened the door, when all are in."""
        try:
            self._store.delete_key(self._invitation)
        except (RuntimeError, NotImplementedError):
            # Not every store of PyTorch's can; it is gone with the store.
            return

    def _where_to_listen(self, options: Options) -> str:
        """The loopback if all ranks are on this host; otherwise the address that others know it by."""
        keys = [self._host(rank) for rank in range(self._world)]
        self._await(keys)
        hosts = {self._store.get(key) for key in keys}
        interface = options.interface or os.environ.get("CONSORT_INTERFACE")
        if len(hosts) == 1 and interface is None:
            return _core.address()
        found = _core.address(_store_host(self._store), interface)
        if len(hosts) > 1 and ipaddress.ip_address(found).is_loopback:
            text = (
                f"the ranks are on {len(hosts)} hosts, and rank 0 cannot tell by which address the "
                f"others reach it (PyTorch's store is at {_store_host(self._store)}): set "
                "CONSORT_INTERFACE to the interface that leads to them"
            )
            raise _make("Mistake", text, [0])
        return found

    def _await(self, keys: list[str]) -> None:
        """Waits for keys, and names the ranks that have not come when it is in vain."""
        try:
            self._store.wait(keys, self._timeout)
        except RuntimeError as error:
            raise self._missing(error) from error

    def _missing(self, error: RuntimeError) -> Error:
        ranks = range(self._world)
        try:
            missing = [rank for rank in ranks if not self._store.check([self._host(rank)])]
        except RuntimeError:
            missing = []
        named = ", ".join(f"rank {rank}" for rank in missing)
        who = f"missing {named}" if missing else "rank 0 has come, but has not said where to meet"
        text = (
            f"waited {self._timeout.total_seconds():.1f} s for the ranks to come to PyTorch's store: "
            f"{who}; were all {self._world} ranks started, with the same MASTER_ADDR and "
            f"MASTER_PORT? ({error})"
        )
        return _make("Deadline", text, missing or [0])

    def _host(self, rank: int) -> str:
        return f"{self._name}/host/{rank}"


def _store_host(store: Any) -> str | None:
    """The host of PyTorch's store, which every rank has reached."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return getattr(store, "host", None)


def _job() -> str:
    """A name that no other meeting has."""
    return f"{os.environ.get('CONSORT_JOB', 'torch')}-{secrets.token_hex(6)}"
