"""The leases of one request, in both variants: entered one after the other, ended together with the answer.

Work that is done must count, whatever its client does afterwards: it leaves, sends what makes the application raise, or
breaks the connection. So a request keeps its tokens once the application begins (``refund="never"``). Two things give
back: a *door*, which is a further limit that turns the request away before the application begins, and the option
``refund="before_answer"``, for applications whose failures cost nothing. docs/decisions/refund.md says why.

A request holds its slots while its answer is sent, and a client may read slowly, or never. So slots have an end here:
``MAX_HOLD``, unless the application names another, and while a part of an answer is on its way, the ``expires`` of the
limit. Then they are free for others, and the answer is cut off, because it would run beside the next one.

``OpenCalls`` has the leases of calls that begin and end in different hooks.
"""

import logging
from collections.abc import Hashable, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar
from weakref import finalize, ref

from ..aio.lease import Lease
from ..exceptions import InfrastructureError
from ..flows.acquire.requests import EachCallOptions
from ..runtime.elapsed import elapsed
from ..runtime.lru import LRU
from ..sync.lease import SyncLease

L = TypeVar("L", Lease, SyncLease)
T = TypeVar("T")
Refund: TypeAlias = Literal["never", "before_answer"]
REFUNDS: Final = ("never", "before_answer")
MAX_HOLD: Final = 600.0
"""The seconds that a request holds a slot, unless the option ``max_hold`` says otherwise."""
UNWRITTEN: Final = "corrections of a request's lease were not written; its answer goes out nonetheless"
log = logging.getLogger(__name__)


class SlotEnded(OSError):
    """The slots of a request are free for others: ``max_hold`` is over, or its client has not read in time.

    An ``OSError``, as servers raise for a client that is gone: frameworks end the answer.
    """


def with_end(options: EachCallOptions) -> EachCallOptions:
    """Return the options of a request: those of the application, and an end of its slots."""
    return {"max_hold": MAX_HOLD, **options}


class _Entered(Generic[L]):
    """``turned_away``: whether a door refused the request, so that the application has not begun."""

    _stack: Any  # an exit stack of its variant

    def __init__(self) -> None:
        self._entered: list[tuple[L, Refund]] = []
        self.turned_away = False
        self.since = elapsed()

    @property
    def last(self) -> L | None:
        """The lease whose fields the answer has."""
        return self._entered[-1][0] if self._entered else None

    def keep(self) -> None:
        """Keep the tokens, whatever happens from now on."""
        for lease, _ in self._entered:
            lease.keep()

    @property
    def hold_slots(self) -> bool:
        """Whether a lease took slots."""
        return any(lease._took_slots for lease, _ in self._entered)

    @property
    def lost_slots(self) -> tuple[str, ...]:
        """The limits of which the leases have lost slots."""
        return tuple(name for lease, _ in self._entered for name in lease.lost_slots)

    def stall(self) -> float | None:
        """Let slots end once they have expired, unless ``go_on`` comes before: a part of the answer is on its way.
        Return the seconds until the first of them ends; ``None`` without slots.
        """
        seconds = [each for lease, _ in self._entered if (each := lease._stall()) is not None]
        return min(seconds, default=None)

    def go_on(self) -> None:
        """Let slots last again: the client has read. Raises ``SlotEnded`` if it was too late."""
        if lost := self.lost_slots:
            raise SlotEnded(f"slots of {', '.join(lost)} are free for others: the answer ends")
        self.resume()

    def resume(self) -> None:
        """Let slots last again that have not ended."""
        for lease, _ in self._entered:
            lease._resume()

    def end_with(self, sign: object) -> None:
        """Drop the leases without an end once the ``sign`` is garbage: no end will be reported.

        What they took stays taken; slots come back when they expire. It runs wherever Python collects the sign, so it
        makes no request and takes no lock.
        """
        finalize(sign, _forget, ref(self)).atexit = False

    def _close(self) -> None:
        """Keep what the application has settled, and what ``refund`` does not return once it has begun."""
        for lease, refund in self._entered:
            if lease.corrected or (refund == "never" and not self.turned_away):
                lease.keep()
        self._entered.clear()


class Leases(_Entered[Lease]):
    """The leases of a request on an event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = AsyncExitStack()

    async def enter(self, lease: Lease, refund: Refund) -> Lease:
        """Take its tokens. Raises the errors of ``acquire``."""
        try:
            self._entered.append((await self._stack.enter_async_context(lease), refund))
        except BaseException:
            self.turned_away = True
            raise
        return lease

    async def free_slots(self) -> None:
        """Free the slots, also those of draws, and keep the rest open. What cannot be written is logged."""
        for lease, _ in self._entered:
            slots = {(status.draw, status.limit_name) for status in lease.statuses if status.limit._has_slots}
            for number, each in enumerate((lease, *lease.draws)):
                taken = {name: amount for name, amount in each.consumed.items() if amount and (number, name) in slots}
                try:
                    if taken:
                        await each.release(**taken)
                except InfrastructureError as problem:
                    _log_unwritten(lease, problem)

    async def end(self, error: BaseException | None = None) -> None:
        """End them all, once: an error gives back what is refunded. What cannot be written is logged."""
        last = self.last
        self._close()
        try:
            await self._stack.__aexit__(type(error) if error else None, error, None)
        except InfrastructureError as problem:
            _log_unwritten(last, problem)


class SyncLeases(_Entered[SyncLease]):
    """The leases of a request on a thread."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()

    def enter(self, lease: SyncLease, refund: Refund) -> SyncLease:
        """Take its tokens. Raises the errors of ``acquire``."""
        try:
            self._entered.append((self._stack.enter_context(lease), refund))
        except BaseException:
            self.turned_away = True
            raise
        return lease

    def end(self, error: BaseException | None = None) -> None:
        """End them all, once: an error gives back what is refunded. What cannot be written is logged."""
        last = self.last
        self._close()
        try:
            self._stack.__exit__(type(error) if error else None, error, None)
        except InfrastructureError as problem:
            _log_unwritten(last, problem)


class Paced(Generic[T]):
    """The parts of an answer that a server sends one after the other. While it has one, slots end once they have
    expired.
    """

    def __init__(self, parts: Iterable[T], leases: SyncLeases) -> None:
        self._given, self._parts, self._leases = parts, iter(parts), leases

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        self._leases.go_on()
        part = next(self._parts)
        self._leases.stall()
        return part

    def close(self) -> None:
        """Close what makes the parts."""
        if (close := getattr(self._given, "close", None)) is not None:
            close()


def _log_unwritten(lease: Lease | SyncLease | None, problem: InfrastructureError) -> None:
    """Log what the end of a request did not write, without a traceback; at most one line a minute."""
    ending: str | None = ""
    if lease is not None:
        state = lease._namespace_state
        ending = state.said["unwritten"].ending(state.now())
    if ending is not None:
        log.warning("%s: %s: %s%s", UNWRITTEN, type(problem).__name__, problem, ending)


def _forget(dead_or_alive: "ref[_Entered[Any]]") -> None:
    if (leases := dead_or_alive()) is not None:
        leases._entered.clear()
        leases._stack = type(leases._stack)()


E = TypeVar("E", bound=_Entered[Any])
K = TypeVar("K", bound=Hashable)
MAX_OPEN: Final = 10_000
MAX_OPEN_SECONDS: Final = 3600.0


class OpenCalls(LRU[K, E]):
    """The leases of calls by their id, until they end.

    Some calls never report their end, so the oldest are forgotten: beyond ``MAX_OPEN`` calls, and after an hour. What
    they took stays taken; slots that they hold are renewed no more, and come back when they expire.
    """

    def __init__(self) -> None:
        super().__init__(MAX_OPEN)

    def put(self, key: K, value: E) -> E:
        """Remember the leases of a call, and forget those that are too old."""
        self.pop_old(value.since)
        return super().put(key, value)

    def pop_old(self, now: float) -> list[E]:
        """Remove the calls that are too old, and one more if there is no room, and return them."""
        return self.pop_oldest(lambda each: each.since < now - MAX_OPEN_SECONDS or len(self) >= MAX_OPEN)
