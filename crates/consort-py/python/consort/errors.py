"""What can go wrong when processes work together, sorted by what can be done about it.

Every exception of consort is an :class:`Error`, which is a ``RuntimeError``. Once ``consort.torch``
is in use they are PyTorch's as well: all but :class:`Mistake` are
``torch.distributed.DistBackendError``.

    >>> import consort
    >>> issubclass(consort.PeerGone, consort.Error)
    True
"""

from __future__ import annotations


class Error(RuntimeError):
    """A call that failed.

    ``ranks`` are those that the error is about, as the group counts them: the ranks that are gone,
    that did not come, that made different calls, or that have ended the group.
    """

    ranks: tuple[int, ...] = ()


class Mistake(Error, ValueError):
    """The call or the configuration is wrong. Nothing was moved, and the group goes on."""


class Mismatch(Error):
    """Ranks do not do the same, though each by itself makes sense."""


class PeerGone(Error):
    """A rank that this one depends on has died, or cannot be reached."""


class Deadline(Error, TimeoutError):
    """Ranks that are alive did not come in time."""


class Aborted(Error):
    """A rank has ended the group on purpose, or goes on without this one."""


class SystemTrouble(Error):
    """The operating system refused something, or what came is damaged."""


def mistake(text: str) -> Mistake:
    """The exception for a call that makes no sense."""
    return Mistake(f"consort {text}")


def _make(kind: str, text: str, ranks: list[int]) -> Error:
    """The exception for an error of the compiled part."""
    for ours, theirs in _words.items():
        text = text.replace(ours, theirs)
    if kind == "Deadline":
        # The words that people look for in logs.
        text = f"consort: Timed out while waiting for other ranks: {text}"
    error = _kinds[kind](text)
    error.ranks = tuple(ranks)
    return error


# What an error advises to do, as it is called in Python.
_words = {
    "Builder::timeout or CONSORT_TIMEOUT": "a longer timeout",
    "Group::shrink": "consort.torch.shrink",
}
_kinds: dict[str, type[Error]] = {
    kind.__name__: kind for kind in (Mistake, Mismatch, PeerGone, Deadline, Aborted, SystemTrouble)
}
