"""`consort.nccl`: NCCL's calls from Python, on consort's own NCCL, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
from consort import nccl
from consort.nccl import checks
from started import ROOT, lines, python, run


@pytest.fixture(scope="session")
def library() -> str:
    """Consort's own NCCL."""
    build = ["cargo", "build", "--quiet", "--locked", "-p", "consort-nccl"]
    subprocess.run(build, cwd=ROOT, check=True)
    return str(ROOT / "target/debug/libconsort_nccl.so")


@pytest.fixture(scope="session")
def real() -> str:
    """NVIDIA's, which needs no device to be loaded."""
    made = run([ROOT / "tools/nccl"])
    if made.returncode != 0:
        pytest.skip(f"NCCL could not be installed: {made.stdout}")
    (found,) = (ROOT / "target/venv-nccl").glob("lib/python3*/site-packages/nvidia/nccl/lib/*.so.2")
    return str(found)


#: Tensors without PyTorch: memory, and what it means.
FAKES = """
import array
class Tensor:
    def __init__(self, numbers, kind="f", device="cpu", dtype="float32", dense=True, whole=True):
        self.numbers, self.device, self.dtype = array.array(kind, numbers), device, dtype
        self.is_sparse, self.whole = not dense, whole
    def data_ptr(self): return self.numbers.buffer_info()[0]
    def numel(self): return len(self.numbers)
    def element_size(self): return self.numbers.itemsize
    def is_contiguous(self): return self.whole
    def list(self): return self.numbers.tolist()
from consort import nccl
import consort
"""

#: Two ranks of one process.
PAIR = """
from concurrent.futures import ThreadPoolExecutor
def pair():
    id = nccl.unique_id()
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda rank: nccl.init_rank(2, id, rank, timeout=60), range(2)))
"""


def test_it_is_imported_without_torch_and_without_nccl() -> None:
    program = """
import sys
from consort import nccl
print("torch" in sys.modules, nccl.is_available([]))
try:
    nccl.version()
except consort.Error as error:
    print(error)
"""
    imported, error = lines(
        python("-c", "import consort\n" + program, CONSORT_NCCL_LIBRARY="/nowhere/libnccl.so.2")
    )
    assert imported == "False False"
    assert "/nowhere/libnccl.so.2: cannot open" in error
    assert "CONSORT_NCCL_LIBRARY" in error and "pip install" not in error


def test_everything_tells_how_it_differs_from_pytorchs() -> None:
    told = {name: getattr(nccl, name).__doc__ for name in nccl.__all__ if not name.isupper()}
    assert [name for name, text in told.items() if "PyTorch" not in text] == []
    assert "suffix" in told["version"]


def test_both_versions_are_told(library: str) -> None:
    program = "print(nccl.version(), nccl.built_against(), nccl.identity())"
    (told,) = lines(python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=library))
    assert told.startswith("(2, 30, 7) (2, 30, 7) consort-nccl ")


def test_the_program_in_the_documentation_runs_without_a_gpu(library: str) -> None:
    pytest.importorskip("torch")
    text = (ROOT / "docs/gpu.md").read_text().split("## In Python\n")[1]
    program = text.split('python -c "\n')[1].split('"\n```')[0]
    (told,) = lines(python("-c", program, CONSORT_NCCL_LIBRARY=library))
    both = "tensor([3., 3., 3.]) tensor([3., 3., 3.]) by NCCL 2 30 7 consort-nccl "
    assert told.startswith(both)


def test_the_real_one_is_loaded_and_fails_with_advice(real: str) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a device")
    program = """
print(nccl.identity(), nccl.version() >= (2, 20, 0))
first, second = nccl.unique_id(), nccl.unique_id()
print(len(first), first != second)
print(nccl.is_available([Tensor([1.0])]))
try:
    nccl.init_rank(1, first, 0)
except consort.SystemTrouble as error:
    print(error)
try:
    nccl.all_reduce([Tensor([1.0])])
except consort.Mistake as error:
    print(error)
"""
    who, ids, available, failed, refused = lines(
        python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=real)
    )
    assert (who, ids, available) == ("None True", "128 True", "False")
    assert failed.startswith("NCCL Error 1: ncclCommInitRank: rank 0 of 1: unhandled cuda error")
    assert "is there a GPU" in failed
    assert (
        "have to be cuda dense tensors, and inputs[0] is on cpu; for tensors on the CPU" in refused
    )
    assert refused.endswith("set CONSORT_NCCL_LIBRARY to libconsort_nccl.so")


def test_what_is_wrong_with_devices_is_told_without_one(real: str) -> None:
    program = """
zero, other, one = (Tensor([1], device=f"cuda:{number}") for number in (0, 0, 1))
print(nccl.is_available([zero, one]), nccl.is_available([zero, other]))
for inputs, outputs in ([zero, other], None), ([zero, one], [one, zero]):
    try:
        nccl.all_reduce(inputs, outputs)
    except consort.Mistake as error:
        print(error)
"""
    available, shared, elsewhere = lines(python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=real))
    assert available == "True False"
    assert "inputs must be on unique devices, not on cuda:0, cuda:0" in shared
    assert "outputs[0] is on cuda:1, its input on cuda:0" in elsewhere


def test_a_tensor_is_its_devices_and_on_the_current_stream_of_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def current_stream(device: str) -> SimpleNamespace:
        return SimpleNamespace(cuda_stream={"cuda:2": 17}[device])

    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=current_stream))
    monkeypatch.setitem(sys.modules, "torch", torch)
    there, here = SimpleNamespace(device="cuda:2"), SimpleNamespace(device="cpu")
    # Without devices the place in the list stands for one.
    assert (checks.device(there, 5), checks.device(here, 5)) == (2, 5)
    assert (checks.queue(None, there), checks.queue(None, here)) == (17, 0)
    assert checks.queue(3, there) == 3


def test_the_wheel_of_this_python_is_found_though_no_environment_is_active(real: str) -> None:
    beside = Path(real).parents[6] / "bin/python"
    packages = sysconfig.get_path("platlib")
    hidden = ("VIRTUAL_ENV", "CONDA_PREFIX", "CONSORT_NCCL_LIBRARY")
    without = [word for name in hidden for word in ("-u", name)]
    program = "from consort import nccl; print(nccl.identity(), nccl.version() >= (2, 20, 0))"
    command = ["env", *without, f"PYTHONPATH={packages}", "PATH=/usr/bin:/bin", beside]
    assert lines(run([*command, "-c", program], HOME="/nowhere")) == ["None True"]


def test_tensors_of_one_process_are_combined_and_moved(library: str) -> None:
    program = """
def three(length=2):
    return [Tensor([rank * 10 + at for at in range(length)]) for rank in range(3)]
def show(tensors): print([tensor.list() for tensor in tensors])
inputs = three(); nccl.all_reduce(inputs); show(inputs)
inputs, outputs = three(), three(); nccl.all_reduce(inputs, outputs, op=nccl.MAX); show(outputs)
inputs = three(); nccl.reduce(inputs, root=1); show(inputs)
inputs, output = three(), Tensor([0, 0]); nccl.reduce(inputs, output, root=2, op="min"); show([output])
import warnings
for name in ("output", "outputs"):
    inputs, several = three(), three()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        nccl.reduce(inputs, root=2, **{name: several})
    print(warned[0].category.__name__); show(several)
inputs = three(); nccl.broadcast(inputs, root=2); show(inputs)
outputs = three(6); nccl.all_gather(three(), outputs); show(outputs)
outputs = three(1); nccl.reduce_scatter(three(3), outputs); show(outputs)
outputs = [Tensor([0.0])] * 1; nccl.all_reduce([Tensor([4.0])], outputs, op=nccl.AVG); show(outputs)
print(nccl.is_available(three()))
"""
    printed = lines(python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=library))
    assert printed == [
        str([[30.0, 33.0]] * 3),
        str([[20.0, 21.0]] * 3),
        str([[0.0, 1.0], [30.0, 33.0], [20.0, 21.0]]),
        str([[0.0, 1.0]]),
        *["DeprecationWarning", str([[0.0, 1.0], [10.0, 11.0], [30.0, 33.0]])] * 2,
        str([[20.0, 21.0]] * 3),
        str([[0.0, 1.0, 10.0, 11.0, 20.0, 21.0]] * 3),
        str([[30.0], [33.0], [36.0]]),
        str([[4.0]]),
        "True",
    ]


def test_ranks_of_several_processes_work_together(library: str, tmp_path: Path) -> None:
    program = """
import pathlib, sys, time
rank, place = int(sys.argv[1]), pathlib.Path(sys.argv[2])
if rank == 0:
    (place / "new").write_bytes(nccl.unique_id())
    (place / "new").rename(place / "id")
while not (place / "id").exists():
    time.sleep(0.001)
with nccl.init_rank(3, (place / "id").read_bytes(), rank, timeout=60) as comm:
    print(comm.rank, comm.world, comm.device, comm)
    tensor = Tensor([rank + 1.0] * 5)
    nccl.all_reduce([tensor], comms=[comm])
    print(tensor.list())
    nccl.broadcast([tensor := Tensor([rank])], root=2, comms=comm)
    print(tensor.list())
    output = Tensor([0.0] * 3)
    nccl.all_gather([Tensor([rank * 2.0])], [output], comms=comm)
    print(output.list())
    tensor = Tensor([1.0])
    nccl.reduce([tensor], root=1, comms=comm)
    print(tensor.list())
print(comm)
try:
    nccl.all_reduce([Tensor([1.0])], comms=comm)
except consort.Mistake as error:
    print(error)
comm.close()
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", FAKES + program, str(rank), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={"CONSORT_NCCL_LIBRARY": library},
        )
        for rank in range(3)
    ]
    for rank, process in enumerate(processes):
        printed = process.communicate(timeout=60)[0]
        assert process.returncode == 0, printed
        assert printed.splitlines() == [
            f"{rank} 3 {rank} <consort.nccl.Communicator: rank {rank} of 3>",
            str([6.0] * 5),
            "[2.0]",
            "[0.0, 2.0, 4.0]",
            "[3.0]" if rank == 1 else "[1.0]",
            f"<consort.nccl.Communicator: rank {rank} of 3, closed>",
            f"the communicator of rank {rank} was closed: make another",
        ]


def test_a_call_is_put_on_the_stream_that_is_given(library: str) -> None:
    program = """
import ctypes, os
own = ctypes.CDLL(os.environ["CONSORT_NCCL_LIBRARY"])
class Stream:
    def __init__(self):
        made = ctypes.c_void_p()
        assert own.consortStreamCreate(ctypes.byref(made)) == 0
        self.cuda_stream = made.value
    def ask(self, what): return getattr(own, "consortStream" + what)(ctypes.c_void_p(self.cuda_stream))
first, second = pair()
stream, now = Stream(), None
for given in stream, stream.cuda_stream:
    tensors = [Tensor([1.0]), Tensor([2.0])]
    nccl.all_reduce(tensors[:1], streams=[given], comms=first)
    print("in progress:", stream.ask("Query") == 7)  # it has returned, and its peer has not come
    nccl.all_reduce(tensors[1:], streams=[now], comms=second)
    print(stream.ask("Synchronize"), [tensor.list() for tensor in tensors])
sums = [Tensor([1.0]), Tensor([2.0])]
nccl.reduce(sums[:1], unused := Tensor([0.0]), root=1, streams=[stream], comms=first)
nccl.reduce(sums[1:], output := Tensor([0.0]), root=1, comms=second)
print(stream.ask("Synchronize"), unused.list(), output.list())
print(stream.ask("Destroy"))
first.abort(), second.abort()
"""
    printed = lines(python("-c", FAKES + PAIR + program, CONSORT_NCCL_LIBRARY=library))
    assert printed == [*["in progress: True", "0 [[3.0], [3.0]]"] * 2, "0 [0.0] [3.0]", "0"]


def test_communicators_have_to_be_different_ranks_of_one(library: str) -> None:
    program = """
(first, second), alone = pair(), nccl.init_rank(1, nccl.unique_id(), 0)
for comms in [first, first], [alone, second]:
    try:
        nccl.all_reduce([Tensor([1.0]), Tensor([1.0])], comms=comms)
    except consort.Mistake as error:
        print(error)
nccl.all_reduce(tensors := [Tensor([1.0]), Tensor([2.0])], comms=[second, first])
print([tensor.list() for tensor in tensors])
for comm in first, second, alone:
    comm.abort()
"""
    twice, of_two, summed = lines(
        python("-c", FAKES + PAIR + program, CONSORT_NCCL_LIBRARY=library)
    )
    assert twice == of_two == "consort nccl: the communicators have to be different ranks of one"
    assert summed == "[[3.0], [3.0]]"


def test_a_communicator_that_a_thread_waits_in_is_not_closed_but_can_be_aborted(
    library: str,
) -> None:
    program = """
import sys, threading
sys.setswitchinterval(60)  # threads give the interpreter away only where they wait
first, second = pair()
begun = threading.Event()
class LastAskedFor:
    @property
    def cuda_stream(self):
        begun.set()
        return 0
def wait_for_the_other():
    try:
        nccl.all_reduce([Tensor([1.0])], streams=[LastAskedFor()], comms=first)
    except consort.Error:
        print("let out")
waiting = threading.Thread(target=wait_for_the_other)
waiting.start()
begun.wait()
try:
    first.close()
except consort.Mistake as error:
    print(error)
first.abort()
waiting.join()
print(first)
second.abort()
"""
    refused, ended, shown = lines(
        python("-c", FAKES + PAIR + program, CONSORT_NCCL_LIBRARY=library)
    )
    assert "another thread is in a call of this communicator; abort ends that" in refused
    assert ended == "let out" and shown.endswith("closed>")


def test_a_rank_that_does_not_come_is_not_waited_for_longer_than_said(library: str) -> None:
    program = """
try:
    nccl.init_rank(2, nccl.unique_id(), 0, timeout=0.2)
except consort.Deadline as error:
    print(error)
"""
    (told,) = lines(python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=library))
    assert "rank 0 of 2 waited" in told and "other ranks may be missing" in told


def test_a_block_that_raises_aborts(library: str) -> None:
    program = """
try:
    with nccl.init_rank(1, nccl.unique_id(), 0) as comm:
        raise KeyError("in the middle")
except KeyError:
    print(comm)
"""
    (printed,) = lines(python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=library))
    assert printed.endswith("closed>")


def test_a_forked_child_is_told_that_the_communicator_is_its_parents(library: str) -> None:
    program = """
import os
comm = nccl.init_rank(1, nccl.unique_id(), 0)
if os.fork() == 0:
    try:
        nccl.all_reduce([Tensor([1.0])], comms=comm)
    except consort.Aborted as error:
        print(error, flush=True)
    del comm
    os._exit(0)
os.wait()
nccl.all_reduce([tensor := Tensor([1.0])], comms=comm)
comm.close()
print(tensor.list())
"""
    told, summed = lines(python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=library))
    assert "was made in the process that this one was forked from" in told
    assert summed == "[1.0]"


MISTAKES = {
    "nccl.all_reduce(one)": ("TypeError", "inputs should be a collection of tensors, not a Tensor"),
    "nccl.all_reduce(7)": ("TypeError", "should be a collection of tensors, not a int"),
    "nccl.all_reduce('one')": ("TypeError", "should be a collection of tensors, not a str"),
    "nccl.all_reduce([one, 3])": ("TypeError", "inputs[1] should be a tensor, not a int"),
    "nccl.all_reduce([Tensor])": ("TypeError", "inputs[0] should be a tensor, not a type"),
    "nccl.all_reduce([one], [3])": ("TypeError", "outputs[0] should be a tensor"),
    "nccl.all_reduce([one], streams=[0, 0])": ("Mistake", "number of streams (2) does not match"),
    "nccl.all_reduce([one], comms=3)": ("TypeError", "comm is not a sequence"),
    "nccl.all_reduce([one], comms='comm')": ("TypeError", "comm is not a sequence"),
    "nccl.all_reduce([one], comms=[3])": ("TypeError", "comms[0] should be a communicator"),
    "nccl.all_reduce([one], comms=[])": ("Mistake", "number of communicators (0) does not match"),
    "nccl.all_reduce([one, two], comms=comm)": (
        "Mistake",
        "number of communicators (1) does not match inputs (2)",
    ),
    "nccl.broadcast([far], root=1)": ("Mistake", "invalid root 1: there are 1 ranks"),
    "nccl.broadcast([one], root=-1)": ("Mistake", "invalid root -1"),
    "nccl.broadcast([one], root='0')": ("Mistake", "invalid root '0'"),
    "nccl.reduce([], root=0)": ("Mistake", "invalid root 0: there are 0 ranks"),
    "nccl.all_reduce([])": ("Mistake", "inputs can't be empty"),
    "nccl.all_gather([one], None)": ("Mistake", "nccl.all_gather: it needs outputs"),
    "nccl.all_gather([far], [])": ("Mistake", "different lengths: 1 and 0"),
    "nccl.all_reduce([far])": (
        "Mistake",
        "have to be cpu dense tensors, and inputs[0] is on cuda:1",
    ),
    "nccl.all_reduce([one], [far])": (
        "Mistake",
        "outputs have to be cpu dense tensors, and outputs[0] is on cuda:1",
    ),
    "nccl.all_reduce([Tensor([1], dense=False)])": ("Mistake", "inputs[0] is sparse"),
    "nccl.all_reduce([Tensor([1], whole=False)])": ("Mistake", "inputs[0] is not contiguous"),
    "nccl.all_reduce([one], [Tensor([1], whole=False)])": (
        "Mistake",
        "outputs[0] is not contiguous",
    ),
    "nccl.all_reduce([one, wide])": ("Mistake", "inputs[1] is float64, and inputs[0] float32"),
    "nccl.all_reduce([one, Tensor([1, 2], 'd', dtype='float64', whole=False)])": (
        "Mistake",
        "inputs[1] is float64",
    ),
    "nccl.all_reduce([one, Tensor([1, 2], whole=False)])": (
        "Mistake",
        "inputs[1] is not contiguous",
    ),
    "nccl.all_reduce([one, Tensor([1, 2], dense=False, dtype='float64')])": (
        "Mistake",
        "inputs[1] is sparse",
    ),
    "nccl.reduce([one], one, outputs=[one])": ("Mistake", "but not both"),
    "nccl.reduce([one], 3)": ("TypeError", "output should be a tensor, not a int"),
    "nccl.reduce([one], outputs=[3])": ("TypeError", "outputs[0] should be a tensor"),
    "nccl.reduce([one], outputs=[one], root=1)": ("Mistake", "invalid root 1"),
    "nccl.all_reduce([one, two])": ("Mistake", "inputs[1] has 2 elements, and inputs[0] 1"),
    "nccl.all_gather([one], [two])": ("Mistake", "outputs[0] has 2 elements, and has to have 1"),
    "nccl.reduce_scatter([two, two], [two, two])": (
        "Mistake",
        "outputs[0] has 2 elements, and has to have 1",
    ),
    "nccl.all_reduce([one], [wide])": ("Mistake", "outputs[0] is float64"),
    "nccl.all_reduce([one], op=5)": ("Mistake", "there is no op 5: choose one of 0 (sum)"),
    "nccl.all_reduce([one], op=True)": ("Mistake", "there is no op True"),
    "nccl.all_reduce([one], op='xor')": ("Mistake", "there is no op 'xor'"),
    "nccl.all_reduce([Tensor([1], dtype='float4')])": ("Mistake", "Unconvertible NCCL type float4"),
    "nccl.all_reduce([Tensor([1], 'h', dtype='int16')])": ("Mistake", "NCCL does not combine i16"),
    "nccl.all_reduce([Tensor([1], 'B', dtype='bool')])": ("Mistake", "max is true where any is"),
    "nccl.all_reduce([nowhere])": ("Mistake", "a tensor of 4 bytes has no memory"),
    "nccl.init_rank(1, b'short', 0)": ("Mistake", "an id has 128 bytes, not 5"),
    "nccl.init_rank(1, nccl.unique_id(), 1)": ("Mistake", "rank 1 of 1"),
    "nccl.init_rank(1, nccl.unique_id(), 0, timeout=-1)": ("Mistake", "timeout: cannot convert"),
    "nccl.all_reduce([one], streams=[0x1234])": ("Mistake", "NCCL Error 4"),
    "nccl_call('gather', [], [], [], 'f32', 'sum', 0, [])": (
        "Mistake",
        'NCCL has no call "gather"',
    ),
    "nccl_call('all_reduce', [comm], [], [], 'f32', 'sum', 0, [])": (
        "Mistake",
        "each communicator has one input, one output and one stream",
    ),
}


def test_mistakes_are_told(library: str) -> None:
    program = f"""
one, two, wide = Tensor([1]), Tensor([1, 2]), Tensor([1], "d", dtype="float64")
far, nowhere = Tensor([1], device="cuda:1"), Tensor([1])
nowhere.data_ptr = lambda: 0
comm = nccl.init_rank(1, nccl.unique_id(), 0)
from consort._core import nccl_call
for call in {list(MISTAKES)!r}:
    try:
        eval(call)
        print("nothing")
    except (TypeError, consort.Error) as error:
        assert isinstance(error, TypeError) or isinstance(error, ValueError), error
        print(type(error).__name__, str(error).replace("\\n", " "))
print(nccl.is_available([far]), nccl.is_available(3), nccl.is_available([Tensor([1], whole=False)]))
"""
    *printed, available = lines(python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=library))
    assert available == "False False False"
    for (call, (kind, text)), line in zip(MISTAKES.items(), printed, strict=True):
        assert line.startswith(kind + " ") and text in line, f"{call}: {line}"


def test_tensors_of_torch_are_tensors(library: str) -> None:
    program = """
import torch
from consort import nccl
floats = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2)
for dtype in (*floats, torch.int64, torch.uint8):
    tensors = [torch.full((2, 3), rank + 1).to(dtype) for rank in range(2)]
    nccl.all_reduce(tensors)
    print(all((tensor.float() == 3).all().item() for tensor in tensors))
flags = [torch.tensor([True, False]), torch.tensor([False, False])]
nccl.all_reduce(flags, op=nccl.MAX)
print(flags[1].tolist(), nccl.is_available(flags), nccl.is_available([torch.ones(2, 2).t()]))
"""
    printed = lines(python("-c", program, CONSORT_NCCL_LIBRARY=library))
    assert printed == ["True"] * 6 + ["[True, False] True False"]
