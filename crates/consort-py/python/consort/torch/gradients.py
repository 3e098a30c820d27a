"""Gradients that lie in buckets, and are averaged while backward computes others.

Every parameter has a hook that autograd calls when its gradient is complete. Then the gradient is
put where it travels, unless autograd has added to it there, and the reducer (in the compiled part)
is told of it, which sends a bucket when all of it has come. When backward ends, the averages are
where the gradients were.

Who may touch the memory when: from when the reducer is told until backward ends a gradient is the
reducer's. Nothing here reads or writes it meanwhile, and autograd has no reason to: it has added up
all there was to add. (A gradient that comes in several parts is the exception: then the graph has
to be declared static, and the reducer takes the place with the last part.)

Parameters, and what a model has given, may outlive the wrapper and get another one. So their hooks
do not keep :class:`Gradients`, and those of parameters are gone with it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Variable
from torch.utils import _pytree

from consort import _core
from consort.torch.tensors import over, region


class Gradients:
    """The gradients of some parameters, and what a backward pass does with them.

    A model may have hundreds of small parameters, and a function of Python for each gradient would
    take longer than averaging it. So most hooks only put their parameter on a list, which is done
    without Python; the hooks of those that come last in their buckets, and of the large ones, then
    see to all on the list together.
    """

    def __init__(
        self, reducer: _core.Reducer, parameters: Sequence[Tensor], brings_missing: bool
    ) -> None:
        self._reducer = reducer
        self._parameters = parameters
        self._numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
        # Whether a gradient that has been there before counts though backward did not reach it.
        self._brings_missing = brings_missing
        # Where each gradient lies, or none if it is sparse.
        self._views: list[Tensor | None] = []
        self._generation = -1
        # Parameters whose gradient is complete and not yet seen to.
        self._pending: list[Tensor] = []
        self._has_come = bytearray(len(parameters))
        self._passes = 0
        self._has_begun = False
        self._is_awaited = False
        self._is_heard = False
        self._is_averaged = False
        self.lay()
        # What autograd calls.
        self._to_see_to = _weakly(self._came)
        self._to_hear = _weakly(self._hear, _refuse_without_model)
        self._to_hear_of_others = _weakly(self._hear_of_others)
        # Whose hooks see to gradients at once, and what ends them: all, before anything is known.
        self._watched: dict[int, Any] = {}
        self._listed: dict[int, Any] = {}
        self._seen_to: set[int] = set()
        ends = weakref.finalize(self, _unhook, self._watched, self._listed, self._pending)
        ends.atexit = False
        with _lock:
            _alive.add(self)
        self._watch(set(range(len(parameters))))

    def expect(self, is_averaged: bool) -> None:
        """A forward pass begins, whose backward is to be averaged or only to add to gradients."""
        if self._pending and self._is_averaged:
            self._pending.clear()
            raise RuntimeError(
                "DistributedDataParallel of consort: gradients of the last backward pass were not "
                "averaged, as it did not come from what the model had given: compute every loss "
                "from that, or none"
            )
        self._is_averaged = is_averaged
        self._pending.clear()

    def listen(self, output: Any, is_averaged: bool) -> None:
        """Waits for backward to come from what the model gives.

        It begins with the parameters' hooks at the latest. But these may be called by a backward
        pass within the one that counts, as of a checkpoint, at whose end there is more to come.
        """
        tensors = [output] if isinstance(output, Tensor) else _pytree.tree_leaves(output)
        for tensor in tensors:
            if isinstance(tensor, Tensor) and tensor.grad_fn is not None:
                tensor.register_hook(self._to_hear if is_averaged else self._to_hear_of_others)

    def lay(self) -> None:
        """Lays tensors over the buckets, which are new."""
        places = self._reducer.places()
        self._generation = places.generation
        self._views = _views(places, self._parameters)

    def forget(self) -> None:
        """Gradients are gone: those of a group that has failed mean nothing."""
        for parameter in self._parameters:
            parameter.grad = None

    def _watch(self, watched: set[int]) -> None:
        """Has these parameters' hooks see to gradients at once, and all others put on the list.

        It is not done while backward runs, which may be going through the very hooks.
        """
        if watched == self._seen_to:
            return
        self._seen_to = watched
        for number, parameter in enumerate(self._parameters):
            mine, other = self._watched, self._listed
            hook: Any = self._to_see_to
            register = parameter.register_post_accumulate_grad_hook
            if number not in watched and self._views[number] is not None:
                mine, other, hook = other, mine, self._pending.append
            if number not in mine:
                mine[number] = register(hook)
            if number in other:
                other.pop(number).remove()

    def _last_or_large(self) -> set[int]:
        """The parameters that complete a bucket, as far as is known, and those that are large."""
        last = {bucket[-1] for bucket in self._reducer.buckets()}
        sizes = ((number, parameter.nbytes) for number, parameter in enumerate(self._parameters))
        return last | {number for number, size in sizes if size >= _LARGE}

    def _came(self, parameter: Tensor) -> None:
        """A gradient is complete: sees to all that are on the list."""
        self._pending.append(parameter)
        if self._has_begun or self._begin():
            self._see_to_pending()
        else:
            self._pending.clear()

    def _see_to_pending(self) -> None:
        """Puts the gradients on the list where they travel, and tells the reducer of them."""
        numbers: list[int] = []
        sources: list[Any] = []
        places: list[Tensor] = []
        for parameter in self._pending:
            number = self._numbers[id(parameter)]
            view, gradient = self._views[number], parameter.grad
            self._has_come[number] = 1
            if view is None:
                self._bring_rows(number)
                continue
            numbers.append(number)
            if gradient is not view:
                sources.append(gradient)
                places.append(view)
                parameter.grad = view
        self._pending.clear()
        if sources:
            # What a gradient was computed of, if somebody wants to know, stays behind.
            with torch.no_grad():
                torch._foreach_copy_(places, sources)
        self._reducer.all_ready(numbers)

    def _begin(self) -> bool:
        """Begins with a pass when the first gradient comes, unless it is not to be averaged."""
        if not self._is_averaged:
            return False
        self._await_end()
        if self._reducer.begin() != self._generation:
            self.lay()
        self._has_begun = True
        self._has_come[:] = bytes(len(self._has_come))
        return True

    def _hear(self, gradient: Tensor) -> None:
        """Backward has come to what the model has given, perhaps a second time."""
        self._is_averaged = self._is_heard = True
        self._await_end()

    def _hear_of_others(self, gradient: Tensor) -> None:
        """Backward of a pass that is not averaged has come to what the model has given."""
        Variable._execution_engine.queue_callback(self._pending.clear)

    def _await_end(self) -> None:
        """Has autograd tell when the pass ends that it is in."""
        if not self._is_awaited:
            self._refuse_to_share()
            self._is_awaited = True
            Variable._execution_engine.queue_callback(_End(self))

    def _refuse_to_share(self) -> None:
        """Each gradient lies in one place: no two may average the same ones at the same time."""
        with _lock:
            busy = [each for each in _alive if each._is_awaited]
        if any(not self._numbers.keys().isdisjoint(each._numbers) for each in busy):
            raise RuntimeError(
                "DistributedDataParallel of consort: this backward pass averages parameters that "
                "are also another DistributedDataParallel's, which expects gradients for them in "
                "the same pass: wrap what has both in one, or compute what is not learned from "
                "within torch.no_grad()"
            )

    def _end(self) -> None:
        """Backward has ended: waits for the averages."""
        if self._pending and not self._has_begun:
            self._begin()
        self._is_awaited = False
        if not self._has_begun:
            # It has not come to any parameter, as when somebody asks for the gradient of an input.
            return
        self._see_to_pending()
        self._is_averaged = False
        missing = [number for number, has_come in enumerate(self._has_come) if not has_come]
        if self._brings_missing and missing:
            self._bring(missing)
        self._has_begun = False
        unused, by_rows = self._reducer.finish()
        for number in set(missing).difference(unused):
            # It has a gradient on some other rank.
            self._parameters[number].grad = self._views[number]
        for number, rows, values in by_rows:
            self._parameters[number].grad = _of_rows(self._parameters[number], rows, values)
        # In the first passes it is looked at when each gradient comes. And if backward does not
        # come from what the model gives, any parameter may be the first.
        self._passes += 1
        may_be_listed = self._is_heard and self._passes > _LOOKED_AT
        self._is_heard = False
        every = set(range(len(self._parameters)))
        self._watch(self._last_or_large() if may_be_listed else every)

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
                view.copy_(parameter.grad.detach())
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
        """Backward did not come to its end. If gradients had come, the other ranks are told."""
        try:
            if self._pending and (self._has_begun or self._begin()):
                self._see_to_pending()
        except Exception:
            # There is an exception already, and whoever waits has heard of this one.
            pass
        self._is_awaited = self._has_begun = self._is_averaged = self._is_heard = False
        self._pending.clear()
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


def _weakly(
    method: Callable[[Tensor], None], without: Callable[[], None] | None = None
) -> Callable[[Tensor], None]:
    """Calls a method as long as there is its object, which it does not keep."""
    held = weakref.WeakMethod(method)

    def hook(tensor: Tensor) -> None:
        found = held()
        if found is not None:
            found(tensor)
        elif without is not None:
            without()

    return hook


def _refuse_without_model() -> None:
    raise RuntimeError(
        "DistributedDataParallel of consort: backward comes from what a model has given that is "
        "gone, so that gradients would not be averaged: keep the DistributedDataParallel until "
        "backward has ended"
    )


def _unhook(watched: dict[int, Any], listed: dict[int, Any], pending: list[Tensor]) -> None:
    """Frees the parameters of all hooks."""
    for handles in (watched, listed):
        for handle in handles.values():
            handle.remove()
    pending.clear()


def _of_rows(parameter: Tensor, rows: bytes, values: bytes) -> Tensor:
    """A gradient of which only some rows are there."""
    shape = parameter.shape
    if not rows:
        none = torch.empty(1, 0, dtype=torch.int64, device="cpu")
        nothing = parameter.new_empty(0, *shape[1:])
        return torch.sparse_coo_tensor(none, nothing, shape, device="cpu")
    numbers = torch.frombuffer(bytearray(rows), dtype=torch.int64).unsqueeze(0)
    found = torch.frombuffer(bytearray(values), dtype=parameter.dtype).view(-1, *shape[1:])
    return torch.sparse_coo_tensor(numbers, found, shape, device="cpu", is_coalesced=True)


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
    storages = {bucket: _storage(places, *span) for bucket, span in spans.items()}
    views: list[Tensor | None] = []
    for place, parameter in zip(found, parameters, strict=True):
        if place is None:
            views.append(None)
            continue
        bucket, start = place
        offset = (start - spans[bucket][0]) // parameter.element_size()
        view: Any = torch.empty(0, dtype=parameter.dtype, device="cpu")
        view.set_(storages[bucket], offset, parameter.shape, strides(parameter))
        views.append(view)
    return views


def strides(parameter: Tensor) -> tuple[int, ...]:
    """How the gradient of a parameter lies in memory: as the parameter, if that has no gaps."""
    return torch.empty_like(parameter, device="meta").stride()


def _storage(places: _core.Places, start: int, end: int) -> torch.UntypedStorage:
    """Memory as PyTorch knows it, which keeps what it lies in."""
    if start == end:
        return torch.UntypedStorage(0, device="cpu")
    return over(start, end - start, places).untyped_storage()


# All that there are, and who may look at them.
_alive: weakref.WeakSet[Gradients] = weakref.WeakSet()
_lock = Lock()
# In so many passes it is looked at when each gradient comes: then sizes of buckets are found.
_LOOKED_AT = 6
# A gradient of so many bytes is copied at once, while it is in the caches.
_LARGE = 1 << 16
