"""A report on one acquire: its explanation, the refusals of the last hour, the last changes of the limits that decide.

Two reads for an entity and its parent, one query for the refusals, one for the changes. Who asks without amounts wants
to know why calls are refused, not whether one token is there: where one passes, an entity that was refused is explained
again, for what the last refused call asked for, or else for the mean of its calls. Where even one is refused, every
call is, whatever it asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from zae_limiter.values.money import MICRO

from ..data.parsing import refuse_bare_money
from ..data.places import composed_beneath
from ..data.showing import in_force as limit_in_force
from ..errors import CommandError
from .draws import Drawing, Drawn
from .overflow import read_overflow
from .unknown import Unknown, unknown_entity, unknown_names, unknown_resource

if TYPE_CHECKING:
    from decimal import Decimal

    from zae_limiter import Draw, Explanation, Limit, SyncRateLimiter, SyncRepository
    from zae_limiter.values import AuditEvent, BucketExplanation, LimitExplanation, Refuser, UsageSummary
    from zae_limiter.values.explanation import LimitsFrom

CHANGES: Final = 3
LAST: Final = timedelta(hours=1)
LONGEST: Final = timedelta(days=30)


class Asked(NamedTuple):
    """What an acquire is explained for: whole tokens by limit, and by what: as ``given``, as the ``last`` refused call
    that the bucket knows, the ``mean`` of the entity's calls ``since`` an instant, or ``one`` token of each limit.
    """

    amounts: Mapping[str, int]
    by: Literal["given", "last", "mean", "one"]
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What `why` shows.

    ``usage``: what was counted of the caller since ``since``, the begin of an hour. ``suspect``: the limit that
    refuses, or that refused the caller most often, and its bucket. ``changes``: the newest of the limits of this
    bucket, or of the caller's own; ``subject`` is whose they are. ``unknown``: the names that nothing is stored under.
    ``beneath``: the limits in force without an override, by name, of each bucket with one. ``drawn``: what refused
    calls that take from a bucket which was not asked for, or by amounts that are not known. ``overflow``: what the
    overflow says of a call that is refused.
    """

    explanation: "Explanation"
    asked: Asked
    since: datetime
    usage: "UsageSummary"
    suspect: "tuple[BucketExplanation, LimitExplanation] | None"
    subject: str
    changes: "tuple[AuditEvent, ...]"
    unknown: tuple[Unknown, ...] = ()
    beneath: "Mapping[tuple[str, str], Mapping[str, Limit]]" = field(default_factory=dict)
    drawn: Drawn | None = None
    overflow: "Explanation | None" = None

    @property
    def was_refused(self) -> bool:
        """Whether calls of the entity were refused, as far as it was counted."""
        return _was_refused(self.explanation, self.usage)

    @property
    def by_draw(self) -> Drawn | None:
        """The draw that decides: no limit of the call's own path refuses it."""
        found, drawn = self.explanation, self.drawn
        if drawn is None or found.disabled is not None:
            return None
        return drawn if found.binding is None or found.binding == drawn.found else None

    @property
    def passes(self) -> bool | None:
        """Whether the call passes now, also by its overflow; ``None`` if that depends on how much it draws."""
        if self.overflow is not None and self.overflow.passes:
            return True
        return None if self.by_draw is not None and self.explanation.passes else self.explanation.passes

    @property
    def deciding(self) -> "BucketExplanation":
        """The bucket that is disabled, or whose limits decide: the suspect's, or the caller's own."""
        if self.explanation.disabled is not None:
            return self.explanation.disabled
        return self.explanation.buckets[0] if self.suspect is None else self.suspect[0]


def read_report(
    repository: "SyncRepository",
    entity_id: str,
    resource: str,
    amounts: "Mapping[str, int | Decimal] | None",
    *,
    draws: "Sequence[Draw]" = (),
    cascade: bool,
) -> Report:
    """Read what the report has; write nothing. Raises ``CommandError`` where no level has limits, and
    for a bare number of money.
    """
    from zae_limiter import SyncRateLimiter, ValidationError
    from zae_limiter.values.usage import window_start

    limiter = SyncRateLimiter(repository)
    try:
        draws, asked_draws = _known_draws(limiter, entity_id, resource, amounts, draws, cascade=cascade)
        explanation = limiter.explain(entity_id, resource, amounts, cascade=cascade, draws=draws)
    except ValidationError as error:
        if error.field != "limits":
            raise
        names = (*unknown_entity(repository, entity_id), *unknown_resource(repository, resource))
        raise CommandError("; ".join([str(error), *(each.sentence.removesuffix(".") for each in names)])) from error
    if amounts:
        refuse_bare_money(amounts, _limits_of(explanation), "-c")
    for draw in draws:
        refuse_bare_money(draw.consume or {}, _limits_of(explanation, draw.entity_id, draw.resource), "--draw")
    since = window_start("hourly", int((explanation.at - LAST).timestamp() * 1000))
    usage = repository.get_usage_summary(entity_id=entity_id, resource=resource, window="hourly", start=since)
    asked = Asked(_in_millionths(amounts), "given") if amounts else _ones(explanation)
    if not amounts and explanation.passes and _was_refused(explanation, usage):
        likely = (
            _last(explanation, asked)
            or _mean(usage, asked, since)
            or _mean_of_days(repository, explanation, asked)
            or asked
        )
        if likely.amounts != asked.amounts:
            explanation = limiter.explain(entity_id, resource, likely.amounts, cascade=cascade, draws=draws)
        asked = likely
    drawn = None
    if asked_draws or explanation.passes:
        refused_by = {**dict.fromkeys(asked_draws, 0), **explanation.buckets[0].refused_by, **usage.refused_by}
        drawn = Drawing(repository).find(explanation, refused_by, asked_draws)
    overflow = read_overflow(limiter, explanation, amounts or asked.amounts, draws=draws, cascade=cascade)
    suspect = explanation.binding or _most_often(explanation, usage.refused_by)
    if drawn is not None and drawn.found is not None:
        suspect = explanation.binding or drawn.found
        explanation = replace(explanation, buckets=(*explanation.buckets, drawn.found[0]))
    bucket = explanation.buckets[0] if suspect is None else suspect[0]
    subject = _switched_by(explanation.disabled) or subject_of(bucket, suspect[1].source if suspect else bucket.source)
    changes = repository.get_audit_events(subject, limit=CHANGES).events
    unknown = tuple(unknown_names(repository, explanation, usage))
    beneath = _beneath(repository, explanation)
    return Report(explanation, asked, since, usage, suspect, subject, changes, unknown, beneath, drawn, overflow)


def _known_draws(
    limiter: "SyncRateLimiter",
    entity_id: str,
    resource: str,
    amounts: "Mapping[str, int | Decimal] | None",
    draws: "Sequence[Draw]",
    *,
    cascade: bool,
) -> "tuple[Sequence[Draw], dict[Refuser, str]]":
    """Return the draws that take known amounts, and of the others each limit with its resource: a draw without amounts
    takes those of the call, and the limits of its bucket have none of their names.
    """
    from zae_limiter.values import Refuser

    if all(draw.consume is not None for draw in draws):
        return draws, {}
    found = limiter.explain(entity_id, resource, cascade=cascade, draws=draws)
    asked = {*(amounts or _limits_of(found))}
    names = {id(draw): {*_limits_of(found, draw.entity_id, draw.resource)} for draw in draws}
    others = [draw for draw in draws if draw.consume is None and names[id(draw)] and asked.isdisjoint(names[id(draw)])]
    of_others = {(draw.entity_id or entity_id, draw.resource or resource) for draw in others}
    return [draw for draw in draws if draw not in others], {
        Refuser(bucket.entity_id, each.limit.name): bucket.resource
        for bucket in found.buckets
        if (bucket.entity_id, bucket.resource) in of_others
        for each in bucket.limits
    }


def _beneath(repository: "SyncRepository", found: "Explanation") -> dict[tuple[str, str], "Mapping[str, Limit]"]:
    """Read the limits that hold where an override ends."""
    at_ms = int(found.at.timestamp() * 1000)
    overridden = {
        (each.entity_id, each.resource)
        for each in found.buckets
        if any(limit.override_until is not None for limit in each.limits)
    }
    return {
        place: {each.name: limit_in_force(each, at_ms) for each in composed_beneath(repository, *place).limits}
        for place in overridden
    }


def _was_refused(found: "Explanation", usage: "UsageSummary") -> bool:
    return bool(usage.total_refused or found.buckets[0].refused)


def _limits_of(found: "Explanation", entity_id: str | None = None, resource: str | None = None) -> "dict[str, Limit]":
    """Return the limits that an entity and those above it have on a resource, by name; by default the call's."""
    place = (entity_id or found.entity_id, resource or found.resource)
    drawn = [bucket for bucket in found.buckets if (bucket.path[0], bucket.resource) == place]
    return {each.limit.name: each.limit for bucket in drawn for each in bucket.limits}


def _ones(found: "Explanation") -> Asked:
    """Return one token of each limit that the entity and those above it have on the resource."""
    return Asked(dict.fromkeys(_limits_of(found), 1), "one")


def _in_millionths(amounts: "Mapping[str, int | Decimal]") -> dict[str, int]:
    """Return amounts as limits count them."""
    return {name: each if isinstance(each, int) else int(each * MICRO) for name, each in amounts.items()}


def _last(found: "Explanation", ones: Asked) -> Asked | None:
    """Return what the last refused call asked for, as far as its limits are still there; ``None`` if none is known."""
    known = {name: amount for name, amount in found.buckets[0].refused_ask.items() if name in ones.amounts}
    return Asked(known, "last") if known else None


def _mean(usage: "UsageSummary", ones: Asked, since: datetime) -> Asked | None:
    """Return what a call has consumed on average, at least a token of each limit; ``None`` if none was counted."""
    if not usage.total_events:
        return None
    used = {each.limit_name: max(1, -(-each.total // usage.total_events)) for each in usage.limits}
    return Asked({name: used.get(name, 1) for name in ones.amounts}, "mean", since)


def _mean_of_days(repository: "SyncRepository", found: "Explanation", ones: Asked) -> Asked | None:
    """Return the mean of the last days, for an entity of which no call was admitted in this hour."""
    from zae_limiter.values.usage import window_start

    since = window_start("daily", int((found.at - LONGEST).timestamp() * 1000))
    usage = repository.get_usage_summary(
        entity_id=found.entity_id, resource=found.resource, window="daily", start=since
    )
    return _mean(usage, ones, since)


def in_force(each: "LimitExplanation") -> "Limit":
    """Return the values of a limit that hold now, by its schedule if it has one."""
    return each.in_force or each.limit


def passes_at(found: "Explanation") -> datetime | None:
    """Return from when on a call passes; ``None`` for never, and where the holders of slots decide."""
    held = found.binding is not None and found.binding[1].limit.kind == "concurrent"
    return None if held else found.passes_at


def by_cause(refused_by: "Mapping[Refuser, int]") -> dict[str, int]:
    """Return the refusals by limit, and by disabled entity, as text."""
    return {
        f"{refuser.entity_id} (disabled)" if refuser.is_disabled else f"{refuser}": count
        for refuser, count in refused_by.items()
    }


def is_disabled_for_a_time(bucket: "BucketExplanation") -> bool:
    """Return whether an override blocks every limit of a bucket, as `disable --for` does."""
    blocked = [each.blocked and each.override_until is not None for each in bucket.limits]
    return bool(blocked) and all(blocked)


def _most_often(
    explanation: "Explanation", refused_by: "Mapping[Refuser, int]"
) -> "tuple[BucketExplanation, LimitExplanation] | None":
    """Return the limit above that refused the caller most often, if the acquire draws on it."""
    nearest_last = reversed(explanation.buckets)  # an entity may be drawn on by two resources: the call's is meant
    drawn = {(bucket.entity_id, each.limit.name): (bucket, each) for bucket in nearest_last for each in bucket.limits}
    return drawn.get(max(refused_by, key=lambda refuser: refused_by[refuser])) if refused_by else None


def _switched_by(bucket: "BucketExplanation | None") -> str | None:
    """Return the subject under which the change of what disables a bucket is recorded."""
    from zae_limiter.maintenance import audit_resource, audit_system

    switch = None if bucket is None or bucket.switches is None else bucket.switches.disabled
    if bucket is None or switch is None:
        return None
    resource = bucket.resource if switch.pattern is None else switch.pattern
    levels = {"resource": audit_resource(resource), "pattern": audit_resource(resource), "system": audit_system()}
    return levels.get(switch.source, bucket.entity_id)


def subject_of(bucket: "BucketExplanation", source: "LimitsFrom") -> str:
    """Return the subject under which changes of the limits that a bucket has of a level are recorded."""
    from zae_limiter.maintenance import audit_resource, audit_system, audit_tier

    if bucket.tier is not None and source in {"tier", "tier_default"}:
        return audit_tier(bucket.tier)
    if source == "resource":
        return audit_resource(bucket.resource)
    if source == "pattern" and bucket.pattern is not None:
        return audit_resource(bucket.pattern)
    return audit_system() if source == "system" else bucket.entity_id
