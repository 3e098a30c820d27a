"""The store of a consort job, as PyTorch wants it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed as dist

from consort import _core, errors
from consort.torch.errors import StoreDeadline, StoreTrouble


class Store(dist.Store):
    """A table of keys and bytes that all ranks of a job share, kept by consort.

    It is had from a group: PyTorch's own store may be gone with the rank that kept it.

        store = consort.torch.Store(dist.group.WORLD.core.store())
        store.set("learning rate", "0.1")
    """

    def __init__(self, store: _core.Store, timeout: timedelta = timedelta(minutes=30)) -> None:
        super().__init__()
        self._store = store
        self._seconds = timeout.total_seconds()

    @property
    def timeout(self) -> timedelta:
        """How long reads wait for a key to appear."""
        return timedelta(seconds=self._seconds)

    def set_timeout(self, timeout: timedelta) -> None:
        """Has reads wait so long for a key to appear."""
        self._seconds = timeout.total_seconds()

    def set(self, key: str, value: str | bytes) -> None:
        """Creates or replaces a value."""
        with _as_torch():
            self._store.set(key, _bytes(value))

    def get(self, key: str) -> bytes:
        """Reads a value, and waits for it to appear."""
        with _as_torch():
            return bytes(self._store.get(key, self._seconds))

    def add(self, key: str, value: int) -> int:
        """Adds to a number, and gives the sum."""
        with _as_torch():
            return self._store.add(key, value)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Replaces a value that is as expected; nothing is expected of a key that is to be new."""
        expected, desired = _bytes(expected), _bytes(desired)
        with _as_torch():
            found = self._store.compare_set(key, expected or None, desired)
        return expected if found is None else bytes(found)

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys exist."""
        with _as_torch():
            self._store.wait(keys, self._seconds if timeout is None else timeout.total_seconds())

    def check(self, keys: list[str]) -> bool:
        """Whether all keys exist."""
        with _as_torch():
            return self._store.check(keys)

    def delete_key(self, key: str) -> bool:
        """Removes a key, and says whether it was there."""
        with _as_torch():
            return self._store.delete(key)

    def num_keys(self) -> int:
        """How many keys there are."""
        with _as_torch():
            return self._store.num_keys()

    def append(self, key: str, value: str | bytes) -> None:
        """Adds bytes to the end of a value."""
        with _as_torch():
            self._store.append(key, _bytes(value))

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Reads several values, and waits for all of them."""
        self.wait(keys)
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """Creates or replaces several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def clone(self) -> Store:
        """Another handle on the same table, which other backends ask for."""
        copy = Store(self._store, self.timeout)
        # PyTorch keeps no more than its own half of it.
        _clones.append(copy)
        return copy

    def has_extended_api(self) -> bool:
        """Whether there are `append`, `multi_get` and `multi_set`."""
        return True

    # The names by which PyTorch's compiled part asks.
    deleteKey = delete_key
    getNumKeys = num_keys
    setTimeout = set_timeout


@contextmanager
def _as_torch() -> Iterator[None]:
    """Errors of the store are what PyTorch's stores raise."""
    try:
        yield
    except errors.Mistake:
        raise
    except errors.Deadline as error:
        raise StoreDeadline(str(error)) from None
    except errors.Error as error:
        raise StoreTrouble(str(error)) from None


_clones: list[Store] = []


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
