"""What the users of a process do with it, in one script for both variants.

Lives here: acquire, the body of a lease, its end; each step by chance. Never: how a call waits (asynchronous,
threaded).
"""

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from zae_limiter import exceptions
from zae_limiter.exceptions import RateLimiterUnavailable, ZAELimiterError
from zae_limiter.values.refusal import RateLimitExceeded

from .holdings import Holding
from .plan import CASCADING, PARENT, Plan

SCARCE = "rpm"
MOST = 3
CLOSED: type[Exception] = getattr(exceptions, "RepositoryClosedError", ZeroDivisionError)
CONTENDED: type[Exception] = getattr(exceptions, "ContentionError", ZeroDivisionError)


class BodyFailed(Exception):
    """Raised in the body of a lease, to have it rolled back."""


class Variant(Protocol):
    """The process, as its callers see it. ``cuts`` are what cuts a caller off from outside."""

    cuts: tuple[type[BaseException], ...]

    def now(self) -> float:
        """Seconds."""

    def pause(self, seconds: float) -> Awaitable[None]:
        """Let others go on."""

    def acquire(self, entity_id: str, amounts: Mapping[str, int], on_unavailable: Any) -> Any:
        """A lease to be entered; all its methods are awaited."""


class Call(NamedTuple):
    """One call of the library, from its begin to its answer."""

    name: str
    begun: float
    ended: float


class Caller:
    """One user of a process, who acquires once. ``cut`` where the history has cut him off, ``gone`` with his loop."""

    def __init__(self, variant: Variant, plan: Plan, rng: Random, holding: Holding) -> None:
        self.answer = ""
        self.failure: BaseException | None = None
        self.cut = self.gone = False
        self.calls: list[Call] = []
        self.waits = ""
        self.holding = holding
        self._variant = variant
        self._plan = plan
        self._rng = rng
        self._kept = False
        self._pending = 0

    async def live(self) -> None:
        """The caller's life; ``answer`` is what he got out of it."""
        rng = self._rng
        try:
            await self._variant.pause(rng.randint(0, self._plan.span_us) / 1e6)
            await self._visit()
        except GeneratorExit:
            raise  # the loop is gone
        except BaseException as error:  # noqa: BLE001 - checked in the end
            self.answer, self.failure = self._answer_of(error), error
        else:
            self.answer = "admitted"

    def _answer_of(self, error: BaseException) -> str:
        if isinstance(error, self._variant.cuts):
            return "cut"
        if isinstance(error, RateLimitExceeded):
            try:
                short = any(status.exceeded for status in error.statuses)  # made when they are read
            except self._variant.cuts:
                return "cut"
            return "refused" if short else "refused for nothing"
        names = {BodyFailed: "failed", RateLimiterUnavailable: "unavailable", CLOSED: "closed", CONTENDED: "contended"}
        return next((name for kind, name in names.items() if isinstance(error, kind)), repr(error))

    async def _visit(self) -> None:
        rng, plan, holding = self._rng, self._plan, self.holding
        entity = rng.choice(plan.entities)
        holding.entities = (entity, PARENT) if entity == CASCADING else (entity,)
        holding.most = 1
        amounts = {SCARCE: rng.choice((0, 1, 1, 2, 5)), holding.limit: holding.unit}
        policy = "allow" if rng.random() < plan.allowing else None
        async with _Timed(self, self._variant.acquire(entity, amounts, policy)) as lease:
            for _ in range(rng.choice((0, 0, 1, 2, 4))):
                await self._do(lease, rng.choice(("work", "work", "consume", "adjust", "release", "keep", "fail")))

    async def _do(self, lease: Any, deed: str) -> None:
        rng, holding = self._rng, self.holding
        if deed == "work":
            await self._variant.pause(rng.choice((0, rng.randint(0, 20_000), rng.randint(0, 2_000_000))) / 1e6)
        elif deed == "consume" and holding.most < MOST:
            await self._consume(lease)
        elif deed == "adjust" and holding.most < MOST:
            holding.most += 1
            self._pending += 1
            await lease.adjust(**{holding.limit: holding.unit})
        elif deed == "release" and holding.expected + self._pending > 0:
            self._pending -= 1
            await lease.release(**{holding.limit: holding.unit})
        elif deed == "keep":
            lease.keep()
            self._kept = True
        elif deed == "fail":
            raise BodyFailed

    async def _consume(self, lease: Any) -> None:
        holding = self.holding
        holding.most += 1
        try:
            with self.calling("consume"):
                await lease.consume(**{holding.limit: holding.unit, SCARCE: self._rng.choice((0, 1))})
        except ZAELimiterError as error:
            if isinstance(error, CLOSED):
                raise
            return  # not admitted: the body goes on without
        if lease.degraded:
            holding.doubt("let through")
        else:
            holding.expected += 1

    @contextmanager
    def calling(self, name: str) -> Iterator[None]:
        """Note how long a call takes."""
        begun = self._variant.now()
        self.waits = f"{name} since {begun:.3f}"
        try:
            yield
        finally:
            self.waits = ""
            self.calls.append(Call(name, begun, self._variant.now()))

    def entered(self, lease: Any) -> None:
        """The lease is his, but where it was let through without being counted."""
        self.holding.expected = 0 if lease.degraded else 1

    def leaving(self, lease: Any, error: BaseException | None) -> None:
        """What should stand in the end."""
        holding = self.holding
        if error is not None and not self._kept:
            holding.expected = 0
        elif self._pending and not lease.degraded:
            holding.expected += self._pending
            holding.correcting = True
            if error is not None and not self._plan.network.faultless:
                holding.doubt("the body's error hides that corrections were not written")
        elif self._pending:
            holding.doubt("let through")

    def left(self, lease: Any, failure: BaseException | None) -> None:
        """The lease's end has come to its end."""
        if lease.degraded or (failure is not None and not isinstance(failure, self._variant.cuts)):
            self.holding.doubt("an end that was not written")


class _Timed:
    """A lease whose begin and end are watched."""

    def __init__(self, caller: Caller, lease: Any) -> None:
        self._caller = caller
        self._lease = lease

    async def __aenter__(self) -> Any:
        with self._caller.calling("acquire"):
            await self._lease.__aenter__()
        self._caller.entered(self._lease)
        return self._lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        caller, lease = self._caller, self._lease
        if isinstance(error, GeneratorExit):
            caller.holding.doubt("its loop is gone")
        caller.leaving(lease, error)
        failure: BaseException | None = None
        try:
            with caller.calling("exit"):
                await lease.__aexit__(kind, error, trace)
        except BaseException as problem:
            failure = problem
            raise
        finally:
            caller.left(lease, failure)
