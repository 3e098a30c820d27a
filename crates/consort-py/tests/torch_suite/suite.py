"""Finds the tests that PyTorch ships in its wheel, and makes them ready for a backend of any name.

PyTorch chooses at import, by decorators that compare `BACKEND` with the names it knows, which of
its tests a backend may run. No third party's name is among them. So the tests are loaded under
the names whose tests the CPU can run (`gloo`, and once more `mpi` for the all-to-all tests), and
only then told which backend they are really about. Nothing of PyTorch is edited.

Import this module, call `load` once in a process that has no threads yet, and fork from there.
"""

import functools
import importlib
import importlib.util
import inspect
import os
import sys
import unittest
import unittest.mock
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from on_cpu import NEEDS_A_GPU, play_on_cpu


@dataclass(frozen=True)
class Test:
    """One test of the suite: the class to make for it, and the name of its method."""

    name: str
    """Class and method as printed and as given to `-k`, `DistributedTest.test_all_reduce_sum`."""
    case: type[unittest.TestCase]
    method: str
    skipped: str | None
    """Why PyTorch skips it on every machine like this one, if its decorators know by import."""
    for_gpu: bool = False
    """Whether it is written for GPUs, and has to be played on the CPU."""
    patience: float = 0
    """Seconds that it may need if that is more than usual."""


def load(world: int) -> list[Test]:
    """Imports PyTorch's tests for groups of `world` ranks, and lists them in the order of the file.

    The world's size is asked for by decorators too, so one process can load the suite only once.
    """
    os.environ["WORLD_SIZE"] = str(world)
    tests = {test.name: test for test in _collectives("gloo")}
    for test in _collectives("mpi"):
        if tests[test.name].skipped is not None and test.skipped is None:
            tests[test.name] = test
    for test in _beside_rpc():
        tests[test.name] = test
    return list(tests.values())


def become(test: Test, backend: str, world: int) -> unittest.TestCase:
    """Gives the case of `test` for `backend`. Changes the process: call it in a fork of its own."""
    import torch.distributed as dist

    # Only decorators that skip worlds of fewer than eight ranks still read this, and they let MPI
    # through. Their tests use ranks 1 and 2, so three ranks are enough.
    os.environ["BACKEND"] = "mpi" if world > 2 else backend
    module = sys.modules[test.case.__module__]
    if hasattr(module, "BACKEND"):
        module.BACKEND = _Named(backend)
        if test.for_gpu:
            play_on_cpu(module)
    else:
        dist.init_process_group = _in_place_of_gloo(dist.init_process_group, backend)
    return test.case(test.method)


class _Named(str):
    """A backend's name that equals Gloo's too, for tests that ask `BACKEND == "gloo"` as they run.

    They ask in order to choose the CPU's path, and know no third answer.
    """

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _in_place_of_gloo(init: Callable[..., None], backend: str) -> Callable[..., None]:
    """`init_process_group` for tests that ask for Gloo in their text: it makes `backend`."""

    @functools.wraps(init)
    def init_process_group(*args: object, **named: object) -> None:
        if named.get("backend") == "gloo":
            named["backend"] = backend
        init(*args, **named)

    return init_process_group


def _collectives(name: str) -> Iterator[Test]:
    """PyTorch's tests of a backend, loaded as if its name were `name`."""
    module = _imported_as(name)
    case = _forking(
        type("DistributedTest", (module.TestDistBackend, module.DistributedTest._DistTestBase), {})
    )
    case.__module__ = module.__name__
    yield from _methods(case)


def _imported_as(name: str) -> ModuleType:
    os.environ["BACKEND"] = name
    spec = importlib.util.find_spec(_COLLECTIVES)
    assert spec is not None and spec.origin is not None, f"no {_COLLECTIVES} in this PyTorch"
    own_name = f"{_COLLECTIVES}_as_{name}"
    copy = importlib.util.spec_from_file_location(own_name, spec.origin)
    assert copy is not None and copy.loader is not None
    module = importlib.util.module_from_spec(copy)
    # Tests send objects of the module's classes about, and pickle looks for them here.
    sys.modules[own_name] = module
    distributed = importlib.import_module("torch.testing._internal.common_distributed")
    with unittest.mock.patch.multiple(
        distributed, skip_if_no_gpu=_for_gpu, skip_if_lt_x_gpu=lambda count: _for_gpu
    ):
        copy.loader.exec_module(module)
    return module


def _for_gpu(function: Callable[..., None]) -> Callable[..., None]:
    """Stands in for PyTorch's decorators that skip a test where GPUs are missing: marks the test.

    Decorators around it take the mark along.
    """
    function.for_gpu = True
    return function


def _beside_rpc() -> Iterator[Test]:
    """The tests of RPC that make a process group as well.

    The others never meet a backend. These name Gloo in their text; `become` puts another there.
    """
    distributed = importlib.import_module("torch.testing._internal.common_distributed")
    agent = importlib.import_module(f"{_SUITE}.rpc.tensorpipe_rpc_agent_test_fixture")
    for path, classes in _BESIDE_RPC.items():
        module = importlib.import_module(f"{_SUITE}.{path}")
        for name in classes:
            tests = getattr(module, name)
            bases = (
                agent.TensorPipeRpcAgentTestFixture,
                tests,
                distributed.MultiProcessTestCase,
            )
            case = _forking(type(name, bases, {}))
            case.__module__ = module.__name__
            for test in _methods(case):
                if _makes_a_group(tests, test.method):
                    yield test


def _makes_a_group(tests: type, method: str) -> bool:
    if tests.__name__.startswith("Ddp"):
        return True
    text = inspect.getsource(inspect.unwrap(getattr(tests, method)))
    return any(word in text for word in ("init_process_group(", "initialize_pg("))


def _methods(case: type[unittest.TestCase]) -> Iterator[Test]:
    for method in unittest.TestLoader().getTestCaseNames(case):
        function = getattr(case, method)
        skipped = getattr(function, "__unittest_skip_why__", None)
        if not getattr(function, "__unittest_skip__", False):
            skipped = None
        for_gpu = getattr(function, "for_gpu", False)
        if for_gpu and skipped is None:
            skipped = NEEDS_A_GPU.get(method)
        granted = getattr(sys.modules[case.__module__], "CUSTOM_PG_TIMEOUT", {})
        patience = granted.get(method, _COMPILES.get(method, 0))
        name = f"{case.__name__}.{method}"
        yield Test(name, case, method, skipped, for_gpu, patience)


def _forking(case: type) -> type:
    """The same case, but its ranks are forks of a process that has imported PyTorch already."""
    import torch.multiprocessing

    def set_up(self: unittest.TestCase) -> None:
        case.setUp(self)
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return type(case.__name__, (case,), {"setUp": set_up})


_SUITE = "torch.testing._internal.distributed"
_COLLECTIVES = f"{_SUITE}.distributed_test"
_COMPILES = {"test_ddp_compile_static_graph": 240}
"""Seconds that a test may need that runs a C++ compiler in every rank."""
_BESIDE_RPC = {
    "ddp_under_dist_autograd_test": ("DdpUnderDistAutogradTest", "DdpComparisonTest"),
    "rpc.rpc_test": ("RpcTest", "TensorPipeAgentRpcTest"),
    "rpc.dist_autograd_test": ("DistAutogradTest",),
    "rpc.jit.rpc_test": ("JitRpcTest",),
}
