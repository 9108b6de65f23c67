"""The refusal of a call whose limits are short of tokens."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, overload

from ..exceptions import RateLimitError
from ..runtime.rooms import Lazily
from .limit_status import LimitStatus, Reason
from .limits import Limit
from .switches import SetSwitch


def binding(statuses: Sequence[LimitStatus]) -> LimitStatus:
    """Return the status of the limit that binds: the one that is short for longest.

    A limit that passed, if the tokens have come back since; a shadow limit, if there is no other. Raises
    ``ValueError`` without statuses.
    """
    enforced = [status for status in statuses if not status.limit.shadow]
    return max(short(statuses) or enforced or statuses, key=lambda status: status.retry_after_seconds)


def short(statuses: Iterable[LimitStatus]) -> tuple[LimitStatus, ...]:
    """Return the statuses of the limits that are short of tokens and enforced."""
    return tuple(status for status in statuses if status.exceeded and not status.limit.shadow)


def unread(refusal: "RateLimitExceeded") -> Sequence[LimitStatus]:
    """Return the statuses of a refusal, without making those that have not been read."""
    return refusal.statuses if refusal._later is None else refusal._later


def path_to(status: LimitStatus, statuses: Iterable[LimitStatus], entity_id: str) -> tuple[str, ...]:
    """Return the entities from the one that asked up to that of a status; ``statuses`` go from the bottom up."""
    if status.path:
        return status.path
    path = tuple(dict.fromkeys((entity_id, *(each.entity_id for each in statuses))))
    return path[: path.index(status.entity_id) + 1]


class LaterStatuses(Sequence[LimitStatus]):
    """The statuses of a refusal, made on first access: most callers only want to know that it refuses.

    ``make`` has the states and the instant of the refusal, so it does not matter when. ``buckets``: the entities and
    resources that they are of; ``short_of``: the limits of the first that were short, if that is known already.
    """

    short_of: Sequence[str] = ()

    def __init__(self, make: Callable[[], Sequence[LimitStatus]], buckets: Collection[tuple[str, str]]) -> None:
        self._make = make
        self.buckets = buckets

    @Lazily
    def made(self) -> tuple[LimitStatus, ...]:
        """Return the statuses."""
        return tuple(self._make())

    @overload
    def __getitem__(self, index: int) -> LimitStatus: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[LimitStatus]: ...

    def __getitem__(self, index: int | slice) -> LimitStatus | Sequence[LimitStatus]:
        return self.made[index]

    def __len__(self) -> int:
        return len(self.made)


class RateLimitExceeded(RateLimitError):
    """At least one limit is short of tokens; nothing stays consumed.

    ``statuses`` has every limit that the call draws on: those of the entity that asked, ``entity_id``, then those of
    the entities above it, nearest first, then those of its draws. ``refused_by`` is the entity whose bucket binds.
    ``by_share``: the store is away, and the share of this process is used up; then ``statuses`` has the enforced
    limits, with what the share has. ``overflow``: the limits of the bucket that was to serve the call instead, and
    is short as well; empty without one. Raises ``TypeError`` for a text in place of the statuses: Celery's JSON makes
    one, and then shows it as it is.
    """

    by_share = False
    overflow: tuple[LimitStatus, ...] = ()
    _later: LaterStatuses | None = None

    def __init__(
        self,
        statuses: Sequence[LimitStatus],
        entity_id: str | None = None,
        resource: str | None = None,
        *,
        by_share: bool = False,
        overflow: Sequence[LimitStatus] = (),
    ) -> None:
        if isinstance(statuses, LaterStatuses):
            self._later = statuses  # by position, as what follows: `BaseException` has kept them already
        elif isinstance(statuses, str):  # type: ignore[unreachable]
            raise TypeError("statuses must be LimitStatus objects, not a text")
        else:
            self.statuses = statuses = tuple(statuses)
            super().__init__(statuses, entity_id, resource)
        if by_share:
            self.by_share = True
        if overflow:
            self.overflow = tuple(overflow)
        if entity_id is None:
            entity_id = statuses[0].entity_id if statuses else ""
        self.entity_id = entity_id
        self._resource = resource

    @Lazily
    def statuses(self) -> tuple[LimitStatus, ...]:
        """Every limit that the call draws on."""
        return () if self._later is None else self._later.made

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments that make the same refusal."""
        given = super().args
        return tuple(each.made if isinstance(each, LaterStatuses) else each for each in given)

    @args.setter
    def args(self, given: tuple[Any, ...]) -> None:
        super().__init__(*given)  # `BaseException` keeps them

    def __reduce__(self) -> tuple[Any, ...]:
        state = {**vars(self), "statuses": self.statuses}
        state.pop("_later", None)
        return type(self), self.args, state

    @property
    def violations(self) -> tuple[LimitStatus, ...]:
        """The limits that are short of tokens; a shadow limit is none of them."""
        return short(self.statuses)

    @property
    def passed(self) -> tuple[LimitStatus, ...]:
        """The limits that would have let the request pass."""
        return tuple(status for status in self.statuses if not status.exceeded)

    @property
    def primary_violation(self) -> LimitStatus:
        """The violation with the longest wait; a limit that passed, if the tokens have come back since."""
        return binding(self.statuses)

    @property
    def refused_by(self) -> str:
        """The entity whose bucket binds, which is that of ``primary_violation``: the one that asked, one above, or that
        of a draw.
        """
        return self.primary_violation.entity_id

    @property
    def path(self) -> tuple[str, ...]:
        """The entities from the one that asked, or from that of a draw, to ``refused_by``: ``("key-1",)``, or
        ``("key-1", "acme-corp")``.
        """
        return path_to(self.primary_violation, self.statuses, self.entity_id)

    @property
    def resource(self) -> str:
        """The resource that the call asked for."""
        return self._resource or self.primary_violation.resource

    @property
    def reason(self) -> Reason:
        """Why: ``"rate"`` (too fast), ``"quota"`` (used up), ``"concurrency"`` (too many at once), ``"disabled"`` (by
        a switch, or a capacity of 0), or ``"never"``: no wait lets this call pass. It is that of the limit that
        ``retry_after_seconds`` waits for.
        """
        return self._soonest.reason

    @property
    def spends_money(self) -> bool:
        """Whether money is used up: the ``reason`` is the quota of a limit with a currency."""
        return self.reason == "quota" and bool(self._soonest.limit.unit)

    @property
    def retry_after_seconds(self) -> float:
        """Seconds until every violated limit has the tokens, here or in the overflow; ``math.inf`` if never."""
        return self._soonest.retry_after_seconds

    @property
    def _soonest(self) -> LimitStatus:
        """The limit that binds where the call passes first: here, or in the overflow."""
        own = self.primary_violation
        return min(own, binding(self.overflow), key=lambda each: each.retry_after_seconds) if self.overflow else own

    @property
    def retry_after_header(self) -> str | None:
        """The value of an HTTP ``Retry-After`` header: seconds, rounded up; ``None`` if a retry can never pass."""
        seconds = self.retry_after_seconds
        return None if math.isinf(seconds) else str(math.ceil(seconds))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values; an infinite wait is ``None``.

        ``limits`` has every limit that the call draws on, ``exceeded`` those that are short, as in ``violations``.
        """
        return {
            "error": "rate_limit_exceeded",
            "reason": self.reason,
            "message": str(self),
            "entity_id": self.entity_id,
            "resource": self.resource,
            "refused_by": self.refused_by,
            "path": list(self.path),
            "exceeded": [
                {"entity_id": status.entity_id, "resource": status.resource, "limit_name": status.limit_name}
                for status in self.violations
            ],
            "retry_after_seconds": _finite(self.retry_after_seconds),
            "limits": [_plain(status) for status in self.statuses],
            **({"overflow": [_plain(status) for status in self.overflow]} if self.overflow else {}),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        told = _told(self.primary_violation, self.path)
        if self.overflow:
            instead = binding(self.overflow)
            return f"{told}; overflow {_told(instead, path_to(instead, self.overflow, self.entity_id))}"
        if self.by_share and not math.isinf(self.retry_after_seconds):
            return f"{told}; the store is away, and this process goes by its share of the limit"
        return told


def _told(worst: LimitStatus, path: Sequence[str]) -> str:
    asked = f"{' > '.join(path)}/{worst.resource}: {_amount(worst)} requested"
    if math.isinf(worst.retry_after_seconds):
        if worst.limit.blocks:
            return f"{asked}, which is blocked: the limit has a capacity of 0"
        if worst.requested <= worst.limit.usable_burst:
            return (
                f"{asked}, {worst.limit.show(worst.available)} available; {never_come(worst.limit)}: credit the bucket"
            )
        most = f"the limit holds at most {worst.limit.show(worst.limit.usable_burst)}"
        bound = "burst" if worst.limit.kind == "token_bucket" else "capacity"
        return f"{asked}, which can never pass: {most}; ask for less, or raise its {bound}"
    return f"{asked}, {worst.limit.show(worst.available)} available; retry in {worst.retry_after_seconds:.3f} s"


def _amount(status: LimitStatus) -> str:
    """Return what was asked for, with the limit's name, unless its currency says it: ``8000 tpm``, ``$1.50``."""
    shown = status.limit.show(status.requested)
    return shown if status.limit.unit == status.limit_name else f"{shown} {status.limit_name}"


def never_come(limit: Limit) -> str:
    """Return the words for tokens that a limit could hold, and that a total, or a schedule, never brings."""
    return f"{'no more' if limit.kind == 'total' else 'never so many'} come by themselves"


def _plain(status: LimitStatus) -> dict[str, Any]:
    return {
        "entity_id": status.entity_id,
        "resource": status.resource,
        "limit_name": status.limit_name,
        "capacity": status.limit.capacity,
        "burst": status.limit.burst,
        "available": status.available,
        "requested": status.requested,
        "exceeded": status.exceeded,
        "shadow": status.limit.shadow,
        "retry_after_seconds": _finite(status.retry_after_seconds),
        **_money(status),
    }


def _money(status: LimitStatus) -> dict[str, Any]:
    """Return the currency of a limit of money, and its amounts for people."""
    limit = status.limit
    if not limit.unit:
        return {}
    amounts = {"capacity": limit.capacity, "available": status.available, "requested": status.requested}
    return {"unit": limit.unit, "money": {name: limit.show(amount) for name, amount in amounts.items()}}


class AccessDisabled(RateLimitExceeded):
    """A switch refuses every acquire of ``refused_by``, the entity that asked or one above it; nothing stays consumed.

    ``switch`` has the level that set it, and ``switch_reason`` the reason that was given with it. No retry passes by
    itself: ``retry_after_seconds`` is infinite. ``violations`` has the limits of the disabled bucket, whatever these
    have.
    """

    def __init__(
        self,
        statuses: Sequence[LimitStatus],
        entity_id: str | None = None,
        disabled_id: str | None = None,
        switch: SetSwitch | None = None,
        resource: str | None = None,
    ) -> None:
        super().__init__(statuses, entity_id, resource)
        self.args = (self.statuses, entity_id, disabled_id, switch, resource)
        self.disabled_id = self.entity_id if disabled_id is None else disabled_id
        self.switch = switch

    @property
    def primary_violation(self) -> LimitStatus:
        """A limit of the disabled bucket, whose limits never pass: draws may name others of the same entity."""
        of_entity = (status for status in self.statuses if status.entity_id == self.disabled_id)
        return max(of_entity, key=lambda status: status.retry_after_seconds)

    @property
    def reason(self) -> Reason:
        """Always ``"disabled"``."""
        return "disabled"

    @property
    def switch_reason(self) -> str | None:
        """The reason that was given with the switch."""
        return None if self.switch is None else self.switch.reason

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values, with ``disabled_by``, the level, and ``switch_reason``."""
        level = None if self.switch is None else self.switch.source
        told = {"error": "access_disabled", "disabled_by": level, "switch_reason": self.switch_reason}
        return {**super().as_dict(), **told}

    def __str__(self) -> str:
        resource = self.primary_violation.resource
        told = f"{' > '.join(self.path)}/{resource}: {self.disabled_id} is disabled on {resource}"
        return told if self.switch is None else f"{told} by {self.switch.setter}{self.switch.because}"


class BudgetEnded(RateLimitExceeded):
    """The budget of a run is over: it has expired, or ``end`` has ended it for all processes; nothing stays consumed.

    ``budget`` is the name of the run, ``refused_by`` the entity of its bucket. No retry passes: ``reason`` is
    ``"never"``, ``retry_after_seconds`` infinite. ``expired``: it ended by its time.
    """

    def __init__(
        self,
        statuses: Sequence[LimitStatus],
        entity_id: str | None = None,
        resource: str | None = None,
        budget: str = "",
        expired: bool = False,  # noqa: FBT001 - by position, as exceptions are pickled
    ) -> None:
        super().__init__(statuses, entity_id, resource)
        self.args = (self.statuses, entity_id, resource, budget, expired)
        self.budget = budget
        self.expired = expired

    @property
    def reason(self) -> Reason:
        """Always ``"never"``."""
        return "never"

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values, with the ``budget``."""
        return {**super().as_dict(), "error": "budget_ended", "budget": self.budget, "expired": self.expired}

    def __str__(self) -> str:
        why = "has expired" if self.expired else "was ended"
        return f"{' > '.join(self.path)}: the budget of run {self.budget!r} {why}: open one of another name"


def _finite(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds
