"""What an engine is: a store that performs operations, and what else it can do."""

from typing import Protocol, TypeVar

from ..operations.values import Operation

R = TypeVar("R")


class Store(Protocol):
    """A store: it performs operations. This is the extension point for another backend.

    An attribute ``clock`` is the clock of repositories over the store, unless their options have one. An attribute
    ``meter`` counts its units for observers. A store with
    ``answers_at_once = True`` never waits: its operations have no deadline. One with ``ends_in_time = True`` keeps a
    deadline itself: the driver sets none. ``connect()``, if there is one, is awaited
    before each operation, outside its deadline.
    """

    async def perform(self, operation: Operation[R]) -> R:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""

    async def close(self) -> None:
        """Release what is open; no operation may follow."""


class SyncStore(Protocol):
    """A store: it performs operations. This is the extension point for another backend.

    An attribute ``clock`` is the clock of repositories over the store, unless their options have one. An attribute
    ``meter`` counts its units for observers. A store with ``answers_at_once = True`` never waits: its operations have
    no deadline. ``connect()``, if there is one, is called before each operation: only the deadline of the whole call
    holds for it. A store that waits has to end an operation with ``OutcomeUnknown`` when
    ``zae_limiter.stores.time_left`` is over: nothing else can end it.
    """

    def perform(self, operation: Operation[R]) -> R:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""

    def close(self) -> None:
        """Release what is open; no operation may follow."""
