"""Callers: tasks and threads that acquire over and over, and write their answers to the ledger.

Lives here: one call in both variants, the answers that are wrong, and threads that go on until an event is set. Never:
how a process ends.
"""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from zae_limiter import (
    Lease,
    OnUnavailable,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    SyncLease,
    SyncRateLimiter,
)
from zae_limiter.exceptions import EventLoopError, RepositoryClosedError

from .ledger import Call
from .place import Place, ready
from .plans import Interrupted, Plan, Undone, both

Outcome = Literal["kept", "undone", "refused", "unavailable", "closed", "other loop", "wrong"]
ANSWER_SECONDS = 7.5  # the budget of a call is five; a machine may be busy; an operation more would be eight
PAUSE_SECONDS = 0.01  # after a refusal


INTERRUPTIONS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit, Interrupted)


def run_until_terminated(
    place: Place,
    in_tasks: Callable[[Place, threading.Event], Coroutine[Any, Any, None]],
    in_threads: Callable[[Place, threading.Event], None],
) -> None:
    """Run the program of the mode, async or sync, with an event that SIGTERM sets."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    if place.mode == "sync":
        in_threads(place, over)
    else:
        asyncio.run(in_tasks(place, over))


@contextmanager
def given_back_on_failure(call: Call) -> Iterator[None]:
    """The end of a block that fails gives back what the call holds."""
    try:
        yield
    except BaseException:
        call.unknown("gives back")
        raise


class _Callers:
    """The common part of both variants: the place, the ledger, and the meaning of an error."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.ledger = place.open_ledger()

    @property
    def served(self) -> frozenset[Outcome]:
        """The outcomes of a call that is served."""
        return frozenset(("kept", "refused") if self.place.healthy else ("kept", "refused", "unavailable"))

    def in_time(self, what: str, begun: float) -> float:
        """Whatever the store does, an answer comes within the budget of a call."""
        if (took := time.monotonic() - begun) > ANSWER_SECONDS and not self.place.more.get("stopped"):
            self.ledger.violation(f"{what} took {took:.3f} s")
        return time.monotonic()

    def outcome_of(self, call: Call, error: BaseException) -> Outcome:
        """The outcome of a call that raised; an interruption is raised on, an unexpected error is a violation."""
        if isinstance(error, (Undone, RateLimitExceeded)):
            (call.nothing if self.place.healthy else call.unknown)("undone")
            return "undone" if isinstance(error, Undone) else "refused"
        call.unknown(type(error).__name__)
        if isinstance(error, RepositoryClosedError):
            return "closed"
        if isinstance(error, EventLoopError):
            return "other loop"
        if isinstance(error, RateLimiterUnavailable) and not self.place.healthy:
            return "unavailable"
        if isinstance(error, INTERRUPTIONS):
            raise error
        self.ledger.violation(f"a caller got {error!r} because of {error.__cause__!r}")
        return "wrong"

    def lets_pass(self, call: Call, lease: Lease | SyncLease) -> bool:
        """Note that the block begins; whether its tokens are counted."""
        if lease.degraded:
            call.unknown("degraded")
        else:
            call.admitted()
        return not lease.degraded

    def got_more(self, call: Call, lease: Lease | SyncLease) -> None:
        """Note what was taken in the block; where that failed, ``allow`` goes on and says so."""
        if not lease.degraded:
            call.admitted()

    def over(self, call: Call, lease: Lease | SyncLease) -> Outcome:
        """Note that the block ended well; its last write may have failed, as ``allow`` allows."""
        if lease.degraded:
            call.unknown("degraded")
        else:
            call.kept()
        return "kept"


class Callers(_Callers):
    """Tasks that acquire."""

    def __init__(self, place: Place, limiter: RateLimiter) -> None:
        super().__init__(place)
        self.limiter = limiter

    async def take(self, entity_id: str, plan: Plan) -> Outcome:
        """One call."""
        call = self.ledger.call(entity_id, plan.amount)
        policy = OnUnavailable.ALLOW if plan.allows else OnUnavailable.BLOCK
        begun = time.monotonic()
        try:
            async with self.limiter.acquire(
                entity_id, self.place.resource, both(plan.amount), on_unavailable=policy
            ) as lease:
                begun = self.in_time("acquire", begun)
                counted = self.lets_pass(call, lease)
                with given_back_on_failure(call):
                    await self._use(call, plan, lease, counted=counted)
                begun = time.monotonic()
        except BaseException as error:  # noqa: BLE001 - outcome_of raises interruptions on
            self.in_time(f"{type(error).__name__} of an acquire", begun)
            return self.outcome_of(call, error)
        self.in_time("the end of a block", begun)
        return self.over(call, lease)

    async def one(self, entity_id: str) -> Outcome:
        """One plain call."""
        return await self.take(entity_id, Plan(1, 0, 0, 0, fails=False, allows=False))

    async def go_on(self, number: int) -> Outcome:
        """Call after call, until the limiter is closed or does not work in this loop."""
        chance = self.place.chance("caller", number)
        while True:
            outcome = await self.take(self.place.entity_id, Plan.drawn(chance, healthy=self.place.healthy))
            if outcome in {"closed", "other loop", "wrong"}:
                return outcome
            await asyncio.sleep(self.place.more.get("pause", 0 if outcome == "kept" else PAUSE_SECONDS))

    async def many(self, count: int, number: int = 0) -> None:
        """So many calls, one after the other."""
        chance = self.place.chance("many", number)
        for _ in range(count):
            await self.take(self.place.entity_id, Plan.drawn(chance, healthy=self.place.healthy))

    def start(self, count: int) -> list[asyncio.Task[Outcome]]:
        """Tasks that go on."""
        return [asyncio.create_task(self.go_on(number), name=f"caller {number}") for number in range(count)]

    async def still_served(self, within: float, *, why: str) -> None:
        """The bucket answers this process within the time."""
        begun = time.monotonic()
        try:
            outcome = await asyncio.wait_for(self.one(self.place.entity_id), within)
        except TimeoutError:
            self.ledger.violation(f"{why}: no answer within {within} s")
            return
        if outcome not in self.served:
            self.ledger.violation(f"{why}: {outcome} after {time.monotonic() - begun:.3f} s")

    async def _use(self, call: Call, plan: Plan, lease: Lease, *, counted: bool) -> None:
        await asyncio.sleep(plan.rest)
        if plan.more and counted:
            call.asks_more(plan.more)
            await lease.consume(**both(plan.more))
            self.got_more(call, lease)
        if plan.adjust and counted:
            await lease.adjust(all=plan.adjust, rate=plan.adjust)
        if plan.fails:
            raise Undone
        if plan.adjust and counted:
            call.ends_with(call.holds + plan.adjust)


class SyncCallers(_Callers):
    """Threads that acquire."""

    def __init__(self, place: Place, limiter: SyncRateLimiter) -> None:
        super().__init__(place)
        self.limiter = limiter

    def take(self, entity_id: str, plan: Plan) -> Outcome:
        """One call."""
        call = self.ledger.call(entity_id, plan.amount)
        policy = OnUnavailable.ALLOW if plan.allows else OnUnavailable.BLOCK
        begun = time.monotonic()
        try:
            with self.limiter.acquire(
                entity_id, self.place.resource, both(plan.amount), on_unavailable=policy
            ) as lease:
                begun = self.in_time("acquire", begun)
                counted = self.lets_pass(call, lease)
                with given_back_on_failure(call):
                    self._use(call, plan, lease, counted=counted)
                begun = time.monotonic()
        except BaseException as error:  # noqa: BLE001 - outcome_of raises interruptions on
            self.in_time(f"{type(error).__name__} of an acquire", begun)
            return self.outcome_of(call, error)
        self.in_time("the end of a block", begun)
        return self.over(call, lease)

    def one(self, entity_id: str) -> Outcome:
        """One plain call."""
        return self.take(entity_id, Plan(1, 0, 0, 0, fails=False, allows=False))

    def go_on(self, number: int, over: threading.Event | None = None) -> Outcome:
        """Call after call, until the event is set or the limiter is closed."""
        chance = self.place.chance("caller", number)
        while True:
            outcome = self.take(self.place.entity_id, Plan.drawn(chance, healthy=self.place.healthy))
            if outcome in {"closed", "wrong"} or (over is not None and over.is_set()):
                return outcome
            time.sleep(self.place.more.get("pause", 0 if outcome == "kept" else PAUSE_SECONDS))

    def call_until(self, over: threading.Event, count: int) -> None:
        """Call once, report that the process is ready, and go on in so many threads until the event is set."""
        self.one(self.place.entity_id)
        ready()
        threads = [threading.Thread(target=self.go_on, args=(number, over)) for number in range(count)]
        for thread in threads:
            thread.start()
        while not over.is_set():  # waiting on it would hold the lock that the signal handler needs to set it
            time.sleep(0.02)
        for thread in threads:
            thread.join()

    def many(self, count: int, number: int = 0) -> None:
        """So many calls, one after the other."""
        chance = self.place.chance("many", number)
        for _ in range(count):
            self.take(self.place.entity_id, Plan.drawn(chance, healthy=self.place.healthy))

    def still_served(self, within: float, *, why: str) -> None:
        """The bucket answers this process within the time."""
        begun = time.monotonic()
        outcome = self.one(self.place.entity_id)
        taken = time.monotonic() - begun
        self.ledger.mark(f"{why}: {outcome} after {taken:.3f} s")
        if outcome not in self.served or taken > within:
            self.ledger.violation(f"{why}: {outcome} after {taken:.3f} s")

    def _use(self, call: Call, plan: Plan, lease: SyncLease, *, counted: bool) -> None:
        time.sleep(plan.rest)
        if plan.more and counted:
            call.asks_more(plan.more)
            lease.consume(**both(plan.more))
            self.got_more(call, lease)
        if plan.adjust and counted:
            lease.adjust(all=plan.adjust, rate=plan.adjust)
        if plan.fails:
            raise Undone
        if plan.adjust and counted:
            call.ends_with(call.holds + plan.adjust)
