"""`consort.nccl`: NCCL's calls from Python, on consort's own NCCL, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
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


def test_it_is_imported_without_torch_and_without_nccl() -> None:
    program = """
import sys
from consort import nccl
print("torch" in sys.modules)
try:
    nccl.version()
except consort.Error as error:
    print(error)
"""
    imported, error = lines(
        python("-c", "import consort\n" + program, CONSORT_NCCL_LIBRARY="/nowhere/libnccl.so.2")
    )
    assert imported == "False"
    assert "/nowhere/libnccl.so.2: cannot open" in error
    assert "pip install nvidia-nccl-cu12" in error


def test_both_versions_are_told(library: str) -> None:
    program = "print(nccl.version(), nccl.built_against(), nccl.identity())"
    (told,) = lines(python("-c", FAKES + program, CONSORT_NCCL_LIBRARY=library))
    assert told.startswith("(2, 30, 7) (2, 30, 7) consort-nccl ")


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
    assert "have to be cuda dense tensors, and inputs[0] is on cpu" in refused


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
    print(comm.rank, comm.world, comm)
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
            f"{rank} 3 <consort.nccl.Communicator: rank {rank} of 3>",
            str([6.0] * 5),
            "[2.0]",
            "[0.0, 2.0, 4.0]",
            "[3.0]" if rank == 1 else "[1.0]",
            f"<consort.nccl.Communicator: rank {rank} of 3, closed>",
            f"the communicator of rank {rank} was closed: make another",
        ]


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
    "nccl.all_reduce([one, 3])": ("TypeError", "inputs[1] should be a tensor, not a int"),
    "nccl.all_reduce([one], [3])": ("TypeError", "outputs[0] should be a tensor"),
    "nccl.all_reduce([one], streams=[0, 0])": ("Mistake", "number of streams (2) does not match"),
    "nccl.all_reduce([one], comms=3)": ("TypeError", "comm is not a sequence"),
    "nccl.all_reduce([one], comms=[3])": ("TypeError", "comms[0] should be a communicator"),
    "nccl.all_reduce([one], comms=[])": ("Mistake", "number of communicators (0) does not match"),
    "nccl.broadcast([far], root=1)": ("Mistake", "invalid root 1: there are 1 ranks"),
    "nccl.broadcast([one], root=-1)": ("Mistake", "invalid root -1"),
    "nccl.reduce([], root=0)": ("Mistake", "invalid root 0: there are 0 ranks"),
    "nccl.all_reduce([])": ("Mistake", "inputs can't be empty"),
    "nccl.all_gather([far], [])": ("Mistake", "different lengths: 1 and 0"),
    "nccl.all_reduce([far])": (
        "Mistake",
        "have to be cpu dense tensors, and inputs[0] is on cuda:1",
    ),
    "nccl.all_reduce([Tensor([1], dense=False)])": ("Mistake", "inputs[0] is sparse"),
    "nccl.all_reduce([Tensor([1], whole=False)])": ("Mistake", "inputs[0] is not contiguous"),
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
    "nccl.reduce([one], outputs=[3])": ("TypeError", "outputs[0] should be a tensor"),
    "nccl.reduce([one], outputs=[one], root=1)": ("Mistake", "invalid root 1"),
    "nccl.all_reduce([one, two])": ("Mistake", "inputs[1] has 2 elements, and inputs[0] 1"),
    "nccl.all_gather([one], [two])": ("Mistake", "outputs[0] has 2 elements, and has to have 1"),
    "nccl.all_reduce([one], [wide])": ("Mistake", "outputs[0] is float64"),
    "nccl.all_reduce([one], op=5)": ("Mistake", "there is no op 5: choose one of 0 (sum)"),
    "nccl.all_reduce([one], op='xor')": ("Mistake", "there is no op 'xor'"),
    "nccl.all_reduce([Tensor([1], dtype='float4')])": ("Mistake", "Unconvertible NCCL type float4"),
    "nccl.all_reduce([Tensor([1], 'h', dtype='int16')])": ("Mistake", "NCCL does not combine i16"),
    "nccl.all_reduce([Tensor([1], 'B', dtype='bool')])": ("Mistake", "max is true where any is"),
    "nccl.init_rank(1, b'short', 0)": ("Mistake", "an id has 128 bytes, not 5"),
    "nccl.init_rank(1, nccl.unique_id(), 1)": ("Mistake", "rank 1 of 1"),
    "nccl.all_reduce([one], streams=[0x1234])": ("Mistake", "NCCL Error 4"),
}


def test_mistakes_are_told(library: str) -> None:
    program = f"""
one, two, wide = Tensor([1]), Tensor([1, 2]), Tensor([1], "d", dtype="float64")
far = Tensor([1], device="cuda:1")
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
