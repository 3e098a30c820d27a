"""Gradients that lie in buckets, and are averaged while backward computes others.

Every parameter has a hook that autograd calls when its gradient is complete. It puts the gradient
where it travels, unless autograd has added to it there, and tells the reducer (in the compiled
part), which sends a bucket when all of it has come. When backward ends, the averages are where the
gradients were.

Who may touch the memory when: from the hook of a parameter until backward ends its gradient is the
reducer's. Nothing here reads or writes it meanwhile, and autograd has no reason to: it has added up
all there was to add. (A gradient that comes in several parts is the exception: then the graph has
to be declared static, and the reducer takes the place with the last part.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Variable
from torch.utils import _pytree

from consort import _core
from consort.torch.tensors import region


class Gradients:
    """The gradients of some parameters, and what a backward pass does with them."""

    def __init__(
        self, reducer: _core.Reducer, parameters: Sequence[Tensor], brings_missing: bool
    ) -> None:
        self._reducer = reducer
        self._parameters = parameters
        # Whether a gradient that has been there before counts though backward did not reach it.
        self._brings_missing = brings_missing
        # Where each gradient lies, or none if it is sparse.
        self._views: list[Tensor | None] = []
        self._generation = -1
        self._has_come = bytearray(len(parameters))
        self._has_begun = False
        self._is_awaited = False
        #: Whether the next backward pass is averaged: that of a forward pass which wants it to be.
        self.is_averaged = False
        self.lay()
        self._handles = [
            parameter.register_post_accumulate_grad_hook(  # type: ignore[attr-defined]
                self._sparse_hook(index) if self._views[index] is None else self._hook(index)
            )
            for index, parameter in enumerate(parameters)
        ]

    def listen(self, output: Any) -> None:
        """Waits for backward to come from what the model gives.

        It begins with the parameters' hooks at the latest. But these may be called by a backward
        pass within the one that counts, as of a checkpoint, at whose end there is more to come.
        """
        tensors = [output] if isinstance(output, Tensor) else _pytree.tree_leaves(output)
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor.grad_fn is not None:
                tensor.register_hook(self._hear)

    def lay(self) -> None:
        """Lays tensors over the buckets, which are new."""
        places = self._reducer.places()
        self._generation = places.generation
        found = _views(places, self._parameters)
        # The hooks have the list.
        self._views[:] = found

    def forget(self) -> None:
        """Gradients are gone: those of a group that has failed mean nothing."""
        for parameter in self._parameters:
            parameter.grad = None

    def _hook(self, index: int) -> Callable[[Tensor], None]:
        """What is done when a parameter's gradient is complete; it is short, as there are many."""
        views, has_come, ready = self._views, self._has_come, self._reducer.ready

        def came(parameter: Tensor) -> None:
            if not self._has_begun and not self._begin():
                return
            gradient, view = parameter.grad, views[index]
            if gradient is not view:
                _put(gradient, view)
                parameter.grad = view
            has_come[index] = 1
            ready(index)

        return came

    def _sparse_hook(self, index: int) -> Callable[[Tensor], None]:
        """The same for a gradient of which only some rows are there."""

        def came(parameter: Tensor) -> None:  # noqa: ARG001
            if self._has_begun or self._begin():
                self._has_come[index] = 1
                self._bring_rows(index)

        return came

    def _begin(self) -> bool:
        """Begins with a pass when the first gradient comes, unless it is not to be averaged."""
        if not self.is_averaged:
            return False
        if self._reducer.begin() != self._generation:
            self.lay()
        self._has_begun = True
        self._has_come[:] = bytes(len(self._has_come))
        self._await_end()
        return True

    def _hear(self, gradient: Tensor) -> None:  # noqa: ARG002
        """Backward has come to what the model has given, perhaps a second time."""
        self.is_averaged = True
        self._await_end()

    def _await_end(self) -> None:
        """Has autograd tell when the pass ends that it is in."""
        if not self._is_awaited:
            self._is_awaited = True
            Variable._execution_engine.queue_callback(_End(self))  # type: ignore[attr-defined]

    def _end(self) -> None:
        """Backward has ended: waits for the averages."""
        self._is_awaited = False
        if not self._has_begun:
            # It has not come to any parameter, as when somebody asks for the gradient of an input.
            return
        self.is_averaged = False
        missing = [index for index, has_come in enumerate(self._has_come) if not has_come]
        if self._brings_missing and missing:
            self._bring(missing)
        self._has_begun = False
        unused, by_rows = self._reducer.finish()
        for index in set(missing).difference(unused):
            # It has a gradient on some other rank.
            self._parameters[index].grad = self._views[index]
        for index, rows, values in by_rows:
            self._parameters[index].grad = _of_rows(self._parameters[index], rows, values)

    def _bring(self, missing: list[int]) -> None:
        """Gradients that were there before this pass and have not come in it count as they are."""
        for index in missing:
            parameter, view = self._parameters[index], self._views[index]
            if parameter.grad is None:
                continue
            if view is None:
                self._bring_rows(index)
                continue
            if parameter.grad is not view:
                _put(parameter.grad, view)
                parameter.grad = view
            self._reducer.ready(index)

    def _bring_rows(self, index: int) -> None:
        gradient = self._parameters[index].grad
        assert gradient is not None
        if gradient.layout != torch.sparse_coo:
            raise RuntimeError(
                f"DistributedDataParallel of consort: the gradient of parameter {index} was to be "
                "sparse, as its embedding says, and is not: its weight is used by others, so say "
                "sparse=False"
            )
        gradient = gradient.detach().coalesce()
        rows, values = gradient.indices().contiguous(), gradient.values().contiguous()
        self._reducer.ready_rows(index, region(rows), region(values))

    def _fail(self) -> None:
        """Backward did not come to its end."""
        self._is_awaited = self._has_begun = self.is_averaged = False
        self._reducer.fail("backward ended with an exception on this rank")


class _End:
    """Is called when backward ends, and dropped without that if there was an exception."""

    __slots__ = ("_gradients",)

    def __init__(self, gradients: Gradients) -> None:
        self._gradients: Gradients | None = gradients

    def __call__(self) -> None:
        gradients, self._gradients = self._gradients, None
        assert gradients is not None
        try:
            gradients._end()
        except BaseException:
            gradients._fail()
            raise

    def __del__(self) -> None:
        if self._gradients is not None:
            self._gradients._fail()


def _of_rows(parameter: Tensor, rows: bytes, values: bytes) -> Tensor:
    """A gradient of which only some rows are there."""
    shape = parameter.shape
    if not rows:
        return torch.sparse_coo_tensor(size=shape, dtype=parameter.dtype)
    numbers = torch.frombuffer(bytearray(rows), dtype=torch.int64).unsqueeze(0)
    found = torch.frombuffer(bytearray(values), dtype=parameter.dtype).view(-1, *shape[1:])
    return torch.sparse_coo_tensor(numbers, found, shape, is_coalesced=True)


def _put(gradient: Any, view: Any) -> None:
    """Copies a gradient to where it travels; what it was computed of stays behind."""
    view.copy_(gradient.detach() if gradient.requires_grad else gradient)


def _views(places: _core.Places, parameters: Sequence[Tensor]) -> list[Tensor | None]:
    """A tensor over each gradient's place, with the layout of its parameter; none if it has none.

    They are no views in the sense of autograd, so that everything can be done to them that can be
    done to a gradient. Each keeps the memory of all.
    """
    found = places.all()
    spans: dict[int, tuple[int, int]] = {}
    for place, parameter in zip(found, parameters, strict=True):
        if place is not None:
            bucket, start = place
            end = start + parameter.nbytes
            first, last = spans.get(bucket, (start, end))
            spans[bucket] = min(first, start), max(last, end)
    storages = {bucket: _over(places, *span) for bucket, span in spans.items()}
    views: list[Tensor | None] = []
    for place, parameter in zip(found, parameters, strict=True):
        if place is None:
            views.append(None)
            continue
        bucket, start = place
        offset = (start - spans[bucket][0]) // parameter.element_size()
        view: Any = torch.empty(0, dtype=parameter.dtype)
        view.set_(storages[bucket], offset, parameter.shape, strides(parameter))
        views.append(view)
    return views


def strides(parameter: Tensor) -> tuple[int, ...]:
    """How the gradient of a parameter lies in memory: as the parameter, if that has no gaps."""
    return torch.empty_like(parameter, device="meta").stride()


def _over(places: _core.Places, start: int, end: int) -> torch.UntypedStorage:
    """Memory as PyTorch knows it, which keeps what it lies in."""
    if start == end:
        return torch.UntypedStorage(0)
    window = (ctypes.c_ubyte * (end - start)).from_address(start)
    window.keeps = places  # type: ignore[attr-defined]
    return torch.frombuffer(window, dtype=torch.uint8).untyped_storage()
