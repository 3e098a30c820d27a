"""Makes groups, when PyTorch asks for them."""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
import weakref
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from consort._core import Group
from consort.torch import completers
from consort.torch import group as groups
from consort.torch.errors import be_torch_errors
from consort.torch.group import HAS_BACKENDS, ConsortGroup
from consort.torch.meeting import meet
from consort.torch.options import Options
from consort.torch.untraced import leave_untraced
from consort.torch.works_of_others import keep_works


def create(given: Any, options: Any) -> Any:
    """A group, or a backend if the options say so, for what PyTorch gives."""
    _prepare()
    options = _options(options)
    core = _core(given, options)
    if options.mode == "group":
        return ConsortGroup(core, given.store)
    if not HAS_BACKENDS:
        raise RuntimeError('consort: mode="backend" needs PyTorch 2.14 or later')
    backend = groups.ConsortBackend(core)
    # PyTorch may keep no more than its own half of it.
    groups.kept.add(backend)
    return backend


def _core(given: Any, options: Options) -> Group:
    """A part of the group of all if that is consort's; otherwise its ranks meet by themselves."""
    if options._given is not None:
        return options._given
    world = _world()
    ranks = list(given.global_ranks_in_group)
    if world is None or not ranks:
        rank, size = given.group_rank, given.group_size
        return meet(given.store, rank, size, given.timeout, options)
    if options != Options(mode=options.mode, debug=options.debug):
        raise ValueError(
            "pg_options of new_group: a part of a group travels as the whole does; say how in "
            "init_process_group"
        )
    name = _name(world, given.group_id, ranks)
    return world.core.among(name, ranks, given.timeout.total_seconds())


def _name(world: Any, name: str, ranks: list[int]) -> str:
    """A name for a new group: PyTorch uses its names again when a group is destroyed, and for groups
    of other ranks that were made at the same time."""
    members = "-".join(map(str, ranks)) if len(ranks) <= _FEW else f"{len(ranks)} ranks"
    name = f"{name}:{members}"
    if len(ranks) > _FEW:
        name += f":{hashlib.blake2b(repr(ranks).encode(), digest_size=8).hexdigest()}"
    uses = _uses.setdefault(world, {})
    uses[name] = uses.get(name, 0) + 1
    return name if uses[name] == 1 else f"{name}({uses[name]})"


def _world() -> Any:
    """The group of all, if there is one and it is consort's."""
    if not dist.is_initialized():
        return None
    return groups.ours(c10d._get_default_group())


def _options(given: Any) -> Options:
    if given is None:
        given = Options()
    if not isinstance(given, Options):
        raise TypeError(
            f"pg_options of backend consort are consort.torch.Options, not {type(given).__name__}"
        )
    if given.debug is None and "CONSORT_DEBUG" not in os.environ:
        level = dist.get_debug_level().name.lower()
        given = given.replace(debug=level)
    return given


def _prepare() -> None:
    """What is done once, before the first group is made."""
    global _is_prepared
    if _is_prepared:
        return
    _is_prepared = True
    be_torch_errors()
    keep_works()
    leave_untraced()
    atexit.register(_leave_all)


def _leave_all() -> None:
    """Leaves what was not left when the program ends, so that the others need not wonder.

    If an exception has ended it, the others are told of that: they wait for calls that do not come.
    """
    completers.close(_PATIENCE)
    fatal = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for group in list(groups.alive):
        try:
            if fatal is not None and not group.core.has_left():
                group.core.abort(f"its program has ended with {type(fatal).__name__}: {fatal}")
            group.shutdown()
        except Exception as error:
            print(f"consort: could not leave a group in good order: {error}", file=sys.stderr)


# How often each name was used, in each group of all.
_uses: weakref.WeakKeyDictionary[Any, dict[str, int]] = weakref.WeakKeyDictionary()
_is_prepared = False
# So many ranks are named in the name of their group.
_FEW = 8
# How many seconds functions of futures may take at the end of the program.
_PATIENCE = 2.0
