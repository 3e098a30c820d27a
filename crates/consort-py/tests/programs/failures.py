"""What goes wrong: ranks that die, differ, do not come or give up, and who hears what of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program
from ranks.stage import join
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from programs.ddp import data, layers


@dataclass(frozen=True)
class Caught:
    """An exception that a rank has got."""

    is_backend_error: bool
    kinds: list[str]
    text: str
    seconds: float


def catch(function: Callable[[], Any]) -> Caught | None:
    """What a call raises, and after how long."""
    start = time.monotonic()
    try:
        function()
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        is_backend_error = isinstance(error, dist.DistBackendError)
        return Caught(is_backend_error, kinds, str(error), time.monotonic() - start)
    return None


WAITS: dict[str, Callable[[], Any]] = {
    "all_reduce": lambda: dist.all_reduce(torch.ones(3)),
    "all_reduce_of_much": lambda: dist.all_reduce(torch.ones(5_000_011)),
    "asynchronous_all_reduce": lambda: dist.all_reduce(torch.ones(3), async_op=True).wait(),
    "broadcast": lambda: dist.broadcast(torch.ones(3), 1),
    "all_gather_of_strided_tensors": lambda: dist.all_gather(
        [torch.zeros(9)[::3] for _ in range(3)], torch.ones(9)[::3]
    ),
    "barrier": lambda: dist.barrier(),
    "receive": lambda: dist.recv(torch.zeros(3), 1),
    "coalesced_all_reduce": lambda: coalesced(),
    "object": lambda: dist.all_gather_object([None] * 3, "something"),
}


@program(world=3, cases=list(WAITS), alone=True)
def a_rank_is_killed_during(me: Rank, call: str) -> Caught | None:
    dist.all_reduce(torch.ones(3))
    if me.rank == 1:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    return catch(WAITS[call])


THROUGH_TORCH = ["future", "callback", "training", "training_with_a_hook"]


@program(world=3, cases=THROUGH_TORCH, alone=True)
def a_rank_is_killed_while_torch_waits_in_a(me: Rank, what: str) -> Any:
    model = DistributedDataParallel(layers(), bucket_cap_mb=0.001)
    if what == "training_with_a_hook":
        model.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook)
    model(data(me, 0)).sum().backward()
    if me.rank == 1:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    if what.startswith("training"):
        return catch(lambda: model(data(me, 1)).sum().backward()), ended_by()
    future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
    if what == "callback":
        future = future.then(lambda done: done.value()[0] + 1)
    return catch(future.wait), ended_by()


@program(world=3, alone=True)
def after_a_death_every_call_tells_of_it_and_survivors_meet_again(me: Rank) -> Any:
    if me.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    first = catch(lambda: dist.all_reduce(torch.ones(3)))
    second = catch(lambda: dist.broadcast(torch.ones(3), 0))
    dist.destroy_process_group()
    survivors = Rank(me.rank // 2, 2, me.backend, me.folder)
    join(survivors, name="again")
    tensor = torch.tensor([10**me.rank])
    dist.all_reduce(tensor)
    return first, second, tensor


@program(world=3, alone=True)
def a_rank_that_exits_is_named(me: Rank) -> Caught | None:
    if me.rank == 2:
        os._exit(7)
    return catch(lambda: dist.all_reduce(torch.ones(3)))


DIFFERENT: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "reduce_operations": (
        lambda: dist.all_reduce(torch.ones(7)),
        lambda: dist.all_reduce(torch.ones(7), dist.ReduceOp.MAX),
    ),
    "counts": (
        lambda: dist.all_reduce(torch.ones(7)),
        lambda: dist.all_reduce(torch.ones(8)),
    ),
    "dtypes": (
        lambda: dist.all_reduce(torch.ones(8)),
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.float64)),
    ),
    "calls": (
        lambda: dist.all_reduce(torch.ones(7)),
        lambda: dist.broadcast(torch.ones(7), 0),
    ),
    # Who sends does not wait for those who take it, and hears of the difference at the next call.
    "roots": (
        lambda: (dist.broadcast(torch.ones(7), 0), dist.barrier()),
        lambda: (dist.broadcast(torch.ones(7), 2), dist.barrier()),
    ),
    "asynchronous_counts": (
        lambda: dist.all_reduce(torch.ones(7), async_op=True).wait(),
        lambda: dist.all_reduce(torch.ones(8), async_op=True).wait(),
    ),
    "gathered_counts": (
        lambda: dist.all_gather_into_tensor(torch.ones(21), torch.ones(7)),
        lambda: dist.all_gather_into_tensor(torch.ones(24), torch.ones(8)),
    ),
}


@program(world=3, cases=list(DIFFERENT))
def ranks_call_with_different(me: Rank, what: str) -> Caught | None:
    dist.barrier()
    usual, other = DIFFERENT[what]
    return catch(other if me.rank == 2 else usual)


@program(world=3, timeout=2)
def the_group_has_a_time_limit(me: Rank) -> Caught | None:
    dist.barrier()
    if me.rank == 2:
        await_others(me)
        return None
    found = catch(lambda: dist.all_reduce(torch.ones(3)))
    tell_others(me)
    return found


@program(world=3)
def a_call_has_a_time_limit(me: Rank) -> Caught | None:
    dist.barrier()
    if me.rank == 2:
        await_others(me)
        return None
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=1)
    found = catch(lambda: dist.group.WORLD.allreduce([torch.ones(3)], options).wait())
    tell_others(me)
    return found


@program(world=3)
def waiting_has_a_time_limit_and_can_go_on(me: Rank) -> Any:
    dist.barrier()
    tensor = torch.full((3,), me.rank + 1)
    if me.rank == 2:
        await_others(me)
        dist.all_reduce(tensor)
        return None, tensor
    work = dist.all_reduce(tensor, async_op=True)
    found = catch(lambda: work.wait(timedelta(seconds=0.5)))
    tell_others(me)
    work.wait()
    return found, tensor


@program(world=3)
def a_monitored_barrier_names_who_is_missing(me: Rank) -> Caught | None:
    dist.barrier()
    if me.rank == 1:
        await_others(me)
        return None
    found = catch(lambda: dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=True))
    tell_others(me)
    return found


ABORTS: dict[str, Callable[[], Any]] = {
    "through_torch": lambda: dist.distributed_c10d._abort_process_group(),
    "through_the_group": lambda: dist.group.WORLD.abort(),
}


@program(world=3, cases=list(ABORTS), alone=True)
def an_abort_fails_what_is_pending_on_all_ranks(me: Rank, way: str) -> Any:
    dist.barrier()
    if me.rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        time.sleep(0.3)
        aborting = catch(ABORTS[way])
        assert aborting is None, aborting
        return catch(work.wait)
    if me.rank == 1:
        return catch(lambda: dist.all_reduce(torch.ones(3)))
    # Never comes to the call, and hears of it at its next one.
    time.sleep(1)
    return catch(lambda: dist.all_reduce(torch.ones(5)))


def ended_by() -> tuple[bool, tuple[int, ...]]:
    """Whether the default group has ended by an error of a backend, and whom that is about."""
    import consort.torch

    error = consort.torch.failure()
    return isinstance(error, dist.DistBackendError), getattr(error, "ranks", ())


def coalesced() -> None:
    """Two sums at once."""
    with dist._coalescing_manager():
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(5))


def tell_others(me: Rank) -> None:
    """Says that this rank is through with what it tries."""
    (me.folder / f"through-{me.rank}").touch()


def await_others(me: Rank) -> None:
    """Waits until the other two ranks are through, without any group."""
    for _ in range(3000):
        if len(list(me.folder.glob("through-*"))) == me.world - 1:
            return
        time.sleep(0.01)
    raise TimeoutError("the other ranks are not through after 30 s")
