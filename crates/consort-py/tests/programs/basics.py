"""What torch.distributed offers besides tensors' collectives: objects, messages, groups."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from ranks import Rank, program
from ranks.stage import join
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@program(world=3)
def objects_of_any_size_are_gathered_everywhere(me: Rank) -> Any:
    found: list[Any] = [None] * me.world
    dist.all_gather_object(found, thing(me.rank))
    return found


@program(world=3)
def objects_are_gathered_by_one(me: Rank) -> Any:
    found: list[Any] | None = [None] * me.world if me.rank == 1 else None
    dist.gather_object(thing(me.rank), found, dst=1)
    return found


@program(world=3)
def objects_are_broadcast(me: Rank) -> Any:
    found = [thing(2), "text", None] if me.rank == 2 else [None] * 3
    dist.broadcast_object_list(found, src=2)
    return found


@program(world=3)
def objects_are_scattered(me: Rank) -> Any:
    found: list[Any] = [None]
    dist.scatter_object_list(found, [thing(each) for each in range(3)] if me.rank == 0 else None)
    return found


@program(world=3)
def objects_are_sent_and_received(me: Rank) -> Any:
    found: list[Any] = [None, None]
    if me.rank == 0:
        dist.send_object_list([thing(2), "to two"], dst=2, use_batch=True)
        dist.send_object_list([thing(1), "to one"], dst=1)
    else:
        source = dist.recv_object_list(found, src=0, use_batch=me.rank == 2)
        found.append(source)
    return found


@program(world=3)
def messages_go_round_in_a_circle(me: Rank) -> Any:
    outgoing = torch.arange(5) + 10 * me.rank
    incoming = torch.zeros(5, dtype=torch.int64)
    works = [dist.isend(outgoing, me.next), dist.irecv(incoming, me.previous)]
    for work in works:
        work.wait()
    return incoming


@program(world=3)
def messages_are_told_apart_by_tags(me: Rank) -> Any:
    if me.rank == 0:
        works = [dist.isend(torch.tensor([float(tag)]), 1, tag=tag) for tag in (5, 6, 7)]
        for work in works:
            work.wait()
        return None
    if me.rank == 1:
        found = []
        for tag in (7, 5, 6):
            tensor = torch.zeros(1)
            dist.recv(tensor, 0, tag=tag)
            found.append(tensor)
        return found
    return None


@program(world=3)
def messages_come_from_anybody(me: Rank) -> Any:
    if me.rank != 0:
        dist.send(torch.full((3,), me.rank), 0)
        return None
    found = {}
    for _ in range(2):
        tensor = torch.zeros(3, dtype=torch.int64)
        source = dist.recv(tensor)
        found[source] = tensor
    return [found[source] for source in sorted(found)]


@program(world=3)
def batches_of_messages_need_no_order(me: Rank) -> Any:
    incoming = [torch.zeros(2), torch.zeros(3, dtype=torch.int32)]
    operations = [
        dist.P2POp(dist.irecv, incoming[0], me.previous),
        dist.P2POp(dist.isend, torch.tensor([1.0, me.rank]), me.next),
        dist.P2POp(dist.irecv, incoming[1], me.next),
        dist.P2POp(dist.isend, torch.tensor([2, me.rank, 3], dtype=torch.int32), me.previous),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return incoming


@program()
def long_messages_cross_each_other(me: Rank) -> Any:
    outgoing = torch.arange(1_000_003) * (me.rank + 1)
    incoming = torch.zeros_like(outgoing)
    works = [dist.isend(outgoing, me.next), dist.irecv(incoming, me.previous)]
    for work in reversed(works):
        work.wait()
    return incoming[::997].clone()


@program()
def equal_collectives_are_coalesced(me: Rank) -> Any:
    tensors = [torch.full((each + 1,), 1.0 + me.rank) for each in range(3)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    gathered = [torch.zeros(2 * (each + 1)) for each in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output, tensor in zip(gathered, tensors, strict=True):
            dist.all_gather_into_tensor(output, tensor + me.rank)
    manager.wait()
    parts = [torch.zeros(each + 1) for each in range(3)]
    with dist._coalescing_manager():
        for output, tensor in zip(parts, gathered, strict=True):
            dist.reduce_scatter_tensor(output, tensor)
    return tensors, gathered, parts


@program(world=4)
def groups_are_made_of_some_ranks(me: Rank) -> Any:
    odd, even = dist.new_group([1, 3]), dist.new_group([0, 2])
    mine = odd if me.rank % 2 else even
    tensor = torch.tensor([10**me.rank])
    dist.all_reduce(tensor, group=mine)
    seen = [None, None]
    dist.all_gather_object(seen, me.rank, group=mine)
    other = dist.get_rank(even if me.rank % 2 else odd)
    return tensor, seen, dist.get_rank(mine), dist.get_process_group_ranks(mine), other


@program(world=4)
def groups_have_roots_by_global_and_group_rank(me: Rank) -> Any:
    group = dist.new_group([1, 3])
    if me.rank not in (1, 3):
        return None
    first, second = torch.tensor([me.rank]), torch.tensor([me.rank])
    dist.broadcast(first, src=3, group=group)
    dist.broadcast(second, group_src=0, group=group)
    summed = torch.tensor([me.rank])
    dist.reduce(summed, dst=1, group=group)
    return first, second, summed if me.rank == 1 else None


@program(world=4)
def groups_of_one_size_are_made_at_once(me: Rank) -> Any:
    mine, all_of_them = dist.new_subgroups(group_size=2)
    tensor = torch.tensor([10**me.rank])
    dist.all_reduce(tensor, group=mine)
    return tensor, len(all_of_them)


@program(world=4)
def groups_are_enumerated(me: Rank) -> Any:
    mine, all_of_them = dist.new_subgroups_by_enumeration([[0, 3], [2, 1]])
    tensor = torch.tensor([10**me.rank])
    dist.all_reduce(tensor, group=mine)
    return tensor, len(all_of_them)


@program(world=3)
def many_groups_live_and_die(me: Rank) -> Any:
    total = torch.zeros(1, dtype=torch.int64)
    for turn in range(12):
        group = dist.new_group([turn % 3, (turn + 1) % 3])
        if me.rank != (turn + 2) % 3:
            tensor = torch.tensor([10**turn])
            dist.all_reduce(tensor, group=group)
            total += tensor
            dist.destroy_process_group(group)
    return total


@program(world=3)
def barriers_hold_everybody_back(me: Rank) -> Any:
    if me.rank == 1:
        time.sleep(0.3)
        (me.folder / "came").touch()
    dist.barrier()
    first = (me.folder / "came").exists()
    work = dist.barrier(async_op=True)
    work.wait()
    return first


@program(world=3)
def a_monitored_barrier_lets_everybody_through(me: Rank) -> Any:
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    dist.monitored_barrier(timeout=timedelta(seconds=20), wait_all_ranks=True)
    return True


@program()
def the_name_and_the_ranks_are_known(me: Rank) -> Any:
    assert dist.get_backend() == me.backend
    assert dist.get_backend_config() is not None
    sequence = dist.group.WORLD._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(3))
    assert dist.group.WORLD._get_sequence_number_for_group() > sequence
    return dist.get_rank(), dist.get_world_size(), dist.get_process_group_ranks(dist.group.WORLD)


@program(meet=False)
def a_group_is_formed_again_and_again(me: Rank) -> Any:
    found = []
    for turn in range(4):
        join(me, name=f"place {turn}")
        tensor = torch.tensor([10**turn + me.rank])
        dist.all_reduce(tensor)
        found.append(tensor)
        dist.destroy_process_group()
    return found


@program(meet=False)
def a_file_is_a_meeting_place(me: Rank) -> Any:
    return meet_by(me, f"file://{me.folder}/by-name")


@program(meet=False)
def an_address_is_a_meeting_place(me: Rank) -> Any:
    return meet_by(me, f"tcp://127.0.0.1:{agree_on_port(me)}")


@program(meet=False)
def a_tcp_store_is_a_meeting_place(me: Rank) -> Any:
    store = dist.TCPStore("127.0.0.1", agree_on_port(me), me.world, me.rank == 0)
    dist.init_process_group(me.backend, store=store, rank=me.rank, world_size=me.world)
    tensor = torch.tensor([me.rank + 1])
    dist.all_reduce(tensor)
    dist.barrier()  # rank 0 holds the store
    return tensor


@program(world=1, meet=False)
def a_hash_store_is_a_meeting_place_for_one(me: Rank) -> Any:
    dist.init_process_group(me.backend, store=dist.HashStore(), rank=0, world_size=1)
    tensor = torch.arange(3)
    dist.all_reduce(tensor)
    gathered = torch.zeros(3, dtype=torch.int64)
    dist.all_gather_into_tensor(gathered, tensor)
    objects = [None]
    dist.all_gather_object(objects, "alone")
    return tensor, gathered, objects


@program()
def loaders_fork_workers_beside_a_group(me: Rank) -> Any:
    tensor = torch.tensor([1.0 + me.rank])
    dist.all_reduce(tensor)  # the group is in use when workers are forked
    dataset = TensorDataset(torch.arange(20.0).reshape(10, 2))
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(
        dataset, batch_size=2, sampler=sampler, num_workers=2, multiprocessing_context="fork"
    )
    sums = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (batch,) in loader:
            total = batch.sum().reshape(1)
            dist.all_reduce(total)
            sums.append(total)
    return tensor, sums


@program()
def threads_use_groups_of_their_own(me: Rank) -> Any:
    import threading

    groups = [dist.new_group() for _ in range(3)]
    found: list[torch.Tensor] = [torch.tensor([0])] * 3

    def work(index: int) -> None:
        tensor = torch.tensor([index + 1 + me.rank])
        for _ in range(20):
            dist.all_reduce(tensor, group=groups[index])
        found[index] = tensor

    threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def thing(rank: int) -> Any:
    """An object whose size depends on the rank."""
    return {"rank": rank, "text": "x" * 1000 * rank, "tensor": torch.arange(rank + 1)}


def meet_by(me: Rank, address: str) -> Any:
    """Forms a group by an address; gives a sum over it."""
    dist.init_process_group(
        me.backend,
        init_method=address,
        rank=me.rank,
        world_size=me.world,
        timeout=timedelta(seconds=40),
    )
    tensor = torch.tensor([me.rank + 1])
    dist.all_reduce(tensor)
    dist.barrier()
    return tensor


def agree_on_port(me: Rank) -> int:
    """A port that was free a moment ago, the same for all ranks."""
    import socket

    store = dist.FileStore(str(me.folder / "port"), me.world)
    if me.rank == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            store.set("port", str(probe.getsockname()[1]))
    return int(store.get("port"))
