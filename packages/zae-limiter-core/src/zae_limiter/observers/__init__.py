"""Observers of a limiter: ``RateLimiter(repository, observers=[…])`` sends each of them an event for every acquire, and
one for the end of every block.

``otel`` has an observer for OpenTelemetry, ``emf`` one for CloudWatch.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, Protocol

from ..runtime.dataclass import dataclass, field
from ..values.limit_status import LimitStatus, Reason
from ..values.refusal import binding, path_to, short

__all__ = ["AcquireEvent", "Call", "Ending", "Event", "LeaseEvent", "Observer", "Outcome"]

Call = Literal["acquire", "consume"]
Outcome = Literal["admitted", "refused", "degraded", "failed", "cancelled"]
Ending = Literal["settled", "rolled_back", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireEvent:
    """The outcome of an acquire, or of a ``lease.consume``; amounts in tokens by limit.

    ``degraded``: let through uncounted, because the store was unavailable. ``seconds``: the whole call; ``waited``: the
    part of an admitted call before its tokens were due. ``statuses``: the limits that a refusal checked, ``reason``:
    that of the refusal. ``shadowed``:
    the shadow limits that would have refused an admitted call. ``error``: that of a call that failed. ``write_units``:
    what the store wrote since the last event, if it counts units. ``overflow``: the resource that served the call in
    place of ``resource``; ``overflowed_early``: the limit by whose ``at`` it did so before a refusal.
    """

    namespace: str
    entity_id: str
    resource: str
    call: Call
    amounts: Mapping[str, int] = field(hash=False)
    outcome: Outcome
    seconds: float
    waited: float = 0.0
    statuses: tuple[LimitStatus, ...] = ()
    shadowed: tuple[LimitStatus, ...] = ()
    error: BaseException | None = None
    write_units: float = 0.0
    overflow: str | None = None
    reason: Reason | None = None
    overflowed_early: LimitStatus | None = None

    @property
    def violations(self) -> tuple[LimitStatus, ...]:
        """The limits that were short of tokens, of the entity or of one above it."""
        return short(self.statuses)

    @property
    def refused_by(self) -> str | None:
        """The entity whose bucket binds: the one that asked, or one above it; ``None`` unless the call was refused."""
        return binding(self.statuses).entity_id if self.statuses else None

    @property
    def path(self) -> tuple[str, ...]:
        """The entities from the one that asked to ``refused_by``; empty unless the call was refused."""
        return path_to(binding(self.statuses), self.statuses, self.entity_id) if self.statuses else ()


def limit_names(event: AcquireEvent, statuses: Iterable[LimitStatus]) -> list[str]:
    """Return the names of limits as the entity that asked sees them, each once: ``rpm``, ``parent/rpm``,
    ``parent-2/rpm``.
    """
    return [*dict.fromkeys(status.name_for(event.entity_id) for status in statuses)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEvent:
    """The end of a block whose acquire passed; amounts in tokens by limit.

    ``consumed``: what the lease used in the end, corrections included; 0 if it was rolled back. ``degraded``: a part of
    it was not counted, because the store was unavailable. ``seconds``: the block. ``error``: why the end of a lease
    that ``failed`` was not written. ``write_units``: what the store wrote since the last event, if it counts.
    ``overflow``: the resource that served the call in place of ``resource``. ``bounded``: the limits whose settlement
    was beyond its bound, which was taken instead. ``lost_slots``: the limits of which it lost slots
    before its end.
    """

    namespace: str
    entity_id: str
    resource: str
    consumed: Mapping[str, int] = field(hash=False)
    ending: Ending
    degraded: bool
    seconds: float
    error: BaseException | None = None
    write_units: float = 0.0
    overflow: str | None = None
    bounded: tuple[str, ...] = ()
    lost_slots: tuple[str, ...] = ()


Event = AcquireEvent | LeaseEvent


class Observer(Protocol):
    """Any callable that takes an event. It is called in the caller's thread or task, so it must not block, nor
    acquire from the limiter that it observes.

    If it raises, the call goes on, and a line is logged once a minute.
    """

    def __call__(self, event: Event, /) -> object:
        """Take the event."""
