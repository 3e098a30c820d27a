"""How ranks find each other: through the store that PyTorch hands over.

PyTorch's store is open to anybody who reaches its port, so consort says no more in it than it must:
rank 0 opens a door of its own and tells the others where it is, and what opens it. Under ``consort
run`` not even that: the launcher has opened one, and its secret is in a file.
"""

from __future__ import annotations

import json
import os
import secrets
from datetime import timedelta
from typing import Any

from consort import _core
from consort.errors import _make
from consort.torch.options import Options


def meet(store: Any, rank: int, world: int, timeout: timedelta, options: Options) -> _core.Group:
    """Meets the ranks that were given the same store."""
    if world == 1:
        alone = timeout.total_seconds()
        return _core.meet(rank=0, world=1, job=_job(), timeout=alone, options=options)
    room = _room(store, rank)
    store.set(f"{room}/host/{rank}", _core.host())
    if rank == 0:
        door, invitation = _invite(store, room, world, timeout, options)
    else:
        door, invitation = None, _hear(store, room, world, timeout)
    met = _core.meet(
        rank=rank,
        world=world,
        job=invitation["job"],
        timeout=invitation["timeout"],
        address=invitation["address"],
        secret=invitation["secret"],
        door=door,
        options=options,
    )
    # Ranks may have been given different ones, and meet all the same.
    met.set_timeout(timeout.total_seconds())
    return met


def _room(store: Any, rank: int) -> str:
    """Where in the store ranks meet: elsewhere each time, for a store may be used again."""
    return f"consort/{store.add(f'consort/visits/{rank}', 1)}"


def _invite(
    store: Any, room: str, world: int, timeout: timedelta, options: Options
) -> tuple[_core.Door | None, dict[str, Any]]:
    """Rank 0's part: to open a door that all can reach, and to say where it is."""
    invitation: dict[str, Any] = {"job": _job(), "timeout": timeout.total_seconds()}
    if "CONSORT_RDZV" in os.environ:
        invitation |= {"address": None, "secret": None}
        door = None
    else:
        door = _core.Door(_where_to_listen(store, room, world, timeout, options))
        invitation |= {"address": door.address, "secret": door.secret}
    store.set(f"{room}/invitation", json.dumps(invitation))
    return door, invitation


def _where_to_listen(
    store: Any, room: str, world: int, timeout: timedelta, options: Options
) -> str:
    """The loopback if all ranks are on this host; otherwise the address that others know it by."""
    keys = [f"{room}/host/{rank}" for rank in range(world)]
    _await(store, keys, timeout, world, room)
    hosts = {store.get(key) for key in keys}
    if len(hosts) == 1 and options.interface is None:
        return _core.address()
    interface = options.interface or os.environ.get("CONSORT_INTERFACE")
    return _core.address(_store_host(store), interface)


def _hear(store: Any, room: str, world: int, timeout: timedelta) -> dict[str, Any]:
    """Everyone else's part."""
    key = f"{room}/invitation"
    _await(store, [key], timeout, world, room)
    return json.loads(store.get(key))


def _await(store: Any, keys: list[str], timeout: timedelta, world: int, room: str) -> None:
    """Waits for keys, and names the ranks that have not come when it is in vain."""
    try:
        store.wait(keys, timeout)
    except Exception as error:
        missing = [rank for rank in range(world) if not store.check([f"{room}/host/{rank}"])]
        if not missing:
            raise
        text = (
            f"waited {timeout.total_seconds():.1f} s for the ranks to come to PyTorch's store: "
            f"missing {', '.join(f'rank {rank}' for rank in missing)}; were all {world} ranks "
            f"started, with the same MASTER_ADDR and MASTER_PORT? ({error})"
        )
        raise _make("Deadline", text, missing) from error


def _store_host(store: Any) -> str | None:
    """The host of PyTorch's store, which every rank has reached."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return getattr(store, "host", None)


def _job() -> str:
    """A name that no other meeting has."""
    return f"{os.environ.get('CONSORT_JOB', 'torch')}-{secrets.token_hex(6)}"
