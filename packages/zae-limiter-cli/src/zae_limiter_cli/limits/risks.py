"""Say what limits that a plan changes are used for: of the largest cuts the last day, of quotas what is left of them.

Both are read with the caller's rights, from hourly usage and live buckets.

The planner does not do it: its role reads no usage, and a plan without the question costs no request more.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from zae_limiter.maintenance import given_in, period_seconds
from zae_limiter.values.limits import MILLI
from zae_limiter_manifest import Address, Change, Plan, RecordDecl
from zae_limiter_manifest.cuts import largest_cut
from zae_limiter_manifest.naming import DEFAULT_RESOURCE

from ..connection import Connection
from ..paging import open_namespace
from ..rates import amount

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository, UsageSnapshot

LARGEST_CUTS: Final = 20
"""The most cuts of one namespace that are looked up, with a query each."""

CHANGED_QUOTAS: Final = 20
"""The most changed quotas of one namespace whose bucket is read, twice each."""

SNAPSHOTS: Final = 1000
"""The most entities of a resource that are compared."""

HOUR: Final = 3600
DAY: Final = 24 * HOUR


def risks_of(connection: Connection, plans: Iterable[Plan], now: datetime | None = None) -> dict[Address, str]:
    """Return a line on the use of the last day for each of the largest cuts, and on what is left of changed quotas, by
    address.
    """
    at = now or datetime.now(UTC)
    found: dict[Address, str] = {}
    for plan in plans:
        if cuts := _largest_cuts(plan):
            with open_namespace(connection, plan.namespace) as repository:
                lines = ((change.address, _risk(repository, change, at)) for change in cuts)
                found |= {address: line for address, line in lines if line}
        if quotas := _changed_quotas(plan):
            with open_namespace(connection, plan.namespace) as repository:
                left = ((change.address, _left(repository, change)) for change in quotas)
                found |= {each: "; ".join(filter(None, (found.get(each), line))) for each, line in left if line}
    return found


def _changed_quotas(plan: Plan) -> list[Change]:
    """Return the first changes of an entity's limits on a resource, of which one is a quota before or afterwards."""
    return [change for change in plan.changes if _quotas_of(change)][:CHANGED_QUOTAS]


def _quotas_of(change: Change) -> list[str]:
    """Return the limits of a change of which what was used counts."""
    address, before, after = change.address, change.before, change.after
    if address.entity is None or address.resource in (None, DEFAULT_RESOURCE):
        return []
    if before is None or after is None or isinstance(before, RecordDecl) or isinstance(after, RecordDecl):
        return []
    both = [name for name in after.limits if name in before.limits and before.limits[name] != after.limits[name]]
    kinds = {name: {before.limits[name].kind, after.limits[name].kind} for name in both}
    return [name for name in both if kinds[name] - {"token_bucket"} and "concurrent" not in kinds[name]]


def _left(repository: "SyncRepository", change: Change) -> str:
    """Return what a live bucket has of changed quotas now, and what it has after the change."""
    from zae_limiter import Limit, SyncRateLimiter

    entity_id, resource, after = str(change.address.entity), str(change.address.resource), change.after
    bucket = repository.get_bucket(entity_id, resource)
    if bucket is None or after is None or isinstance(after, RecordDecl):
        return ""
    limits = [Limit(name, **limit.values) for name, limit in after.limits.items()]
    there = SyncRateLimiter(repository).available(entity_id, resource, limits)
    names, found = _quotas_of(change), list[str]()
    for each in bucket.limits:
        if (name := each.limit.name) in names:
            new = next(limit for limit in limits if limit.name == name)
            now = f"{amount(each.available, each.limit.unit)} of {amount(each.limit.capacity, each.limit.unit)} left"
            found.append(f"{name}: {now} -> {amount(there[name], new.unit)} of {amount(new.capacity, new.unit)}")
    return "; ".join(found)


def _largest_cuts(plan: Plan) -> list[Change]:
    cuts = [(cut.share, change) for change in plan.changes if (cut := largest_cut(change))]
    cuts.sort(key=lambda pair: -pair[0])
    return [change for _, change in cuts[:LARGEST_CUTS]]


def _risk(repository: "SyncRepository", change: Change, now: datetime) -> str | None:
    from zae_limiter import Limit

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
    limit = Limit(cut.limit, **change.after.limits[cut.limit].values)
    if address.entity is None:
        return _of_resource(repository, str(address.resource), cut.limit, limit, now)
    return _of_entity(repository, address, cut.limit, limit, now)


def _of_entity(repository: "SyncRepository", address: Address, name: str, limit: "Limit", now: datetime) -> str:
    summary = repository.get_usage_summary(
        entity_id=address.entity, resource=address.resource, start=now - timedelta(days=1), end=now
    )
    use = next((each for each in summary.limits if each.limit_name == name), None)
    if use is None:
        return f"{name}: no use in the last 24 h"
    most = use.maximum if _is_hourly(limit) else use.total
    given, period = _given(limit)
    verdict = ": over it" if most > given else ": within it" if _fits_in_a_day(limit) else ""
    return f"{name}: {use.total:,} in 24 h, at most {use.maximum:,} in an hour; {given:,} {period} from now on{verdict}"


def _of_resource(repository: "SyncRepository", resource: str, name: str, limit: "Limit", now: datetime) -> str:
    given, period = _given(limit)
    length = timedelta(hours=1) if _is_hourly(limit) else timedelta(days=1)
    end = now.replace(minute=0, second=0, microsecond=0)
    page = repository.get_usage_snapshots(resource=resource, start=end - length, end=end, limit=SNAPSHOTS)
    used = _by_entity(page.snapshots, name)
    over = sum(each > given for each in used.values())
    at_least = "at least " if page.next else ""
    span = "hour" if _is_hourly(limit) else "24 hours"
    more = f"{at_least}{over:,} of {len(used):,} entities used more, also those with limits of their own"
    return f"{name}: {given:,} {period} from now on; in the last whole {span}, {more}"


def _by_entity(snapshots: "Iterable[UsageSnapshot]", name: str) -> dict[str, int]:
    used: dict[str, int] = {}
    for each in snapshots:
        used[each.entity_id] = used.get(each.entity_id, 0) + each.consumed.get(name, 0)
    return used


def _given(limit: "Limit") -> tuple[int, str]:
    """Return what a limit gives by its rate within the period that is compared, and that period."""
    if not limit.capacity:
        return 0, "at all"
    if not _fits_in_a_day(limit):
        return limit.capacity, "in all" if limit.kind in ("total", "concurrent") else "in each window"
    if _is_hourly(limit):
        return given_in(limit, HOUR) // MILLI, "an hour"
    return given_in(limit, DAY) // MILLI, "in 24 h"


def _is_hourly(limit: "Limit") -> bool:
    return (period_seconds(limit) or DAY) <= HOUR


def _fits_in_a_day(limit: "Limit") -> bool:
    """Return whether the use of a day is evidence: not where a whole week's or month's tokens may go in one day."""
    period = period_seconds(limit)
    return limit.kind == "token_bucket" or (period is not None and period <= DAY)
