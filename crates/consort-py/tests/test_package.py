"""The package itself: what installing and importing it does, and what it does not."""

from __future__ import annotations

import re
from pathlib import Path

from started import ROOT, lines, python


def test_torch_knows_the_backend_without_an_import() -> None:
    program = """
import sys, torch.distributed as dist
print(dist.Backend.CONSORT, dist.is_backend_available("consort"))
print("consort._core" in sys.modules)
"""
    assert lines(python("-c", program)) == ["consort True", "False"]


def test_importing_torch_starts_no_thread_and_loads_nothing_heavy() -> None:
    program = """
import os, sys, torch
print(len(os.listdir("/proc/self/task")))
print(sorted(name for name in sys.modules if name.startswith("consort")))
"""
    bare = lines(python("-c", program, TORCH_DEVICE_BACKEND_AUTOLOAD="0"))
    threads, loaded = lines(python("-c", program))
    assert threads == bare[0]
    assert bare[1] == "[]"
    assert loaded == "['consort', 'consort.errors', 'consort.torch', 'consort.torch._registration']"


def test_a_broken_package_does_not_break_torch(tmp_path: Path) -> None:
    broken = tmp_path / "consort"
    (broken / "torch").mkdir(parents=True)
    source = ROOT / "crates/consort-py/python/consort/torch"
    for name in ("__init__.py", "_registration.py"):
        (broken / "torch" / name).write_text((source / name).read_text())
    (broken / "__init__.py").write_text("")
    program = """
import torch.distributed as dist
dist.Backend.register_backend = None
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import consort.torch._registration as registration
    if hasattr(dist.Backend, "CONSORT"):
        del dist.Backend.CONSORT
    registration.register()
print(any("consort is not available" in str(warning.message) for warning in caught))
"""
    variables = {"PYTHONPATH": str(tmp_path)}
    assert lines(python("-c", program, **variables))[-1] == "True"
    # The compiled part is missing, and torch is none the worse for it.
    program = "import torch; print(torch.ones(2).sum().item())"
    assert lines(python("-c", program, **variables)) == ["2.0"]


def test_without_autoload_an_import_registers_the_backend() -> None:
    program = """
import torch.distributed as dist
print(hasattr(dist.Backend, "CONSORT"))
import consort.torch, consort.torch
dist.init_process_group("consort", store=dist.HashStore(), rank=0, world_size=1)
print(dist.get_backend())
dist.destroy_process_group()
"""
    assert lines(python("-c", program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")) == ["False", "consort"]


def test_the_version_is_that_of_the_workspace() -> None:
    manifest = (ROOT / "Cargo.toml").read_text()
    version = re.search(r'^version = "(.+)"', manifest, re.MULTILINE)
    assert version is not None
    assert lines(python("-c", "import consort; print(consort.__version__)")) == [version.group(1)]


def test_programs_end_in_good_order_however_they_leave_their_groups() -> None:
    head = """
import torch, torch.distributed as dist
dist.init_process_group("consort", store=dist.HashStore(), rank=0, world_size=1)
group, part = dist.group.WORLD, dist.new_group([0])
work = dist.all_reduce(torch.ones(3), async_op=True)
future = work.get_future()
"""
    tails = {
        "nothing is left": "",
        "all are destroyed": "dist.destroy_process_group()",
        "parts go first": "dist.destroy_process_group(part); dist.destroy_process_group()",
        "the group is kept": "dist.destroy_process_group(); keep = (group, part, work, future)",
        "aborted": "group.abort(); dist.destroy_process_group()",
        "the interpreter is left at once": "import os; os._exit(0)",
    }
    for name, tail in tails.items():
        result = python("-c", head + tail)
        assert result.returncode == 0, f"{name}:\n{result.stdout}"


def test_a_group_that_was_left_says_so() -> None:
    program = """
import consort, torch, torch.distributed as dist
dist.init_process_group("consort", store=dist.HashStore(), rank=0, world_size=1)
group = dist.group.WORLD
dist.destroy_process_group()
try:
    group.allreduce([torch.ones(1)])
except consort.Mistake as error:
    print(error)
"""
    assert lines(python("-c", program)) == [
        "group world: this process has left it (destroy_process_group or shutdown was called)"
    ]


def test_a_forked_child_is_told_that_the_group_is_its_parents() -> None:
    program = """
import os, consort, torch, torch.distributed as dist
dist.init_process_group("consort", store=dist.HashStore(), rank=0, world_size=1)
if os.fork() == 0:
    try:
        dist.all_reduce(torch.ones(1))
    except consort.Mistake as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""
    (told,) = lines(python("-c", program))
    assert "this process was forked from rank 0" in told


def test_a_forked_child_can_have_a_group_of_its_own_with_calls_in_the_background() -> None:
    program = """
import os, tempfile, torch, torch.distributed as dist
folder = tempfile.TemporaryDirectory()
def meet(place):
    store = dist.FileStore(os.path.join(folder.name, place), 2)
    dist.init_process_group("consort", store=store, rank=rank, world_size=2)
    one = torch.ones(1)
    dist.all_reduce(one, async_op=True).get_future().wait()
    assert one.item() == 2
def be():
    meet("before")
    child = os.fork()
    if child == 0:
        # Its parent's group is still there.
        dist.distributed_c10d._update_default_pg(None)
        meet("child")
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
    dist.destroy_process_group()
rank = 1 if (other := os.fork()) == 0 else 0
be()
if other == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 0
print("well")
"""
    assert lines(python("-c", program))[-1] == "well"


def test_options_of_another_kind_are_refused() -> None:
    program = """
import torch.distributed as dist
try:
    dist.init_process_group(
        "consort", store=dist.HashStore(), rank=0, world_size=1, pg_options={"transport": "tcp"}
    )
except TypeError as error:
    print(error)
"""
    assert lines(python("-c", program))[-1] == (
        "pg_options of backend consort are consort.torch.Options, not dict"
    )
