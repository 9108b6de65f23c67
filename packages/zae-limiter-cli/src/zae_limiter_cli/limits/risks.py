"""Say what limits that a plan changes are used for: of the largest cuts the last day, of quotas what is left of them,
and of a cut for many, how many entities it binds now.

Both are read with the caller's rights, from hourly usage and live buckets.

The planner does not do it: its role reads no usage, and a plan without the question costs no request more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from zae_limiter import Limit, SyncRateLimiter
from zae_limiter.maintenance import given_in, period_seconds
from zae_limiter.values import Refuser
from zae_limiter.values.limits import MILLI, ConfigSource
from zae_limiter.values.resolution import LEVELS
from zae_limiter_manifest import Address, Change, LimitDecl, LimitsManifest, LiveOverride, Plan, RecordDecl
from zae_limiter_manifest.consequences import consequences_of
from zae_limiter_manifest.cuts import largest_cut
from zae_limiter_manifest.naming import DEFAULT_RESOURCE, matching

from ..columns import counted
from ..connection import Connection
from ..paging import open_namespace
from ..rates import amount
from .busiest import SNAPSHOTS, Use, of_day, of_hour

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.values import Bucket

_Quotas = Mapping[str, tuple[LimitDecl, LimitDecl]]
_Overrides = Mapping[Address, LiveOverride]

LARGEST_CUTS: Final = 20
"""The most cuts of one namespace that are looked up, with a query each."""

CHANGED_QUOTAS: Final = 20
"""The most changes of an entity's quotas in one namespace whose buckets are read."""

SHARED_QUOTAS: Final = 5
"""The most changes of quotas of many entities, by a tier, a resource or the system, whose buckets are listed."""

BUCKETS: Final = 200
"""The most buckets that are listed for one of these changes."""

AFFECTED: Final = 3
"""The buckets that are shown of one change: those that have least of it afterwards."""

LOOKED_AT: Final = 10
"""The most buckets whose limits are resolved for one change."""

SHARED_CUTS: Final = 10
"""The most cuts for many callers, of one namespace, of which the entities that they bind now are counted."""

CHECKED: Final = 10
"""The most entities over such a cut whose limits are resolved, the one with the largest use first."""

NAMED: Final = 5
"""The entities that are named of those that a cut binds."""

MINUTES: Final = 60
SPAN: Final = 5 * MINUTES
HOUR: Final = 3600
DAY: Final = 24 * HOUR


def risks_of(
    connection: Connection, plans: Iterable[Plan], manifests: Iterable[LimitsManifest], now: datetime | None = None
) -> dict[str, dict[Address, str]]:
    """Return a line on the use of the last day for each of the largest cuts, and on what is left of changed quotas, by
    namespace and address.
    """
    at = now or datetime.now(UTC)
    of = {manifest.namespace: manifest for manifest in manifests}
    found: dict[str, dict[Address, str]] = {}
    for plan in plans:
        cuts, quotas = _largest_cuts(plan), [*_changed_quotas(of[plan.namespace], plan).items()]
        if cuts or quotas:
            with open_namespace(connection, plan.namespace) as repository:
                overrides = {each.address: each for each in plan.overrides}
                lines = [(each.address, _risk(repository, each, at, overrides.get(each.address))) for each in cuts]
                lines += [(address, _left(repository, address, sides, overrides)) for address, sides in quotas]
                lines += [(change.address, _binds(repository, change, at)) for change in _shared_cuts(plan)]
            own = found.setdefault(plan.namespace, {})
            for address, line in lines:
                if line:
                    own[address] = "; ".join(filter(None, (own.get(address), line)))
    return found


def _changed_quotas(manifest: LimitsManifest, plan: Plan) -> dict[Address, _Quotas]:
    """Return the first changes of quotas of entities, and the first of those of many, with both sides by name."""
    quotas = {address: sides for address, sides in consequences_of(manifest, plan).quotas.items() if sides}
    own = [address for address in quotas if address.level == "entity"][:CHANGED_QUOTAS]
    shared = [address for address in quotas if address.level != "entity"][:SHARED_QUOTAS]
    return {address: quotas[address] for address in (*shared, *own)}


def _left(repository: "SyncRepository", address: Address, quotas: _Quotas, overrides: _Overrides) -> str:
    """Return what live buckets have of changed quotas now, and what they have after the change."""
    if address.level == "entity":
        on = None if address.resource == DEFAULT_RESOURCE else address.resource
        buckets, is_whole = tuple(repository.get_buckets(str(address.entity), on)), True
    else:
        on = None if address.is_pattern or address.resource == DEFAULT_RESOURCE else address.resource
        page = repository.list_buckets(on, limit=BUCKETS)
        buckets, is_whole = page.buckets, page.next is None
    affected = [each for each in buckets if quotas.keys() & {limit.limit.name for limit in each.limits}]
    affected.sort(key=lambda each: _left_over(each, quotas))
    lines, looked_at = list[str](), 0
    for bucket in affected[:LOOKED_AT]:
        looked_at += 1
        held = [each.limit.name for each in bucket.limits if each.limit.name in quotas]
        before = {name: quotas[name][0] for name in held}
        if names := _names_of(repository, address, (bucket.entity_id, bucket.resource), before):
            after = {name: quotas[name][1] for name in names}
            lines.append(_steps(repository, bucket, after, address, overrides))
        if len(lines) == AFFECTED:
            break
    more = len(affected) - looked_at
    if lines and more > 0:
        lines.append(f"and {'at least ' * (not is_whole)}{more:,} more buckets with a limit of that name")
    return "; ".join(lines)


def _left_over(bucket: "Bucket", quotas: _Quotas) -> float:
    """Return the least part of its new amount that a bucket has of a changed quota, to order by."""
    found = [
        1 - (each.limit.capacity - each.available) / max(1, quotas[each.limit.name][1].capacity)
        for each in bucket.limits
        if each.limit.name in quotas
    ]
    return min(found)


def _names_of(
    repository: "SyncRepository", address: Address, caller: tuple[str, str], before: Mapping[str, LimitDecl]
) -> list[str]:
    """Return which of these limits an entity on a resource has of the level that changes, or of one that it
    replaces.
    """
    if address.level == "entity":
        return [*before]
    if not _is_on(address, caller[1]):
        return []
    in_force, _, _ = repository.resolve_limits(*caller)
    weaker = LEVELS[LEVELS.index(_source(address)) :]
    if address.tier is not None:
        record = repository.get_entity(caller[0])
        if record is None or record.tier != address.tier:
            return []
    own = {_rule(Limit(name, **limit.values)) for name, limit in before.items()}
    of = in_force.sources
    found = (each for each in in_force if each.name in before and of.get(each.name) in weaker and _rule(each) in own)
    return [each.name for each in found]


def _is_on(address: Address, resource: str) -> bool:
    return not address.is_pattern or bool(matching([str(address.resource)], resource))


def _source(address: Address) -> ConfigSource:
    """Return the level of an address as core names it."""
    if address.tier is not None:
        return "tier_default" if address.resource == DEFAULT_RESOURCE else "tier"
    if address.resource is None:
        return "system"
    return "pattern" if address.is_pattern else "resource"


def _rule(limit: Limit) -> Limit:
    return replace(limit, alert=(), weights={}, shadow=False)


def _steps(
    repository: "SyncRepository",
    bucket: "Bucket",
    after: Mapping[str, LimitDecl],
    address: Address,
    overrides: _Overrides,
) -> str:
    """Return what a bucket has of quotas before and after: `usd: 9,257 of 150,000 left -> 1,359,257 of 1,500,000`; of
    those of an override, until when, and what it would have then.
    """
    own = Address(bucket.resource, bucket.entity_id)
    override = overrides.get(own, overrides.get(address))
    rules = {each.limit.name: each.limit for each in bucket.limits}
    limits = [Limit(name, **after[name].values) if name in after else rule for name, rule in rules.items()]
    there = SyncRateLimiter(repository).available(bucket.entity_id, bucket.resource, limits)
    whose = "" if own == address else f"{bucket.entity_id}/{bucket.resource} "
    found = []
    for each in bucket.limits:
        if (name := each.limit.name) in after:
            unit, new = each.limit.unit, after[name]
            now = f"{amount(each.available, unit)} of {amount(each.limit.capacity, unit)} left"
            then = f"{amount(there[name], new.unit)} of {amount(new.capacity, new.unit)}"
            until = _until(override, name)
            step = f" -> {then}" if until is None else f" until {until}, by an override, then {then}"
            found.append(f"{whose}{name}: {now}{step}")
    return "; ".join(found)


def _until(override: LiveOverride | None, name: str) -> str | None:
    """Return when an override of a limit ends, if that limit has one."""
    return override.until if override is not None and override.decides(name) else None


def _largest_cuts(plan: Plan) -> list[Change]:
    cuts = [(cut.share, change) for change in plan.changes if (cut := largest_cut(change))]
    cuts.sort(key=lambda pair: -pair[0])
    return [change for _, change in cuts[:LARGEST_CUTS]]


def _shared_cuts(plan: Plan) -> list[Change]:
    """Return the largest cuts of a limit for many callers."""
    cuts = [
        (cut, change) for change in plan.changes if change.address.level != "entity" and (cut := largest_cut(change))
    ]
    cuts.sort(key=lambda pair: -pair[0].share)
    return [change for cut, change in cuts if cut.limit is not None][:SHARED_CUTS]


def _binds(repository: "SyncRepository", change: Change, now: datetime) -> str:
    """Return which entities a cut for many binds: those with this limit that have used more than it gives, or that it
    refused, the busiest first.
    """
    cut, address = largest_cut(change), change.address
    before, after = (getattr(side, "limits", {}) for side in (change.before, change.after))
    name = None if cut is None else cut.limit
    if name is None or name not in before or name not in after:
        return ""
    limit = Limit(name, **after[name].values)
    given, use = _use(repository, address, limit, now)
    bound = {*use.refused, *(caller for caller, amount_used in use.used.items() if amount_used > given)}
    on_it = [caller for caller in bound if _is_on(address, caller[1])]
    over = sorted(on_it, key=lambda caller: (-use.used[caller], caller))
    looked_at = [caller for caller in over[:CHECKED] if _names_of(repository, address, caller, {name: before[name]})]
    most: dict[str, str] = {}
    for caller in looked_at:
        is_over = use.used[caller] > given
        most.setdefault(caller[0], _said(use.used[caller], limit, use.per) if is_over else "which it refused")
    is_whole = use.is_whole and len(over) <= CHECKED and not _is_of_minutes(limit)
    if not most:
        return f"{name}: binds {'no entity' if is_whole else 'no entity that is known'}, by {use.by}"
    known = ", ".join(f"{entity} ({said})" for entity, said in [*most.items()][:NAMED])
    more = f" and {len(most) - NAMED} more" if len(most) > NAMED else ""
    number = f"{len(most)} {'entity' if len(most) == 1 else 'entities'}"
    return f"{name}: binds {'' if is_whole else 'at least '}{number}, by {use.by}: {known}{more}"


def _said(used: float, limit: Limit, per: str) -> str:
    """Return an amount that was used, of a limit by the minute in a minute."""
    if per == "an hour" and _is_of_minutes(limit):
        return f"{amount(round(used / MINUTES), limit.unit)} a minute"
    return f"{amount(round(used), limit.unit)} {per}".strip()


def _use(repository: "SyncRepository", address: Address, limit: Limit, now: datetime) -> tuple[int, Use]:
    """Return what a limit gives in the time that is compared, and who used how much: of a limit whose time is a day at
    most by usage, of others by live buckets.
    """
    on = None if address.is_pattern or address.resource == DEFAULT_RESOURCE else address.resource
    if _fits_in_a_day(limit):
        given, _ = _given(limit)
        if not _is_hourly(limit):
            return given, of_day(repository, on, limit.name, now)
        by_minutes = _is_of_minutes(limit) and limit.refill_period <= SPAN
        return given, of_hour(repository, on, limit.name, now, by_minutes=by_minutes)
    listed, use = repository.list_buckets(on, limit=BUCKETS), Use("what live buckets have used", "")
    for bucket in listed.buckets:
        for held in bucket.limits:
            if held.limit.name == limit.name:
                use.used[bucket.entity_id, bucket.resource] = held.limit.capacity - held.available
    use.is_whole = listed.next is None
    return limit.capacity, use


def _is_of_minutes(limit: Limit) -> bool:
    """Return whether usage has no more than the mean of what a limit bounds, whose busier minutes it may bind."""
    return not limit.blocks and limit.kind == "token_bucket" and limit.refill_period < HOUR


def _risk(repository: "SyncRepository", change: Change, now: datetime, override: LiveOverride | None) -> str | None:
    cut, address = largest_cut(change), change.address
    if (
        cut is None
        or cut.limit is None
        or change.after is None
        or isinstance(change.after, RecordDecl)
        or address.tier is not None
        or address.resource in (None, DEFAULT_RESOURCE)
        or address.is_pattern
    ):
        return None  # usage is kept by entity and by resource
    after = Limit(cut.limit, **change.after.limits[cut.limit].values)
    if address.entity is None:
        return _of_resource(repository, str(address.resource), cut.limit, after, now)
    live = getattr(change.before, "limits", {}).get(cut.limit)
    before = after if live is None else Limit(cut.limit, **live.values)
    return _of_entity(repository, address, cut.limit, (before, after), now, _until(override, cut.limit))


def _of_entity(
    repository: "SyncRepository",
    address: Address,
    name: str,
    cut: tuple[Limit, Limit],
    now: datetime,
    until: str | None,
) -> str:
    before, limit = cut
    summary = repository.get_usage_summary(
        entity_id=address.entity, resource=address.resource, start=now - timedelta(days=1), end=now
    )
    use = next((each for each in summary.limits if each.limit_name == name), None)
    refused = sum(calls for by, calls in summary.refused_by.items() if by == (address.entity, name))
    if use is None:
        refusals = f", and {counted(refused, 'refusal')} by it" if refused else ""
        return f"{name}: no use in the last 24 h{refusals}"
    most = use.maximum if _is_hourly(limit) else use.total
    given, period = _given(limit)
    if most > given:
        verdict = ": over it"
    elif refused and _is_hourly(limit):
        verdict = ": bursts within the hour were over it"
    else:
        verdict = ": within it" if _fits_in_a_day(limit) and not refused else ""
    total, largest = (amount(each, before.unit) for each in (use.total, use.maximum))
    refusals = f", {counted(refused, 'call')} refused by it" if refused else ""
    begin = "now" if until is None else until
    then = f"{amount(given, limit.unit)} {period} from {begin} on{verdict}"
    return f"{name}: {total} in 24 h, at most {largest} in an hour{refusals}; {then}"


def _of_resource(repository: "SyncRepository", resource: str, name: str, limit: Limit, now: datetime) -> str:
    given, period = _given(limit)
    length = timedelta(hours=1) if _is_hourly(limit) else timedelta(days=1)
    end = now.replace(minute=0, second=0, microsecond=0)
    page = repository.get_usage_snapshots(resource=resource, start=end - length, end=end, limit=SNAPSHOTS)
    used = _by_entity(page.snapshots, name)
    refused = {each.entity_id for each in page.snapshots if _refused_by_own(each, name)}
    over = sum(each > given for each in used.values())
    at_least = "at least " if page.next else ""
    span = "hour" if _is_hourly(limit) else "24 hours"
    refusals = (
        f" and {at_least}{len(refused):,} {'was' if len(refused) == 1 else 'were'} refused by it" if refused else ""
    )
    more = f"{at_least}{over:,} of {len(used):,} entities used more{refusals}, also those with limits of their own"
    return f"{name}: {amount(given, limit.unit)} {period} from now on; in the last whole {span}, {more}"


def _refused_by_own(snapshot: "UsageSnapshot", name: str) -> bool:
    """Return whether a limit of this name, of the entity itself, refused calls in the window."""
    return bool(snapshot.refused_by.get(Refuser(snapshot.entity_id, name)))


def _by_entity(snapshots: "Iterable[UsageSnapshot]", name: str) -> dict[str, int]:
    used: dict[str, int] = {}
    for each in snapshots:
        used[each.entity_id] = used.get(each.entity_id, 0) + each.consumed.get(name, 0)
    return used


def _given(limit: Limit) -> tuple[int, str]:
    """Return what a limit gives by its rate within the period that is compared, and that period."""
    if not limit.capacity:
        return 0, "at all"
    if not _fits_in_a_day(limit):
        return limit.capacity, "in all" if limit.kind in ("total", "concurrent") else "in each window"
    if _is_hourly(limit):
        return given_in(limit, HOUR) // MILLI, "an hour"
    return given_in(limit, DAY) // MILLI, "in 24 h"


def _is_hourly(limit: Limit) -> bool:
    return (period_seconds(limit) or DAY) <= HOUR


def _fits_in_a_day(limit: Limit) -> bool:
    """Return whether the use of a day is evidence: not where a whole week's or month's tokens may go in one day."""
    period = period_seconds(limit)
    return limit.kind == "token_bucket" or (period is not None and period <= DAY)
