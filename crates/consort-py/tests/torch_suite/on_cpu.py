"""Plays tests written for GPUs on the CPU, where they mean the same.

Most of PyTorch's tests of DistributedDataParallel move their model to a GPU and say nothing else
about it. Here a GPU is the CPU: `.cuda()` gives the tensor back, a device named `cuda:1` is `cpu`,
and DDP is not told of device ids. Collectives, buckets, hooks and the way errors travel stay.
"""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode


def play_on_cpu(module: ModuleType) -> None:
    """From here on the tests of `module` find a GPU for each rank, and each of them is the CPU.

    Changes the process for good, and only the calling thread sees tensors move to no GPU.
    """
    _CpuForGpu().__enter__()
    # A function each: `torch.compile` keeps a rule for every function it finds in these places.
    torch.cuda.set_device = lambda device: None
    torch.cuda.synchronize = lambda device=None: None
    torch.cuda.current_device = lambda: _CPU
    torch.Stream = torch.Event = _InOrder
    torch.accelerator.current_stream = _InOrder
    module.init_multigpu_helper = lambda world, backend: {rank: [rank] for rank in range(world)}
    DistributedDataParallel.__init__ = _without_device_ids(DistributedDataParallel.__init__)


class _CpuForGpu(TorchFunctionMode):
    """Replaces every GPU among the arguments of PyTorch's functions by the CPU."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        arguments: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> Any:
        if function is torch.Tensor.cuda:
            return arguments[0]
        named = {key: _device_or_same(value) for key, value in (named or {}).items()}
        if isinstance(named.get("device"), int):
            named["device"] = _CPU
        if function is torch.Tensor.to and type(arguments[-1]) is int:
            arguments = (arguments[0], _CPU)
        return function(*map(_device_or_same, arguments), **named)


class _InOrder:
    """Stands in for streams and events: what the CPU was told to do first is done already."""

    def __enter__(self) -> "_InOrder":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def record(self, stream: object = None) -> None:
        pass

    def wait(self, stream: object = None) -> None:
        pass

    def wait_stream(self, stream: object) -> None:
        pass


def _device_or_same(value: Any) -> Any:
    if isinstance(value, torch.device) and value.type == "cuda":
        return _CPU
    if isinstance(value, str) and value.startswith("cuda"):
        return _CPU
    return value


def _without_device_ids(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(self: object, module: torch.nn.Module, *args: Any, **named: Any) -> None:
        # Both could be given without their names, first and second; no test does more than that.
        assert len(args) <= 2, "DDP's third argument is not a device"
        init(self, module, **(named | {"device_ids": None, "output_device": None}))

    return __init__


_CPU = torch.device("cpu")

NEEDS_A_GPU = {
    **dict.fromkeys(
        (
            "test_DistributedDataParallel_SyncBatchNorm",
            "test_DistributedDataParallel_SyncBatchNorm_2D_Input",
            "test_DistributedDataParallel_SyncBatchNorm_Channels_Last",
            "test_DistributedDataParallel_SyncBatchNorm_Diff_Input_Sizes_Running_Value",
            "test_DistributedDataParallel_SyncBatchNorm_Diff_Input_Sizes_gradient",
            "test_DistributedDataParallel_SyncBatchNorm_No_Affine",
            "test_DistributedDataParallel_SyncBatchNorm_Single_Input_Per_Process",
            "test_DistributedDataParallel_SyncBatchNorm_half",
            "test_ddp_inference",
            "test_ddp_uneven_inputs_stop_iteration_sync_bn",
            "test_sync_bn_logged",
        ),
        "DDP refuses SyncBatchNorm on the CPU",
    ),
    **dict.fromkeys(
        (
            "test_average_parameters",
            "test_monitored_barrier_allreduce_hang",
            "test_monitored_barrier_allreduce_hang_wait_all_ranks",
        ),
        "makes a group of NCCL's beside the one in question",
    ),
    **dict.fromkeys(
        ("test_ddp_device", "test_ddp_logging_data_gpu"), "asks a tensor for its GPU's number"
    ),
    **dict.fromkeys(
        (
            "test_all_reduce_sum_cuda",
            "test_all_reduce_sum_cuda_async",
            "test_all_reduce_sum_cuda_complex",
            "test_barrier_cuda",
            "test_barrier_full_group_cuda",
            "test_barrier_group_cuda",
            "test_broadcast_cuda",
            "test_sparse_all_reduce_sum_cuda",
        ),
        "would be its twin for the CPU once more",
    ),
}
"""Tests that mean nothing on the CPU, and why."""
