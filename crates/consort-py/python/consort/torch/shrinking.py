"""Going on without ranks that have died."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from consort import _core
from consort.torch.group import ConsortGroup, core_of
from consort.torch.options import Options
from consort.torch.store import Store


def shrink(group: Any = None, without: Sequence[int] = (), timeout: timedelta | None = None) -> Any:
    """A group of the ranks that are left, after some have died: numbered anew, in their old order.

    Every rank that is alive has to call it. The ranks agree on who is left, also when they know of
    different deaths and when others die meanwhile; whoever waits in a call of the old group gets an
    error, and can call this, too. ``without`` leaves out more ranks of the old group, alive or not.

    If it is the group of all that becomes smaller (``None``), the new one takes its place:
    ``dist.get_rank()`` and ``dist.get_world_size()`` are those of the new one from then on, and all
    other groups are destroyed, which may have had dead members. Otherwise the new group is returned
    beside it.

        try:
            dist.all_reduce(gradients)
        except consort.PeerGone:
            consort.torch.shrink()

    Where ranks are started by ``consort run --tolerate``, the launcher lets the others live on, and
    keeps the store that they agree through; without it rank 0 keeps that, and its death is the end.
    Raises ``consort.Aborted`` on a rank that the others go on without, and ``consort.Deadline`` when
    ranks that are alive do not come within the ``timeout``, the group's own if it is not said.
    """
    core = core_of(group, "shrink")
    old = dist.group.WORLD if group is None else group
    options = Options(mode="group" if isinstance(old, ConsortGroup) else "backend")
    seconds = None if timeout is None else timeout.total_seconds()
    before = core.world_ranks()
    left = core.shrink(list(without), seconds)
    survivors = [before.index(rank) for rank in left.world_ranks()]
    options = options.replace(_given=left)
    if old is dist.group.WORLD:
        return _replace_default(left, options)
    return _register(old, left, survivors, options)


def _replace_default(core: _core.Group, options: Options) -> Any:
    patience = timedelta(seconds=core.timeout())
    store = dist.PrefixStore(f"torch/{core.name}", Store(core.store(), patience))
    dist.destroy_process_group()
    dist.init_process_group(
        "consort",
        store=store,
        rank=core.rank,
        world_size=core.world,
        timeout=patience,
        pg_options=options,
    )
    return dist.group.WORLD


def _register(old: Any, core: _core.Group, survivors: list[int], options: Options) -> Any:
    """Tells PyTorch of a group that its ranks have formed already."""
    ranks = [dist.get_global_rank(old, rank) for rank in survivors]
    patience = timedelta(seconds=core.timeout())
    name: Any = f"{old.group_name}~{core.name}"
    made = c10d._new_process_group_helper(
        core.world,
        core.rank,
        ranks,
        "consort",
        Store(core.store(), patience),
        group_name=name,
        backend_options=options,
        timeout=patience,
        group_desc=f"{old.group_desc}:shrunk",
    )
    new = made[0] if isinstance(made, tuple) else made
    c10d._world.pg_group_ranks[new] = {rank: place for place, rank in enumerate(ranks)}
    dist.destroy_process_group(old)
    return new
