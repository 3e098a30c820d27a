"""What goes beyond PyTorch's own interface."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from started import ROOT, consort, lines, python

EXAMPLES = ROOT / "crates/consort-py/examples"


def ranks(count: int, program: str, *flags: str | Path, **variables: str) -> list[str]:
    """Runs a program on some ranks, and gives the lines of the job without the ranks' marks."""
    given = [*flags, "-n", str(count), "--", sys.executable, "-c", program]
    printed = lines(consort("run", *given, **variables))
    return [re.sub(r"^\[\d+\] ", "", line) for line in printed]


def test_four_ranks_lose_one_and_three_go_on() -> None:
    program = EXAMPLES / "survive.py"
    result = consort("run", "-n", "4", "--tolerate", "1", "--", sys.executable, program)
    printed = result.stdout
    assert result.returncode == 0, printed
    assert "rank 2 failed" in printed and "SIGKILL" in printed
    for rank in (0, 1, 3):
        assert f"rank {rank}: lost rank 2 in step 20" in printed
    for rank in range(3):
        assert f"rank {rank} of 3 goes on" in printed
    losses = [float(loss) for loss in re.findall(r"3 ranks: loss (\S+)", printed)]
    assert len(losses) == 2 and losses[-1] < 1.0


def test_the_group_of_all_becomes_smaller_when_the_rank_that_keeps_torchs_store_dies() -> None:
    told = ranks(3, SHRINK_WITHOUT_ZERO, "--tolerate", "1")
    assert sorted(line for line in told if line.startswith("now")) == [
        "now 0 of 2: [1.0, 3.0]",
        "now 1 of 2: [1.0, 3.0]",
    ]
    assert sum("PeerGone (0,)" in line for line in told) == 2


SHRINK_WITHOUT_ZERO = """
import os, signal, consort, consort.torch, torch, torch.distributed as dist
dist.init_process_group("consort")
dist.barrier()
if dist.get_rank() == 0:
    os.kill(os.getpid(), signal.SIGKILL)
numbers = torch.tensor([0.0, 1.0]) + dist.get_rank()
try:
    dist.all_reduce(numbers)
except dist.DistBackendError as error:
    print(type(error).__name__, error.ranks, flush=True)
assert isinstance(consort.torch.failure(), consort.PeerGone)
consort.torch.shrink()
numbers = torch.tensor([0.0, 1.0]) + dist.get_rank()
dist.all_reduce(numbers)
part = dist.new_group([1, 0])
dist.barrier(group=part)
print(f"now {dist.get_rank()} of {dist.get_world_size()}: {numbers.tolist()}", flush=True)
dist.destroy_process_group()
"""


def test_a_part_becomes_smaller_beside_the_group_of_all() -> None:
    told = ranks(3, SHRINK_A_PART)
    assert sorted(line for line in told if line.startswith("left")) == [
        "left 0 of 2, world ranks [0, 2]: 2.0",
        "left 1 of 2, world ranks [0, 2]: 2.0",
    ]


SHRINK_A_PART = """
import consort.torch, torch, torch.distributed as dist
dist.init_process_group("consort")
part = dist.new_group([0, 1, 2])
if dist.get_rank() != 1:
    rest = consort.torch.shrink(part, without=[1])
    one = torch.ones(1)
    dist.all_reduce(one, group=rest)
    ranks, rank = dist.get_process_group_ranks(rest), dist.get_rank(rest)
    world = dist.get_world_size(rest)
    print(f"left {rank} of {world}, world ranks {ranks}: {one.item()}", flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def test_an_exception_that_ends_a_program_is_told_to_the_others() -> None:
    told = ranks(3, UNCAUGHT, "--tolerate", "1")
    text = "group world: rank 1 has ended it: its program has ended with ValueError: bad batch"
    assert told.count(f"Aborted (1,) {text}") == 2


UNCAUGHT = """
import consort, torch, torch.distributed as dist
dist.init_process_group("consort")
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError("bad batch")
try:
    dist.all_reduce(torch.ones(3))
except consort.Aborted as error:
    print(f"{type(error).__name__} {error.ranks} {error}\\n", end="", flush=True)
"""


def test_ranks_read_and_write_each_others_windows() -> None:
    told = ranks(3, SYMMETRIC)
    assert sorted(told) == [f"rank {rank} well" for rank in range(3)]


SYMMETRIC = """
import torch, torch.distributed as dist, consort.torch.symm_mem as symm_mem
dist.init_process_group("consort")
rank, world = dist.get_rank(), dist.get_world_size()
mine = symm_mem.empty(5, 7, dtype=torch.float64)
assert mine.shape == (5, 7) and not mine.any()
handle = symm_mem.rendezvous(mine)
assert (handle.rank, handle.world_size, handle.buffer_size) == (rank, world, 5 * 7 * 8)
mine.copy_(torch.arange(35.0, dtype=torch.float64).reshape(5, 7) + 100 * rank)
handle.barrier()
for peer in range(world):
    theirs = handle.get_buffer(peer, (5, 7), torch.float64)
    assert torch.equal(theirs, torch.arange(35.0, dtype=torch.float64).reshape(5, 7) + 100 * peer)
    last = handle.get_buffer(peer, (2,), torch.float64, storage_offset=33)
    assert last.tolist() == [33 + 100 * peer, 34 + 100 * peer]
handle.barrier()
right, left = (rank + 1) % world, (rank - 1) % world
handle.get_remote_tensor(right, (3,), torch.float64).fill_(rank)
handle.put_signal(right, channel=1)
handle.wait_signal(left, channel=1)
assert mine.flatten()[:3].tolist() == [left] * 3
dist.all_reduce(mine)
assert mine.flatten()[0].item() == sum(range(world))
try:
    handle.get_buffer(0, (36,), torch.float64)
    raise SystemExit("a window was too large")
except ValueError as error:
    assert "not within" in str(error)
try:
    symm_mem.rendezvous(torch.empty(3))
    raise SystemExit("a tensor of its own was taken for symmetric memory")
except ValueError as error:
    assert "symm_mem.empty" in str(error)
del theirs, last, handle, mine
dist.barrier()
print(f"rank {rank} well", flush=True)
dist.destroy_process_group()
"""


def test_the_last_calls_of_a_rank_are_recorded(tmp_path: Path) -> None:
    program, records = tmp_path / "program.py", tmp_path / "records"
    program.write_text(RECORD)
    records.mkdir()
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", program]
    told = lines(python(*launch, CONSORT_TRACE_DIR=str(records)))
    assert told.count("well") == 2
    shown = lines(consort("trace", records))
    assert sum("broadcast of 3 i16, root 1" in line for line in shown) >= 2, shown


RECORD = """
import consort.torch, torch, torch.distributed as dist
dist.init_process_group("consort")
dist.all_reduce(torch.ones(7))
dist.broadcast(torch.ones(3, dtype=torch.int16), 1)
(world,) = consort.torch.flight_record()["groups"]
calls = [call["call"] for call in world["calls"]]
assert calls == ["all_reduce(sum) of 7 f32", "broadcast of 3 i16, root 1"], calls
assert all(call["ended"] >= call["began"] for call in world["calls"])
print("well\\n", end="", flush=True)
dist.destroy_process_group()
"""


def test_options_say_how_data_travels() -> None:
    told = ranks(2, OPTIONS)
    assert sorted(told) == ["tcp 2.0", "tcp 2.0"]


OPTIONS = """
import consort.torch, torch, torch.distributed as dist
options = consort.torch.Options(
    transport="tcp", encrypt=True, integrity=True, streams=2, verify_results=1
)
dist.init_process_group("consort", pg_options=options)
one = torch.ones(1)
dist.all_reduce(one)
print(dist.group.WORLD.core.transport(), one.item(), flush=True)
dist.destroy_process_group()
"""


def test_a_bare_backend_serves_torchs_own_groups() -> None:
    told = ranks(2, BARE)
    assert sorted(told) == ["rank 0 well", "rank 1 well"]


BARE = """
import consort.torch, torch, torch.distributed as dist
dist.init_process_group("cpu:consort", pg_options=consort.torch.Options(mode="backend"))
assert type(dist.group.WORLD) is dist.ProcessGroup
one = torch.ones(1)
dist.all_reduce(one, async_op=True).wait()
every = [None, None]
dist.all_gather_object(every, dist.get_rank())
part = dist.new_group([0, 1])
dist.all_reduce(one, group=part)
assert (one.item(), every) == (4.0, [0, 1])
assert consort.torch.failure() is None
# Whoever is left out hears of it as a failure.
store = dist.distributed_c10d._get_default_store()
store.set(f"asked/{dist.get_rank()}", "yes")
if dist.get_rank() == 0:
    store.wait(["asked/1"])
    consort.torch.shrink(without=[1])
    assert (dist.get_world_size(), type(dist.group.WORLD)) == (1, dist.ProcessGroup)
    dist.all_reduce(one)
print(f"rank {dist.get_rank()} well", flush=True)
dist.destroy_process_group()
"""


def test_the_store_of_the_job_is_had_as_torchs() -> None:
    told = ranks(2, STORE)
    assert told.count("well") == 2


STORE = """
import consort, consort.torch, datetime, torch.distributed as dist
dist.init_process_group("consort")
store = consort.torch.Store(dist.group.WORLD.core.store(), datetime.timedelta(seconds=30))
shared = dist.PrefixStore("a", store)
if dist.get_rank() == 0:
    shared.set("greeting", "hello")
assert shared.get("greeting") == b"hello"
assert store.get("a/greeting") == b"hello"
dist.barrier()
shared.add("count", 2)
dist.barrier()
assert shared.add("count", 0) == 4
assert shared.compare_set("new", "", "mine") == b"mine"
shared.wait(["greeting", "count"])
assert shared.check(["greeting"]) and not shared.check(["nothing"])
assert store.num_keys() >= 3
dist.barrier()
if dist.get_rank() == 0:
    assert shared.delete_key("greeting") and not shared.delete_key("greeting")
    store.set_timeout(datetime.timedelta(milliseconds=50))
    try:
        store.get("nothing")
        raise SystemExit("nothing was found")
    except consort.Deadline as error:
        assert "nothing" in str(error)
print("well", flush=True)
dist.destroy_process_group()
"""
