"""What a process remembers, in bounded amounts.

Lives here: the LRU. Never: what is remembered (flows.scope), when it is asked for.
"""

from collections import OrderedDict
from collections.abc import Hashable
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
        """Take another lock in a child process: the parent's may be held there for ever."""
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """The value, which now is the one used last."""
        value = self._entries.get(key)
        if value is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:  # another thread has just pushed it out; it is as good as it was
                return value
        return value

    def put(self, key: K, value: V) -> V:
        """Remember the value; answers it."""
        with self._lock:
            return self._remember(key, value)

    def setdefault(self, key: K, value: V) -> V:
        """The value that is there already, else this one, which is then remembered."""
        with self._lock:
            found = self._entries.get(key)
            return self._remember(key, value) if found is None else found

    def _remember(self, key: K, value: V) -> V:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)
        return value

    def discard(self, key: K) -> None:
        """Forget the value, if it is there."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)
