"""Replay a plan on each bucket whose limits it changes: from a trace where it has all, else from hourly usage.

A trace has all of a bucket if no hour of its usage has more calls. Of hourly usage there are bounds; their module, in
core, says why they hold for every order of the calls.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from zae_limiter_manifest import Change, Plan, RecordDecl
from zae_limiter_manifest.naming import DEFAULT_RESOURCE
from zae_limiter_manifest.render.views import EVERYTHING, View

from ...columns import counted
from ...paging import every_row
from .after import LimitsAfter, changes_parents, changes_tier, differs, limit_of, tier_after
from .traced import BEFORE, HOUR_MS, Traced, decide
from .traces import Trace
from .verdicts import Finding, Replayed, rule_text

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository, UsageSnapshot
    from zae_limiter.maintenance import Bounds, BucketLimits, Hour

SUBJECTS: Final = 50
"""The most queries of usage for one plan; for more of them, one reads the usage of the whole namespace."""

LONGEST: Final = timedelta(days=31)
"""How far before the replay usage is read, for what limits of long windows had left."""

HOUR: Final = timedelta(hours=1)
LONGER: Final = "a longer time, such as --replay 7d, may have some"

Place = tuple[str, str]
Subject = tuple[str | None, str | None]
Snapshots = Mapping[Place, Sequence["UsageSnapshot"]]


def replay_plan(
    repository: "SyncRepository",
    plan: Plan,
    since: datetime,
    now: datetime,
    trace: Trace | None = None,
    view: View = EVERYTHING,
) -> Replayed:
    """Return what the plan would have refused from the hour of ``since`` on, of the buckets in view. Raises
    ``CommandError`` if the trace cannot be read.
    """
    since = hour_of(since)
    subjects = _subjects(repository, plan)
    back = _looks_back(repository, plan)
    used = _read(repository, subjects, since - back, now)
    before, after = LimitsAfter(repository, plan, applied=False), LimitsAfter(repository, plan)
    chosen = _subjects_in_view(repository, plan, view)

    def limits_of(place: Place) -> "BucketLimits | None":
        asked = _covering(place) & subjects
        return after.bucket(*place) if asked and _changes(before.bucket(*place), after.bucket(*place)) else None

    span = {"begin": since - min(back, BEFORE), "since": since, "now": now}
    traced = decide(trace, limits_of, **span) if trace and subjects else {}
    if subjects and not traced and not any(each.window_start >= since for found in used.values() for each in found):
        why = "no use of what the plan changes is known of this time"
        return Replayed.of_nothing(plan.namespace, since, now, why, LONGER)
    judge = _Judge(since, since - back, None if trace is None else trace.name)
    for place in sorted(used.keys() | traced.keys()):
        if not _is_shown(place, view, chosen):
            continue
        snapshots = used.get(place, [])
        then = [each for each in snapshots if each.window_start >= since]
        known = traced.get(place)
        if known is not None and _has_all(known, then):
            judge.add_traced(place, after.bucket(*place), known)
        elif then:
            judge.add(place, before.bucket(*place), after.bucket(*place), snapshots)
    return judge.replayed(plan, now)


def _covering(place: Place) -> set[Subject]:
    """Return the subjects that a bucket is of."""
    entity_id, resource = place
    return {(each, on) for each in (entity_id, None) for on in (resource, None)}


def _subjects_in_view(repository: "SyncRepository", plan: Plan, view: View) -> set[Subject]:
    """Return whose use the changes in the view's pattern may decide otherwise."""
    if view.pattern is None:
        return set()
    fitting = (change for change in plan.changes if change.address.fits(view.pattern))
    return {subject for change in fitting for subject in _subjects_of(repository, change)}


def _is_shown(place: Place, view: View, chosen: set[Subject]) -> bool:
    """Return whether a view shows a bucket: by its entity, and by a change in its pattern."""
    if view.entities and place[0] not in view.entities:
        return False
    return view.pattern is None or bool(_covering(place) & chosen)


def hour_of(instant: datetime) -> datetime:
    """Return the begin of the hour: usage has no shorter times."""
    return instant.replace(minute=0, second=0, microsecond=0)


def _changes(before: "BucketLimits", after: "BucketLimits") -> bool:
    """Return whether a plan changes what decides of the calls on a bucket."""
    return bool(differs(before, after)) or (before.disabled, before.bypass) != (after.disabled, after.bypass)


def _has_all(traced: Traced, snapshots: Iterable["UsageSnapshot"]) -> bool:
    """Return whether a trace has all calls of the hours: both are counted from the same records of the stream."""
    return all(
        traced.calls.get(_ms(each.window_start) // HOUR_MS, 0) >= each.total_events + each.total_refused
        for each in snapshots
    )


def _subjects(repository: "SyncRepository", plan: Plan) -> set[Subject]:
    """Return the entities and resources to ask usage of: ``None`` stands for all of them."""
    subjects: set[Subject] = set()
    for change in plan.changes:
        subjects.update(_subjects_of(repository, change))
        if len(subjects) > SUBJECTS:
            break
    return {(None, None)} if len(subjects) > SUBJECTS or (None, None) in subjects else subjects


def _subjects_of(repository: "SyncRepository", change: Change) -> Iterator[Subject]:
    """Yield whose use a change may decide otherwise; an entity that gets another tier is one on all resources."""
    address = change.address
    resource = None if address.resource == DEFAULT_RESOURCE or address.is_pattern else address.resource
    if address.tier is not None:
        for entity_id in repository.list_entities_of_tier(address.tier):
            yield entity_id, resource
    elif not address.is_record or changes_tier(change):
        yield address.entity, resource


def _looks_back(repository: "SyncRepository", plan: Plan) -> timedelta:
    """Return how long before the replay usage counts: until the slowest changed limit is full, at least an hour."""
    from zae_limiter.maintenance import looks_back_ms

    found = [
        looks_back_ms(limit) for limit in _new_limits(repository, plan) if limit.kind not in ("total", "concurrent")
    ]
    longest = min(LONGEST // timedelta(milliseconds=1), max(found, default=0))
    return max(HOUR, -(-timedelta(milliseconds=longest) // HOUR) * HOUR)


def _new_limits(repository: "SyncRepository", plan: Plan) -> Iterator["Limit"]:
    """Yield the limits that the plan declares, and those of the tiers that it gives to entities."""
    for change in plan.changes:
        if change.after is not None and not isinstance(change.after, RecordDecl):
            yield from (limit_of(name, decl) for name, decl in change.after.limits.items())
    given = {tier_after(change) for change in plan.changes if change.address.is_record and changes_tier(change)}
    stored = repository.list_tiers() if given - {None} else {}
    for name in sorted(given & stored.keys(), key=str):
        for resource in stored[str(name)]:
            yield from repository.get_tier_limits(str(name), resource)


def _read(
    repository: "SyncRepository",
    subjects: Iterable[Subject],
    start: datetime,
    now: datetime,
) -> Snapshots:
    found: dict[Place, dict[datetime, UsageSnapshot]] = defaultdict(dict)
    for entity_id, resource in subjects:
        for each in every_row(partial(_page, repository, entity_id, resource, start, now)):
            found[each.entity_id, each.resource][each.window_start] = each
    return {place: [hours[at] for at in sorted(hours)] for place, hours in found.items()}


def _page(
    repository: "SyncRepository",
    entity_id: str | None,
    resource: str | None,
    start: datetime,
    now: datetime,
    size: int,
    behind: str | None,
) -> tuple[Sequence["UsageSnapshot"], str | None]:
    page = repository.get_usage_snapshots(
        entity_id=entity_id, resource=resource, start=start, end=now, limit=size, next=behind
    )
    return page.snapshots, page.next


class _Judge:
    """Judges one bucket after the other, and adds up what it finds."""

    def __init__(self, since: datetime, begin: datetime, trace: str | None) -> None:
        self._trace, self._traced = trace, 0
        self._since_ms, self._begin_ms = _ms(since), _ms(begin)
        self._since = since
        self._findings: list[Finding] = []
        self._totals: list[tuple[Bounds, int]] = []
        self._slots: set[str] = set()
        self._unused: set[str] = set()
        self._bare: set[str] = set()

    def add(
        self, place: Place, before: "BucketLimits", after: "BucketLimits", snapshots: Sequence["UsageSnapshot"]
    ) -> None:
        """Judge a bucket by the limits that the plan changes of it."""
        from zae_limiter.maintenance import DISABLED, Bounds

        changed = differs(before, after)
        then = [each for each in snapshots if each.window_start >= self._since]
        calls = sum(each.total_events + each.total_refused for each in then)
        refused = sum(each.total_refused for each in then)
        if before.limits and not after.limits:
            self._bare.add("/".join(place))
        if not _changes(before, after):
            return
        if after.disabled:
            self._findings.append(Finding(*place, DISABLED, "", calls, refused, calls, calls))
            self._totals.append((Bounds(calls, calls, calls), refused))
            return
        by_hour: list[list[Bounds]] = [[] for _ in then]
        for limit in after.limits:
            if limit.name in changed:
                bounds = self._judged(place, limit, snapshots)
                shadow = limit.shadow or after.bypass
                self._find(place, limit, bounds, refused, shadow=shadow)
                if not shadow:
                    for hour, each in zip(by_hour, bounds, strict=False):
                        hour.append(each)
        self._totals.append((_together(calls, by_hour), refused))

    def add_traced(self, place: Place, after: "BucketLimits", traced: Traced) -> None:
        """Add the verdicts of a trace, by all limits that the bucket has after the plan."""
        from zae_limiter.maintenance import Bounds

        self._traced += 1
        judged = traced.judged
        limits = {limit.name: limit for limit in after.limits}
        for name, (least, most) in judged.limits.items():
            limit = limits.get(name)
            rule, shadow = ("", False) if limit is None else (rule_text(limit), limit.shadow or after.bypass)
            if limit is not None and name not in traced.used:
                self._unused.add(f"{'/'.join(place)} {name}")
                continue
            self._findings.append(
                Finding(*place, name, rule, judged.calls, judged.before, least, most, shadow, source="trace")
            )
        if not limits:
            self._bare.add("/".join(place))
        self._slots.update(f"{'/'.join(place)} {limit.name}" for limit in after.limits if limit.kind == "concurrent")
        self._totals.append((Bounds(judged.least, judged.most, judged.calls), judged.before))

    def _judged(self, place: Place, limit: "Limit", snapshots: Sequence["UsageSnapshot"]) -> list["Bounds"]:
        """Return the bounds for each hour of the replay; none for a limit of which nothing is known."""
        from zae_limiter.maintenance import Hour, judged

        if limit.kind == "concurrent":
            self._slots.add(f"{'/'.join(place)} {limit.name}")
            return []
        if not any(limit.name in each.consumed for each in snapshots):
            self._unused.add(f"{'/'.join(place)} {limit.name}")
            return []
        hours = [*self._hours(limit.name, snapshots)]
        if hours[0].begin_ms > self._begin_ms:  # an hour without use
            hours.insert(0, Hour(self._begin_ms, 0, 0, 0))
        return [bounds for hour, bounds in judged(limit, hours) if hour.begin_ms >= self._since_ms]

    def _hours(self, name: str, snapshots: Iterable["UsageSnapshot"]) -> Iterator["Hour"]:
        from zae_limiter.maintenance import Hour

        for each in snapshots:
            yield Hour(_ms(each.window_start), each.total_events, each.total_refused, each.consumed.get(name, 0))

    def _find(self, place: Place, limit: "Limit", bounds: Sequence["Bounds"], refused: int, *, shadow: bool) -> None:
        from zae_limiter.maintenance import summed

        if bounds:
            total = summed(bounds)
            found = Finding(*place, limit.name, rule_text(limit), total.calls, refused, total.least, total.most, shadow)
            self._findings.append(found)

    def replayed(self, plan: Plan, now: datetime) -> Replayed:
        """Return all that was found."""
        totals = [bounds for bounds, _ in self._totals]
        return Replayed(
            plan.namespace,
            self._since,
            now,
            calls=sum(each.calls for each in totals),
            before=sum(refused for _, refused in self._totals),
            least=sum(each.least for each in totals),
            most=sum(each.most for each in totals),
            buckets=len(totals),
            traced=self._traced,
            findings=self._findings,
            notes=[*self._notes(plan)],
        )

    def _notes(self, plan: Plan) -> Iterator[str]:
        records = [change for change in plan.changes if change.address.is_record]
        if len(records) == len(plan.changes) and not any(map(changes_tier, records)):
            yield "the plan changes no limits and no switches: no call would be decided otherwise"
        moved = sum(map(changes_parents, records))
        if moved:
            whose = "usage does not say whose calls a parent's are"
            yield f"{counted(moved, 'change')} of parents left out: {whose}"
        if self._bare:
            yield f"no level has limits for these any more, so that their calls fail: {_some(self._bare)}"
        if self._slots:
            yield f"slots left out, because usage does not say how long calls held them: {_some(self._slots)}"
        if self._unused:
            yield f"no use is known of a limit by this name: {_some(self._unused)}"
        if self._trace is not None and not self._traced:
            yield f"the trace in {self._trace} has not all calls of any of these buckets"


def _together(calls: int, by_hour: Iterable[Sequence["Bounds"]]) -> "Bounds":
    """Return the bounds of all limits of a bucket: at least what one limit refuses, at most all of them together."""
    from zae_limiter.maintenance import Bounds

    least = most = 0
    for hour in by_hour:
        if hour:
            least += max(each.least for each in hour)
            most += min(hour[0].calls, sum(each.most for each in hour))
    return Bounds(least, most, calls)


def _some(names: Iterable[str], most: int = 3) -> str:
    ordered = sorted(names)
    more = f", and {len(ordered) - most:,} more" if len(ordered) > most else ""
    return f"{', '.join(ordered[:most])}{more}"


def _ms(instant: datetime) -> int:
    return int(instant.timestamp()) * 1000
