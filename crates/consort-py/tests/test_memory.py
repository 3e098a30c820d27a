"""The memory of tensors: who keeps it, who has none, and when what was written is there."""

from __future__ import annotations

from test_beyond import ranks


def test_what_was_received_is_where_it_belongs_when_the_wait_returns() -> None:
    assert ranks(2, STRIDED) == ["well"] * 2


STRIDED = """
import time, torch, torch.distributed as dist
dist.init_process_group("consort")
for turn in range(40):
    if dist.get_rank() == 0:
        dist.send(torch.full((512, 1024), float(turn + 1)), 1)
    else:
        strided = torch.zeros(1024, 512).t()
        work = dist.irecv(strided, 0)
        # Sometimes the thread that copies it has begun when this one asks.
        time.sleep(0.001 * (turn % 4))
        while turn % 3 == 0 and not work.is_completed():
            pass
        work.wait()
        assert (strided == turn + 1).all(), turn
print("well\\n", end="", flush=True)
dist.destroy_process_group()
"""


def test_a_call_keeps_memory_that_its_tensor_is_parted_from() -> None:
    assert ranks(2, PARTED) == ["well"] * 2


PARTED = """
import torch, torch.distributed as dist
dist.init_process_group("consort")
for _ in range(20):
    tensor = torch.ones(1 << 20)
    work = dist.all_reduce(tensor, async_op=True)
    tensor.data = torch.zeros(1)
    others = [torch.zeros(1 << 20) for _ in range(4)]
    work.wait()
    assert all(not other.any() for other in others)
print("well\\n", end="", flush=True)
dist.destroy_process_group()
"""


def test_tensors_that_stand_for_others_are_waited_for_or_refused() -> None:
    assert ranks(2, WRAPPED) == ["well"] * 2


WRAPPED = """
import consort, torch, torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor
dist.init_process_group("consort")
result = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
dist.all_reduce(result)
assert result.tolist() == [4.0] * 3
whole = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (2,)), [Replicate()])
freed = torch.ones(5)
freed.untyped_storage().resize_(0)
for tensor in (whole, freed, torch.ones(1).expand(5)):
    try:
        dist.all_reduce(tensor)
        raise SystemExit(f"{tensor} was taken")
    except consort.Mistake as error:
        assert "memory" in str(error), error
dist.all_reduce(whole.to_local())
with torch.inference_mode():
    strided = torch.ones(2, 3).t()
    dist.all_reduce(strided, async_op=True).wait()
    assert (strided == 2).all()
with torch.device("meta"):
    gathered = [torch.empty(2, 3, device="cpu").t() for _ in range(2)]
    dist.all_gather(gathered, torch.ones(3, 2, device="cpu"))
    assert all((part == 1).all() for part in gathered)
print("well\\n", end="", flush=True)
dist.destroy_process_group()
"""


def test_several_calls_are_made_all_or_none() -> None:
    assert ranks(2, COALESCED) == ["well"] * 2


COALESCED = """
import consort, torch, torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager, _world
dist.init_process_group("consort")
group = dist.group.WORLD
good, bad = torch.ones(3), torch.ones(3).to(torch.float8_e4m3fnuz)
try:
    group.allreduce_coalesced([good, bad])
    raise SystemExit("it was combined")
except consort.Mistake as error:
    assert "cannot be combined" in str(error)
assert good.tolist() == [1.0] * 3
try:
    with _coalescing_manager(group, torch.device("cpu")):
        raise KeyError("on purpose")
except KeyError:
    _world.pg_coalesce_state.pop(group, None)
with _coalescing_manager(group, torch.device("cpu"), async_ops=True) as calls:
    dist.broadcast(good, 1)
calls.wait()
dist.all_reduce(good)
assert good.tolist() == [2.0] * 3
try:
    dist.new_group([0, 1], pg_options=__import__("consort.torch").torch.Options(encrypt=True))
    raise SystemExit("a part was promised what it is not given")
except ValueError as error:
    assert "init_process_group" in str(error)
print("well\\n", end="", flush=True)
dist.destroy_process_group()
"""


def test_detail_takes_parts_of_different_sizes() -> None:
    told = ranks(2, UNEVEN, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert told.count("well") == 2


UNEVEN = """
import torch, torch.distributed as dist
dist.init_process_group("consort")
rank = dist.get_rank()
parts = [torch.zeros(2), torch.zeros(5)]
dist.all_gather(parts, torch.full((len(parts[rank]),), float(rank)))
assert [part.tolist() for part in parts] == [[0.0] * 2, [1.0] * 5]
mine = torch.zeros(2 + rank)
dist.reduce_scatter(mine, [torch.ones(2), torch.ones(3)])
assert mine.tolist() == [2.0] * (2 + rank)
before = dist.group.WORLD._get_sequence_number_for_group()
dist.barrier()
assert dist.group.WORLD._get_sequence_number_for_group() == before + 1
print("well\\n", end="", flush=True)
dist.destroy_process_group()
"""
