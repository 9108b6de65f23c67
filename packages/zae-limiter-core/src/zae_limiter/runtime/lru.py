"""A bounded mapping: the entry that was not used for longest goes first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from threading import Lock
from typing import Generic, TypeVar

from . import forks

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(Generic[K, V]):
    """A mapping of at most ``size`` entries; the one that was not used for longest goes first. Threads may share it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()
        forks.register(self)

    def forget(self) -> None:
        """Take a new lock after a fork: the parent's may never be released in the child."""
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return the value, and mark it as used last; ``None`` if there is none."""
        value = self._entries.get(key)
        if value is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:  # another thread has just removed it; the value is as good
                return value
        return value

    def put(self, key: K, value: V) -> V:
        """Store the value, and return it."""
        with self._lock:
            return self._remember(key, value)

    def put_all(self, values: Mapping[K, V]) -> None:
        """Store several values."""
        with self._lock:
            for key, value in values.items():
                self._remember(key, value)

    def setdefault(self, key: K, value: V) -> V:
        """Return the value of the key; store and return this one if there is none."""
        with self._lock:
            found = self._entries.get(key)
            return self._remember(key, value) if found is None else found

    def _remember(self, key: K, value: V) -> V:
        entries = self._entries
        if key in entries:
            entries[key] = value
            entries.move_to_end(key)
            return value
        entries[key] = value
        if len(entries) > self._size:
            entries.popitem(last=False)
        return value

    def discard(self, key: K) -> None:
        """Remove the value, if there is one."""
        with self._lock:
            self._entries.pop(key, None)

    def pop(self, key: K) -> V | None:
        """Remove the value and return it; return ``None`` if there is none."""
        with self._lock:
            return self._entries.pop(key, None)

    def pop_oldest(self, holds: Callable[[V], bool]) -> list[V]:
        """Remove and return the values that were not used for longest, up to the first one that does not fulfil the
        condition.
        """
        popped: list[V] = []
        with self._lock:
            while self._entries and holds(next(iter(self._entries.values()))):
                popped.append(self._entries.popitem(last=False)[1])
        return popped

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._entries.clear()

    def __iter__(self) -> Iterator[V]:
        """Go through the values, which are as they are at once."""
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)
