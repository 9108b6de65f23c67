"""The use of an entity on a resource beside its limits, window by window: limits as they were then, and refusals.

A limit of a rate is compared by what comes back in a window. Of a quota, a bar is what was used since its own window
began. A change of the limits that decide today turns the line back to what held before; before a level was set at all,
other levels held, whose values are not looked for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from zae_limiter.maintenance import given_in, is_plain_limit, plain_limit, window_at

if TYPE_CHECKING:
    from zae_limiter import Limit, UsageSnapshot
    from zae_limiter.values import AuditEvent, BucketExplanation

MILLI: Final = 1000
OWN: Final = "its own limits"
OF_LIMITS: Final = ("limits_", "override_", "switches_")
MOST_EDGES: Final = 500  # of a schedule, in all windows


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that changed the limit at an instant, in words."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class LimitUse:
    """Tokens used of a limit in each window, and how many it gave; ``None`` where that is not known.

    ``adds_up``: the bars of a quota's window add up, from one to the next.
    """

    limit: "Limit"
    used: tuple[int | None, ...]
    given: tuple[int | None, ...]
    adds_up: bool


@dataclass(frozen=True, slots=True)
class History:
    """Windows from ``at[0]`` on, a ``step`` apart; ``refused`` has the refusals of each limit, worst first."""

    at: tuple[datetime, ...]
    step: timedelta
    limits: tuple[LimitUse, ...]
    admitted: tuple[int, ...]
    refused: Mapping[str, tuple[int, ...]]
    marks: tuple[Mark, ...]


def history_of(
    bucket: "BucketExplanation",
    snapshots: Sequence["UsageSnapshot"],
    events: Sequence[tuple["AuditEvent", Sequence[str]]],
    at: Sequence[datetime],
    step: timedelta,
    now: datetime,
) -> History:
    """Return the history of an entity's own bucket: of its snapshots, and of the newest changes of its limits, each
    with what it changed in words.
    """
    of_window = {each.window_start: each for each in snapshots}
    found = [of_window.get(when) for when in at]
    names = [each.limit.name for each in bucket.limits]
    own = f"its own {names[0]}" if len(names) == 1 else OWN
    refused: dict[str, Counter[datetime]] = {}
    for each in snapshots:
        by = {str(refuser): number for refuser, number in each.refused_by.items()}
        by[own] = each.total_refused - sum(by.values())
        for name, number in by.items():
            if number > 0:
                refused.setdefault(name, Counter())[each.window_start] += number
    worst = sorted(refused, key=lambda name: (-refused[name].total(), name))
    late = [pair for pair in events if at[0] <= _instant(pair[0]) and pair[0].action.startswith(OF_LIMITS)]
    told = [(each, words) for each, words in late if each.resource in (None, bucket.resource)]
    changed = [each for each, _ in told]
    limits = [each for each in bucket.limits if each.limit.kind != "concurrent"]  # slots come back: no sum says much
    return History(
        at=tuple(at),
        step=step,
        limits=tuple(
            _use(each.limit, each.available, _versions(each.limit, changed), found, at, step, now) for each in limits
        ),
        admitted=tuple(0 if each is None else each.total_events for each in found),
        refused={name: tuple(refused[name][when] for when in at) for name in worst},
        marks=tuple(sorted(_marks(bucket, told, at[0], now), key=lambda mark: mark.at)),
    )


def _instant(event: "AuditEvent") -> datetime:
    return datetime.fromisoformat(event.at)


Versions = Sequence[tuple[datetime, "Limit | None"]]


def _versions(limit: "Limit", changed: Sequence["AuditEvent"]) -> "Versions":
    """Return the values of a limit, newest first, each with the instant from which on it held."""
    found: list[tuple[datetime, Limit | None]] = []
    values: Limit | None = limit
    for event in sorted(changed, key=_instant, reverse=True):
        before, after = (_limit_in(each, limit.name) for each in (event.before, event.after))
        if before != after:
            found.append((_instant(event), values))
            values = before
    return [*found, (datetime.min.replace(tzinfo=UTC), values)]


def _limit_in(values: Mapping[str, Any] | None, name: str) -> "Limit | None":
    plain = ((values or {}).get("limits") or {}).get(name)
    if not isinstance(plain, Mapping) or not is_plain_limit(plain):
        return None
    try:
        return plain_limit(name, plain)
    except (ValueError, TypeError, KeyError, AttributeError):  # written by another version: the line ends there
        return None


def _held(versions: Versions, at: datetime) -> "Limit | None":
    return next(values for since, values in versions if since <= at)


def _use(
    limit: "Limit",
    available: int,
    versions: Versions,
    found: Sequence["UsageSnapshot | None"],
    at: Sequence[datetime],
    step: timedelta,
    now: datetime,
) -> LimitUse:
    used = [0 if each is None else each.consumed.get(limit.name, 0) for each in found]
    adds_up = limit.kind == "total" or (limit.kind == "calendar" and _length(limit, now) > step)
    held = [_held(versions, min(when + step - timedelta(milliseconds=1), now)) for when in at]
    if not adds_up:
        given = [None if each is None else _given(each, when, step) for each, when in zip(held, at, strict=True)]
        return LimitUse(limit, tuple(used), tuple(given), adds_up=False)
    sums = _sums(limit, limit.capacity - available, used, at, step, now)
    return LimitUse(limit, tuple(sums), tuple(None if each is None else each.capacity for each in held), adds_up=True)


def _length(limit: "Limit", at: datetime) -> timedelta:
    window = window_at(limit, _ms(at), None)
    if window is None or window.start_ms is None or window.end_ms is None:
        return timedelta.max
    return timedelta(milliseconds=window.end_ms - window.start_ms)


def _given(limit: "Limit", begin: datetime, step: timedelta) -> int | None:
    """Return the tokens that come back in a window, by the limit's schedule."""
    if limit.kind == "first_use":
        return None if limit.refill_period > step.total_seconds() else _in(limit, step.total_seconds())
    tokens = 0.0
    for values, seconds in _pieces(limit, begin, begin + step):
        tokens += (given_in(values, 86_400) if values.capacity else 0) / MILLI * seconds / 86_400
    return round(tokens)


def _in(limit: "Limit", seconds: float) -> int:
    return round(limit.capacity * seconds / limit.refill_period)


def _pieces(limit: "Limit", begin: datetime, end: datetime) -> "Iterator[tuple[Limit, float]]":
    """Yield the values that a limit has in a time, and for how many seconds."""
    if not limit.schedule:
        yield limit, (end - begin).total_seconds()
        return
    from zae_limiter.values.timetables import timetable_of

    table, at_ms, end_ms = timetable_of(limit), _ms(begin), _ms(end)
    for _ in range(MOST_EDGES):
        piece = table.at(at_ms)
        until_ms = min(piece.end_ms, end_ms)
        yield piece.limit, (until_ms - at_ms) / 1000
        at_ms = until_ms
        if at_ms >= end_ms:
            return


def _sums(
    limit: "Limit", used_now: int, used: Sequence[int], at: Sequence[datetime], step: timedelta, now: datetime
) -> list[int | None]:
    """Return what was used of a quota by the end of each window, since the quota's own window began."""
    numbers = [_number(limit, min(when + step - timedelta(milliseconds=1), now)) for when in at]
    sums: list[int | None] = [None] * len(at)
    this, left = _number(limit, now), used_now
    for place in reversed(range(len(at))):  # of the window under way, back from what the bucket says now
        if numbers[place] == this:
            sums[place] = max(0, left)
            left -= used[place]
    first = numbers[0]
    for place, number in enumerate(numbers):  # of those before, from their own begin on
        if number not in (this, first):
            before = sums[place - 1] if place and numbers[place - 1] == number else 0
            sums[place] = (before or 0) + used[place]
    return sums


def _number(limit: "Limit", at: datetime) -> int:
    window = window_at(limit, _ms(at), None)
    return 0 if window is None else window.number


def _marks(
    bucket: "BucketExplanation", told: Sequence[tuple["AuditEvent", Sequence[str]]], since: datetime, now: datetime
) -> Iterator[Mark]:
    """Yield the changes of the limits, and the instants at which a schedule turned them over."""
    for event, words in told:
        values = "; ".join(words).replace("limits.", "")
        by = f" by {event.principal}" if event.principal else ""
        yield Mark(_instant(event), f"{event.action.replace('_', ' ')}{by}: {values}" if values else event.action)
    for each in bucket.limits:
        yield from _turns(each.limit, since, now)


def _turns(limit: "Limit", since: datetime, now: datetime) -> Iterator[Mark]:
    if not limit.schedule:
        return
    from zae_limiter.values.timetables import timetable_of

    table = timetable_of(limit)
    piece = table.at(_ms(since))
    for _ in range(MOST_EDGES):
        if piece.end_ms > _ms(now):
            return
        piece = table.after(piece)
        name = piece.entry.name if piece.entry is not None else "as without its schedule"
        at = datetime.fromtimestamp(piece.begin_ms / 1000, UTC)
        yield Mark(at, f"{limit.name}: {name}, {piece.limit.text if not piece.limit.schedule else piece.limit}")


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
