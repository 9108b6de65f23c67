"""What an engine is: stores that perform operations, one for each variant, and what else they can do.

Subclass ``Store`` or ``SyncStore`` to write one; ``zae_limiter.stores`` exports all that it needs.
"""

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

from ..clock.system import Clock
from ..operations.values import Operation
from ..runtime.dataclass import dataclass
from .meter import Meter

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store can do besides performing operations. The defaults promise nothing.

    ``clock``: the clock of repositories over the store, unless their options have one; ``None`` for the system's.
    ``meter``: what counts the units of the store's requests, for observers; ``None`` counts nothing. ``deadlines``:
    which part ends an operation in time: the ``"driver"``, which first calls ``connect`` without a deadline, or the
    ``"engine"`` itself; ``"unneeded"`` if an operation never waits. ``hot_items``: whether one item takes only so many
    writes a second, so that a bucket with more is split. ``expiry``: whether items go by themselves after their
    ``ttl``. ``plain_indexes``: whether no key of an index is ever hot, so that no row has a suffix, and lists ask for
    one partition. ``lossy``: whether the answer to a write may get lost on its way: then writes to buckets carry
    tokens, by which a repeat is provable. ``prefetch_from``: the acquires that prefetched tokens have to serve within
    their time to be worth a write: more where a write is cheap. ``usage``: whether the store counts the usage of
    buckets itself; otherwise only an aggregator of its changes does.
    """

    clock: Clock | None = None
    meter: Meter | None = None
    deadlines: Literal["driver", "engine", "unneeded"] = "driver"
    hot_items: bool = False
    expiry: bool = False
    plain_indexes: bool = False
    lossy: bool = False
    prefetch_from: int = 3
    usage: bool = False


class Store(Protocol):
    """An async store. This is the extension point for another engine."""

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do besides; asked when a repository is opened."""
        return Capabilities()

    async def connect(self) -> None:
        """Open what an operation needs, if it is not open: before each operation whose deadline the driver sets."""
        return

    async def perform(self, operation: Operation[R]) -> R:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""

    def start(self, operation: Operation[R], done: Callable[[R | None, Exception | None], None]) -> bool:  # noqa: ARG002
        """Send an operation at once, and return ``True``; ``False`` if it has to wait for something, or always.

        Later, ``done`` is called on the event loop, once, with the answer or with a ``StoreError``; this method raises
        none. No task waits for it, which saves three turns of the loop. A store whose deadlines are the driver's is not
        asked.
        """
        return False

    async def caller(self) -> str | None:
        """Return the caller's identity at the store: the default author of changes. Asked by changes alone."""
        return None

    async def close(self) -> None:
        """Release what is open; no operation may follow."""


class SyncStore(Protocol):
    """A blocking store, which threads share. This is the extension point for another engine.

    One that waits has to end an operation with ``OutcomeUnknown`` when ``zae_limiter.stores.time_left`` is over:
    nothing else can end it.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do besides; asked when a repository is opened."""
        return Capabilities()

    def connect(self) -> None:
        """Open what an operation needs, if it is not open: before each operation whose deadline the driver sets."""
        return

    def perform(self, operation: Operation[R]) -> R:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""

    def caller(self) -> str | None:
        """Return the caller's identity at the store: the default author of changes. Asked by changes alone."""
        return None

    def close(self) -> None:
        """Release what is open; no operation may follow."""
