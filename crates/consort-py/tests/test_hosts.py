"""Ranks on two hosts, which are network namespaces."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

PROGRAM = """
import datetime, torch, torch.distributed as dist
dist.init_process_group("consort", timeout=datetime.timedelta(seconds=60))
rank = dist.get_rank()
large = torch.arange(300_007.0) + rank
work = dist.all_reduce(large, async_op=True)
work.wait()
assert torch.equal(large, torch.arange(300_007.0) * 4 + 6), large
across = dist.new_group([0, 2])
if rank in (0, 2):
    few = torch.full((3,), float(rank))
    dist.all_reduce(few, group=across)
    assert few.tolist() == [2.0] * 3, few
    assert across.core.transport() == "tcp"
print(dist.group.WORLD.core.transport(), flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """Two namespaces with a cable between them; gone when the test is."""
    if os.geteuid() != 0 or subprocess.run(["which", "ip"], capture_output=True).returncode != 0:
        pytest.skip("network namespaces need root and iproute2")
    mark = uuid.uuid4().hex[:6]
    names = (f"py{mark}a", f"py{mark}b")
    try:
        for name in names:
            ip("netns", "add", name)
        cable = f"link add eth0 netns {names[0]} type veth peer eth0 netns {names[1]}"
        ip(*cable.split())
        for number, name in enumerate(names, 1):
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def test_ranks_on_two_hosts_meet_through_torchs_store(hosts: tuple[str, str]) -> None:
    place = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29533", "WORLD_SIZE": "4"}
    ranks = []
    try:
        for rank in range(4):
            environment = {**os.environ, **place, "RANK": str(rank), "OMP_NUM_THREADS": "1"}
            command = ["ip", "netns", "exec", hosts[rank // 2], sys.executable, "-c", PROGRAM]
            pipe = subprocess.PIPE
            ranks.append(
                subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
            )
        told = [rank.communicate(timeout=120) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for rank, (printed, wrong) in zip(ranks, told, strict=True):
        assert rank.returncode == 0, wrong
        assert printed == "mixed\n"
