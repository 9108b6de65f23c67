"""The rows of `top`: what is left of each bucket, how fast it is used, who was refused and by which limit."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ..data.showing import of_window
from ..rates import about, amount

if TYPE_CHECKING:
    from zae_limiter.values import Bucket, Refuser
    from zae_limiter.values.buckets import BucketLimit

State = Literal["", "low", "out"]
Order = Literal["refused", "full", "rate", "entity"]
ORDERS: Final[tuple[Order, ...]] = ("refused", "full", "rate", "entity")

MINUTE_MS: Final = 60_000
RATE_SECONDS: Final = 60  # over which rates are measured; a process writes refusals of an empty bucket once a minute
LOW, VERY_LOW = 0.25, 0.05  # parts left from which a row is marked
NOBODY: "Final[Mapping[Refuser, int]]" = MappingProxyType({})
WIDE: Final = 100  # columns of a screen that shows all columns of a row
FULL, EMPTY, FULL_PLAIN, EMPTY_PLAIN = "█", "░", "#", "."


class Place(NamedTuple):
    """An entity on a resource."""

    entity_id: str
    resource: str


class Used(NamedTuple):
    """Acquires of an entity on a resource: admitted, refused, and the refused by the limits that were short."""

    admitted: int
    refused: int
    refused_by: "Mapping[Refuser, int]" = NOBODY


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read at ``at_ms``: usage since ``since_ms``, the begin of an hour, and buckets.

    ``parents``: those of the entities that have some, by id. ``shadows``: the limits in shadow of those buckets that
    have some.
    """

    at_ms: int
    since_ms: int
    usage: Mapping[Place, Used] = field(hash=False)
    buckets: Mapping[Place, "Bucket"] = field(hash=False)
    parents: Mapping[str, Sequence[str]] = field(hash=False, default_factory=dict)
    shadows: Mapping[Place, frozenset[str]] = field(hash=False, default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One bucket. ``limit`` is the one of which the smallest part is left, of those that refuse; without a bucket there
    is none. ``shadow``: it refuses no call, and no other limit does.

    ``left`` is that part, negative in debt. ``per_minute``: its tokens used in a minute; ``refused``: the acquires
    refused in this hour and the one before; ``refused_per_minute``: those that its bucket has counted in a minute. A
    rate is ``None`` before a second reading of the bucket.
    ``blocked_by``: the limit that refused most of them, as ``acme/rpm``; empty if none did. ``blocked_at``: its bucket,
    if that was read.
    ``until``: the end of the window of which ``available`` is left, as ``until 2026-12-01 00:00``; empty without one.
    ``unit``: the currency of a limit of money, else empty. ``barred``: the limit of ``blocked_by`` is spent now.
    """

    place: Place
    limit: str
    available: int
    burst: int
    left: float
    per_minute: float | None
    refused: int
    refused_per_minute: float | None
    blocked_by: str
    until: str = ""
    unit: str = ""
    barred: bool = False
    shadow: bool = False
    blocked_at: Place | None = None

    @property
    def is_empty(self) -> bool:
        """Whether hardly a token of its own is left, and calls are refused for it."""
        return bool(self.limit) and not self.shadow and self.left <= VERY_LOW

    @property
    def limit_text(self) -> str:
        """The limit for people: one in shadow says so."""
        return f"{self.limit} (shadow)" if self.shadow else self.limit or "-"

    @property
    def state(self) -> State:
        """``out`` if any limit refuses calls, or hardly a token is left; ``low`` if few are left; else empty."""
        if self.refused_per_minute or self.barred or self.is_empty:
            return "out"
        return "low" if self.limit and not self.shadow and self.left <= LOW else ""


class Recent:
    """The readings of the last minute, from which rates are computed; a look comes ``every`` so many seconds."""

    def __init__(self, every: float) -> None:
        self._readings: deque[Reading] = deque(maxlen=1 + max(1, round(RATE_SECONDS / every)))

    def __bool__(self) -> bool:
        return bool(self._readings)

    def add(self, reading: Reading) -> None:
        """Keep a new reading."""
        self._readings.append(reading)

    @property
    def parents(self) -> Mapping[str, Sequence[str]]:
        """The parents of entities, of the last reading."""
        return self._readings[-1].parents

    def rows(self, order: Order, only: str, most: int, *, tree: bool) -> list[Row]:
        """Return the first rows of the last reading, with the rates since the oldest, and ``tree`` those above them."""
        before = self._readings[0] if len(self._readings) > 1 else None
        rows = rows_of(self._readings[-1], before, order, only)
        return first_rows(rows, most, self.parents if tree else {})


def rows_of(reading: Reading, before: Reading | None, order: Order = "refused", only: str = "") -> list[Row]:
    """Return a row for each place of a reading whose entity or resource has ``only`` in it, in order."""
    places = {*reading.usage, *reading.buckets}
    rows = [_row(place, reading, before) for place in places if only in place.entity_id or only in place.resource]
    return sorted(rows, key=lambda row: (*_rank(row, order), row.place))


def first_rows(rows: Sequence[Row], most: int, parents: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return the first ``most`` rows, and of the others those of their ancestors on the same resource."""
    shown = {row.place for row in rows[:most]}
    left = [*shown]
    while left:
        place = left.pop()
        above = {Place(parent, place.resource) for parent in parents.get(place.entity_id, ())} - shown
        shown |= above
        left += above
    return [row for row in rows if row.place in shown]


def _rank(row: Row, order: Order) -> tuple[float, ...]:
    """Return what comes first as the smallest."""
    ranks: dict[Order, tuple[float, ...]] = {
        "refused": (-(row.refused_per_minute or 0), -row.refused, row.left),
        "full": (row.left, -row.refused),
        "rate": (-(row.per_minute or 0), row.left),
        "entity": (),
    }
    return ranks[order]


def _row(place: Place, reading: Reading, before: Reading | None) -> Row:
    usage, bucket = reading.usage.get(place), reading.buckets.get(place)
    shadows = reading.shadows.get(place, frozenset())
    limits = () if bucket is None else bucket.limits
    tightest = min([each for each in limits if each.limit.name not in shadows] or limits, key=_left, default=None)
    refuser = _refuser(usage)
    blocked_at = None if refuser is None else Place(refuser.entity_id, place.resource)
    return Row(
        place=place,
        limit=tightest.limit.name if tightest else "",
        available=tightest.available if tightest else 0,
        burst=tightest.limit.usable_burst if tightest else 0,
        left=_left(tightest) if tightest else 1.0,
        per_minute=_used_per_minute(place, tightest, reading, before),
        refused=usage.refused if usage else 0,
        refused_per_minute=_refused_per_minute(place, reading, before),
        blocked_by="" if refuser is None else str(refuser),
        until=of_window(tightest).strip() if tightest else "",
        unit=tightest.limit.unit if tightest else "",
        barred=refuser is not None and _is_spent(refuser, place.resource, reading),
        shadow=tightest is not None and tightest.limit.name in shadows,
        blocked_at=blocked_at if blocked_at in reading.buckets else None,
    )


def _left(limit: "BucketLimit") -> float:
    return limit.available / limit.limit.usable_burst if limit.limit.burst else 0.0


def _used_per_minute(
    place: Place, limit: "BucketLimit | None", reading: Reading, before: Reading | None
) -> float | None:
    bucket = before.buckets.get(place) if before else None
    if limit is None or bucket is None or before is None:
        return None
    consumed = next((each.consumed for each in bucket.limits if each.limit.name == limit.limit.name), limit.consumed)
    return _a_minute(limit.consumed - consumed, reading, before)


def _refused_per_minute(place: Place, reading: Reading, before: Reading | None) -> float | None:
    bucket, earlier = reading.buckets.get(place), before.buckets.get(place) if before else None
    if bucket is None or earlier is None or before is None:
        return None
    return _a_minute(bucket.refused - earlier.refused, reading, before)


def _a_minute(more: int, reading: Reading, before: Reading) -> float | None:
    """Return the rate of a counter, which a bucket that is made again begins anew; ``None`` without a time between."""
    passed = reading.at_ms - before.at_ms
    return max(0, more) * MINUTE_MS / passed if passed > 0 else None


def _refuser(usage: "Used | None") -> "Refuser | None":
    """Return the limit that refused most of the calls, their own or an ancestor's; ``None`` if none is known."""
    if usage is None or not usage.refused_by:
        return None
    refuser, count = max(usage.refused_by.items(), key=lambda each: each[1])
    return refuser if count * 2 >= usage.refused else None


def _is_spent(refuser: "Refuser", resource: str, reading: Reading) -> bool:
    """Return whether hardly a token of a limit is left."""
    bucket = reading.buckets.get(Place(refuser.entity_id, resource))
    limits = () if bucket is None else bucket.limits
    return any(each.limit.name == refuser.limit_name and _left(each) <= VERY_LOW for each in limits)


def bar(left: float, width: int, *, symbols: bool = True) -> str:
    """Return a bar of what is left: all of it for 1, nothing for 0 or a debt."""
    filled = max(0, min(width, round(left * width)))
    full, empty = (FULL, EMPTY) if symbols else (FULL_PLAIN, EMPTY_PLAIN)
    return full * filled + empty * (width - filled)


def rate(per_minute: float | None) -> str:
    """Return a rate as text: `12`, `0.5`, `-` if it is not known yet."""
    if per_minute is None:
        return "-"
    return f"{per_minute:,.0f}" if per_minute >= 10 or per_minute == int(per_minute) else f"{per_minute:.1f}"


class Counted(NamedTuple):
    """A time for which rows have counts, and no rates: its name, and how many minutes it was."""

    name: str
    minutes: float

    def of(self, per_minute: float | None) -> float | None:
        """Return the count that made a rate."""
        return None if per_minute is None else round(per_minute * self.minutes)


def used(row: Row, counted: Counted | None = None) -> str:
    """Return what is used of the row's limit in a minute, or in a time, as text."""
    tokens = row.per_minute if counted is None else counted.of(row.per_minute)
    return about(tokens, row.unit) if row.unit and tokens is not None else rate(tokens)


def cells(
    row: Row, lead: str = "", *, wide: bool, symbols: bool = True, counted: Counted | None = None
) -> Sequence[str]:
    """Return the cells of a row below ``heads``; ``lead`` is what leads to it in a tree.

    On a narrow screen, the limit of an ancestor that refuses stands in place of the row's own, and what is left of that
    is in the ancestor's row.
    """
    left = amount(row.available, row.unit) if row.limit else "-"
    short = bar(row.left, 8 if wide else 4, symbols=symbols)
    refused = f"{row.refused:,}"
    lately = rate(row.refused_per_minute if counted is None else counted.of(row.refused_per_minute))
    if not wide:
        own = (row.limit_text, f"{short} {left}")
        is_own = row.blocked_by in ("", f"{row.place.entity_id}/{row.limit}")
        limit, rest = own if is_own else (row.blocked_by, "-")
        return f"{lead}{row.place.entity_id}", row.place.resource, limit, rest, lately if counted else refused
    return (
        f"{lead}{row.place.entity_id}",
        row.place.resource,
        row.limit_text,
        f"{short} {left}",
        used(row, counted),
        refused,
        lately,
        row.blocked_by or "-",
    )


def heads(*, wide: bool, counted: Counted | None = None) -> Sequence[str]:
    """Return the heads of the columns."""
    span = "/MIN" if counted is None else f" IN {counted.name}"
    if not wide:
        return "ENTITY", "RESOURCE", "LIMIT", "LEFT", "REFUSED" if counted is None else f"REFUSED{span}"
    return "ENTITY", "RESOURCE", "LIMIT", "LEFT", f"USED{span}", "REFUSED", f"REFUSED{span}", "BLOCKED BY"
