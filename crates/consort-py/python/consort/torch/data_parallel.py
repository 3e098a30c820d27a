"""Data-parallel training: gradients that are averaged where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from consort import _core
from consort.torch.gradients import Gradients, strides
from consort.torch.group import core_of
from consort.torch.states import States, follow_rank_0
from consort.torch.tensors import code


class DistributedDataParallel(nn.Module):
    """A model that learns on many processes as one: ``loss.backward()`` averages gradients.

    It is used as PyTorch's class of the same name, in a group of backend consort:

        import torch
        import torch.distributed as dist
        from consort.torch import DistributedDataParallel

        dist.init_process_group("consort")
        torch.manual_seed(dist.get_rank())  # every rank has examples of its own

        model = DistributedDataParallel(torch.nn.Linear(10, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(100):
            inputs = torch.randn(8, 10)
            loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
            loss.backward()  # now gradients are the averages of all ranks
            optimizer.step()
            optimizer.zero_grad()

    All ranks begin with the parameters and buffers of rank 0. The ranks compare their models first;
    if they differ, all get the same error, which shows both. Gradients travel in buckets while
    backward computes others, and lie in them: after backward ``parameter.grad`` is a part of a
    bucket. Where the ranks share memory buckets lie in it, so that nothing is copied to be sent.

    What is otherwise than with PyTorch's class:

    * Parameters without a gradient are an error at the end of that backward, not at the next
      forward, which names them. It ends the group, as the other ranks wait for them. With
      ``find_unused_parameters`` the graph is not searched: ranks tell each other what they have.
    * An exception in backward is told to the other ranks, which get an error that names this one,
      if a gradient had come. Before that nothing has happened, and all may go on.
    * It has to be kept until backward has ended: a backward pass from what it has given before it
      was dropped is an error, where PyTorch's would not average.
    * Gradients are always views of buckets (but for those of sparse embeddings, which travel by
      rows), so ``gradient_as_bucket_view=False`` is refused.
    * After a rank has died the others go on: :func:`consort.torch.shrink`, then :meth:`set_group`.

    Parameters:

    module
        The model, with its parameters on the CPU.
    process_group
        The ranks that learn together; all if nothing is said.
    broadcast_buffers
        Whether buffers are those of rank 0 in every forward.
    bucket_cap_mb
        How many megabytes (of 2**20 bytes) of gradients travel together. If nothing is said, the
        sizes are found by measuring in the first steps.
    find_unused_parameters
        Whether there may be parameters without a gradient. One that has none on any rank is left as
        it is, one that has none on some gets the average with zeros for these.
    static_graph
        Says that every backward pass does the same: gradients may then come in several parts.
    init_sync
        Whether all ranks begin with what rank 0 has. If not, they have to have the same already.
    hook
        How buckets are averaged: ``"average"``, ``"bf16"`` or ``"f16"`` (half the bytes),
        ``"int8"`` (a quarter), ``"powersgd"`` (far less, for matrices), or ``"none"``, to see what
        there is to gain.
    hook_options
        For ``"powersgd"``: ``rank``, ``after`` (passes that are averaged as they are),
        ``min_compression_rate``; for it and ``"int8"``: ``error_feedback``.
    delay
        Sends nothing before backward has ended: for models whose backward makes calls of the same
        group.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        process_group: Any = None,
        broadcast_buffers: bool = True,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        static_graph: bool = False,
        init_sync: bool = True,
        gradient_as_bucket_view: bool = True,
        hook: str = "average",
        hook_options: Mapping[str, Any] | None = None,
        delay: bool = False,
        **others: Any,
    ) -> None:
        """Every rank of the group makes one, of the same model; see the class for what can be said."""
        _refuse(others, gradient_as_bucket_view)
        super().__init__()
        self.module = module
        self.process_group = dist.group.WORLD if process_group is None else process_group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        #: Whether the next forward's backward averages; :meth:`no_sync` switches it off.
        self.require_backward_grad_sync = True
        self._was_averaged = True
        self._core = core_of(self.process_group, _WHAT)
        left_out = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = _learned(module, left_out)
        sparse = _sparse(module)
        self._states = States(module, left_out)
        # What cannot be sent is refused before the ranks meet.
        states = self._states.all() if init_sync else []
        # In a static graph the first pass shows which parameters have no gradient.
        may_miss = find_unused_parameters or static_graph
        told = _understood(hook, hook_options or {})
        wishes = _Wishes(_sizes(bucket_cap_mb), may_miss, static_graph, delay, hook, **told)
        described = [
            _described(name, parameter, id(parameter) in sparse) for name, parameter in named
        ]
        self._reducer = _core.Reducer(self._core, described, wishes)
        parameters = [parameter for _, parameter in named]
        self._gradients = Gradients(
            self._reducer, parameters, find_unused_parameters and not static_graph
        )
        follow_rank_0(self._core, states)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the model gives."""
        if self._was_averaged and self.broadcast_buffers:
            follow_rank_0(self._core, self._states.buffers())
        learns = torch.is_grad_enabled()
        is_averaged = learns and self.require_backward_grad_sync
        self._was_averaged = is_averaged
        if not learns:
            return self.module(*inputs, **kwargs)
        self._gradients.expect(is_averaged)
        self._reducer.begin_forward()
        output = self.module(*inputs, **kwargs)
        self._gradients.listen(output, is_averaged)
        return output

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of what is computed within it are only added up; the next backward averages.

        with model.no_sync():
            for inputs in some:
                model(inputs).sum().backward()
        model(last).sum().backward()
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def set_group(self, process_group: Any = None) -> None:
        """Goes on with another group: of the ranks that are left, or of more.

        Every rank of it has to call this, or make a model anew if it has only come. All get the
        parameters and buffers of its rank 0, and gradients are forgotten.

            try:
                loss.backward()
            except consort.PeerGone:
                consort.torch.shrink()
                model.set_group()
        """
        process_group = dist.group.WORLD if process_group is None else process_group
        core, states = core_of(process_group, _WHAT), self._states.all()
        self._reducer.set_group(core)
        self._core, self.process_group = core, process_group
        self._gradients.lay()
        self._gradients.forget()
        follow_rank_0(core, states)

    def stats(self) -> dict[str, Any]:
        """What was done so far, by the names of PyTorch's ``DDPLoggingData``; times are in ns."""
        return self._reducer.stats()

    def report(self) -> str:
        """The same for people: buckets, and how much communication backward has hidden."""
        return self._reducer.report()


@dataclass
class _Wishes:
    """How gradients are averaged, as the compiled part is told."""

    caps: list[int] | None
    find_unused: bool
    static_graph: bool
    delay: bool
    hook: str
    rank: int | None = None
    after: int | None = None
    min_compression_rate: float | None = None
    error_feedback: bool | None = None


def _refuse(others: dict[str, Any], gradient_as_bucket_view: bool) -> None:
    """Says what cannot be had, of what PyTorch's class knows or anybody thinks of."""
    if not gradient_as_bucket_view:
        raise ValueError(
            f"{_WHAT}: gradients are always views of buckets; leave gradient_as_bucket_view out"
        )
    wanted = [name for name, value in others.items() if name not in _EMPTY or value]
    if wanted:
        raise TypeError(
            f"{_WHAT} has no {', '.join(sorted(wanted))}: leave it out, "
            "or use torch.nn.parallel.DistributedDataParallel, which works on backend consort, too"
        )


def _understood(hook: str, told: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a hook is told, if it knows all of that."""
    known = _HOOK_OPTIONS.get(hook)
    if known is None:
        # There is no such hook, as the compiled part says.
        return {}
    unknown = sorted(set(told).difference(known))
    if unknown:
        options = f"its options are {', '.join(known)}" if known else "it has no options"
        raise TypeError(
            f"{_WHAT}: hook {hook!r} has no option {', '.join(map(repr, unknown))}: {options}"
        )
    return told


def _sizes(bucket_cap_mb: float | None) -> list[int] | None:
    """The sizes of buckets: the first is small, as it is on its way while others are computed."""
    if bucket_cap_mb is None:
        return None
    size = max(int(bucket_cap_mb * 2**20), 1)
    return [min(size, _FIRST), size]


def _learned(module: nn.Module, left_out: set[str]) -> list[tuple[str, nn.Parameter]]:
    """The parameters that have a gradient, each once, by the first name that it has."""
    named = [
        (name, parameter)
        for name, parameter in module.named_parameters()
        if parameter.requires_grad and name not in left_out
    ]
    if not named:
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameters that "
            "require a gradient"
        )
    for name, parameter in named:
        if parameter.device.type != "cpu" or parameter.layout != torch.strided:
            raise ValueError(
                f"{_WHAT}: parameter {name!r} is {parameter.layout} on "
                f"{parameter.device}; it has to be a plain tensor on the CPU"
            )
    return named


def _sparse(module: nn.Module) -> set[int]:
    """Which parameters have gradients of which only some rows are there."""
    parts = (part for part in module.modules() if isinstance(part, (nn.Embedding, nn.EmbeddingBag)))
    return {id(part.weight) for part in parts if part.sparse}


def _described(
    name: str, parameter: Tensor, is_sparse: bool
) -> tuple[str, int, list[int], list[int], bool]:
    kind = code(parameter, f"DistributedDataParallel, parameter {name!r}")
    return name, kind, list(parameter.shape), list(strides(parameter)), is_sparse


# How it is called in errors.
_WHAT = "DistributedDataParallel of consort"
# What PyTorch's class knows that means nothing here: it may be said as long as nothing is wanted.
_EMPTY = {"device_ids", "output_device", "dim", "check_reduction"}
# No more than so many bytes are in the first bucket.
_FIRST = 1 << 20
# What each hook may be told.
_HOOK_OPTIONS: dict[str, tuple[str, ...]] = {
    "average": (),
    "bf16": (),
    "f16": (),
    "int8": ("error_feedback",),
    "powersgd": ("rank", "after", "min_compression_rate", "error_feedback"),
    "none": (),
}
