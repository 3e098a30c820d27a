"""What a program is: a function that every rank of a crew runs, and how it wants to be run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Rank:
    """Who a program is at the moment: its rank, the world's size, the backend, a common folder."""

    rank: int
    world: int
    backend: str
    folder: Path

    @property
    def next(self) -> int:
        """The rank after this one, in a circle."""
        return (self.rank + 1) % self.world

    @property
    def previous(self) -> int:
        """The rank before this one, in a circle."""
        return (self.rank - 1) % self.world


@dataclass(frozen=True)
class Program:
    """A function of a module, perhaps with one of its cases, that a crew of ranks can run."""

    module: str
    function: str
    case: str | None
    wish: Wish

    @property
    def name(self) -> str:
        """The name that tests are called by, unique in the module."""
        return self.function if self.case is None else f"{self.function}-{self.case}"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Wish:
    """How a program wants to be run.

    `meet` says whether the harness forms the default group; without it the program does.
    `alone` gives it processes of its own, because it ends some of them or changes them for good.
    `exact` says that its result must have the same bits as Gloo's.
    `seconds` is after how long it counts as hung, `timeout` the group's time-out.
    """

    world: int
    meet: bool
    alone: bool
    exact: bool
    seconds: float
    timeout: float


def program(
    world: int = 2,
    *,
    cases: Sequence[str] | None = None,
    meet: bool = True,
    alone: bool = False,
    exact: bool = True,
    seconds: float = 60,
    timeout: float = 40,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Marks a function as a program. With `cases` it is called as `function(me, case)` for each."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        wish = Wish(world, meet, alone, exact, seconds, timeout)
        function.programs = [  # type: ignore[attr-defined]
            Program(function.__module__, function.__name__, case, wish)
            for case in (cases if cases is not None else [None])
        ]
        return function

    return mark


def programs_in(module: ModuleType) -> list[Program]:
    """All programs of a module, in the order in which they are written."""
    return [each for thing in vars(module).values() for each in getattr(thing, "programs", [])]
