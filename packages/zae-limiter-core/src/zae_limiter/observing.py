"""Measure acquires and leases, and send events to observers, in both variants. ``observers`` has the events."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter

from .engines.meter import Meter
from .exceptions import LeaseExpiredError, ValidationError
from .flows import acquire as acquiring
from .flows.acquire.claims import Grant
from .flows.acquire.requests import AcquireRequest
from .flows.process.namespace_state import NamespaceState
from .flows.slots import lost_slots
from .observers import AcquireEvent, Call, Ending, Event, LeaseEvent, Observer, Outcome
from .runtime import forks
from .runtime.callables import is_awaited, yields
from .runtime.log_throttle import LogThrottle
from .values.limit_status import LimitStatus
from .values.limits import MILLI
from .values.refusal import RateLimitExceeded

log = logging.getLogger(__name__)


class Audience:
    """The observers of one limiter."""

    def __init__(self, observers: tuple[Observer, ...], namespace_state: NamespaceState, meter: Meter | None) -> None:
        self._observers = observers
        self.now = namespace_state.now
        self._failures = LogThrottle()
        self._meter = meter
        self.namespace = namespace_state.namespace

    def written(self) -> float:
        """Return the units written since the last event of any limiter over the store."""
        return 0.0 if self._meter is None else self._meter.newly_written()

    def tell(self, event: Event) -> None:
        """Send an event to every observer."""
        for observer in self._observers:
            try:
                observer(event)
            except Exception:
                more = self._failures.count(self.now())
                if more is not None:
                    log.exception("observer %r failed; %d more failures since the last line", observer, more)


def audience_of(observers: Iterable[Observer], namespace_state: NamespaceState, meter: Meter | None) -> Audience | None:
    """Return the observers of a limiter, ``None`` without any. Raises ``ValidationError`` for one that cannot be
    called.
    """
    if not isinstance(observers, Iterable):
        raise ValidationError("observers", observers, "must be a list of observers")
    checked = tuple(observers)
    for observer in checked:
        if not callable(observer) or isinstance(observer, type):
            raise ValidationError("observers", observer, "must be an object that can be called with one event")
        if is_awaited(observer) or yields(observer):
            raise ValidationError(
                "observers", observer, "must be a function by `def` without `yield`: its result is not awaited"
            )
    return Audience(checked, namespace_state, meter) if checked else None


class Watch:
    """Measures the calls of one lease and its end, and sends their events. ``grant`` is set once it has tokens."""

    grant: Grant | None = None

    def __init__(self, audience: Audience, request: AcquireRequest) -> None:
        self._audience = audience
        self._request = request
        self._process = forks.generation

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Measure the acquire in the block, and send its event."""
        amounts = {name: amount // MILLI for name, amount in self._request.amounts.items()}
        with self.call("acquire", amounts):
            yield

    @contextmanager
    def call(self, call: Call, amounts: Mapping[str, int]) -> Iterator[None]:
        """Measure an acquire or a ``lease.consume`` in the block, and send its event. A caller's mistake has none."""
        claims = () if self.grant is None else self.grant.all_claims
        known = {request for claim in claims if claim.config.shadow for request in claim.requests}  # before the call
        begun, outage = perf_counter(), self._outage()
        try:
            yield
        except (LeaseExpiredError, ValidationError):
            raise
        except BaseException as error:
            outcome: Outcome = "failed" if isinstance(error, Exception) else "cancelled"
            outcome = "refused" if isinstance(error, RateLimitExceeded) else outcome
            self._tell_call(call, amounts, outcome, perf_counter() - begun, error)
            raise
        outcome = "admitted" if self._outage() is outage else "degraded"
        would_refuse = () if self.grant is None else acquiring.statuses.shadowed(self.grant.all_claims, known)
        self._tell_call(call, amounts, outcome, perf_counter() - begun, would_refuse=would_refuse)

    @contextmanager
    def end(self, seconds: float, error: BaseException | None) -> Iterator[None]:
        """Measure the end of a block that took ``seconds`` and raised ``error``, if any, and send its event."""
        try:
            yield
        except BaseException as problem:
            self._tell_end("failed", seconds, problem)
            raise
        grant = self.grant
        if grant is not None and grant.lost is not None:
            self._tell_end("failed", seconds, grant.lost)
        else:
            rolled_back = error is not None and grant is not None and grant.rollback
            self._tell_end("rolled_back" if rolled_back else "settled", seconds)

    def _tell_call(
        self,
        call: Call,
        amounts: Mapping[str, int],
        outcome: Outcome,
        seconds: float,
        error: BaseException | None = None,
        would_refuse: tuple[LimitStatus, ...] = (),
    ) -> None:
        grant, request, audience = self.grant, self._request, self._audience
        refusal = error if isinstance(error, RateLimitExceeded) else None
        audience.tell(
            AcquireEvent(
                namespace=audience.namespace,
                entity_id=request.entity_id,
                resource=request.resource,
                call=call,
                amounts=amounts,
                outcome=outcome,
                seconds=seconds,
                waited=grant.waited if grant is not None and call == "acquire" else 0.0,
                statuses=() if refusal is None else refusal.statuses,
                shadowed=would_refuse,
                error=error if refusal is None else None,
                write_units=audience.written(),
                overflow=_overflow_of(grant),
                reason=None if refusal is None else refusal.reason,
                overflowed_early=None if grant is None or grant.overflow is None else grant.overflow.early,
            )
        )

    def _tell_end(self, ending: Ending, seconds: float, error: BaseException | None = None) -> None:
        grant, request, audience = self.grant, self._request, self._audience
        if grant is None or self._process != forks.generation:
            return  # a forked child has its parent's block, but not the tokens
        kept = ending != "rolled_back"
        lost = lost_slots(grant.taken_slots, audience.now())
        audience.tell(
            LeaseEvent(
                namespace=audience.namespace,
                entity_id=request.entity_id,
                resource=request.resource,
                consumed={
                    name: (amount - grant.of_key.get(name, 0)) // MILLI if kept else 0
                    for name, amount in grant.consumed.items()
                },
                ending=ending,
                degraded=grant.outage is not None,
                seconds=seconds,
                error=error,
                write_units=audience.written(),
                overflow=_overflow_of(grant),
                bounded=tuple(sorted({name for each in grant.all for name in each.bounded})) if kept else (),
                lost_slots=lost,
            )
        )

    def _outage(self) -> object:
        return None if self.grant is None else self.grant.outage


def _overflow_of(grant: Grant | None) -> str | None:
    return None if grant is None or grant.overflow is None else grant.request.resource
