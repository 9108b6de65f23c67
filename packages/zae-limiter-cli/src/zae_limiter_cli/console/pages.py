"""What the pages show, read with the commands' own rooms."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import nsmallest
from math import inf
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Literal

from ..audit.changes import changes
from ..behind import Watch
from ..errors import one_line
from ..explanation.next_steps import next_steps
from ..explanation.report import in_force, read_report, subject_of
from ..explanation.showing import amounts_of, asked_by, by_draw, served, until
from ..live.health import Health
from ..live.minutes import Minutes
from ..live.reading import Reader
from ..live.rows import Order, Place, Reading, Recent, Row, State, rate, used
from ..live.tree import Branch, tree_of
from ..live.verdict import Verdict, verdict_of
from ..rates import rate as rate_of
from ..skipped import collecting
from ..usage.budgets import read_budgets
from ..usage.burn_down import BurnDown, read_burn_down
from ..usage.forecast import BUDGETS
from ..usage.history import history_of
from ..usage.own import with_own
from ..usage.teams import Team, calls_of, teams_of
from ..usage.units import units_of
from .figures import (
    MOST_REFUSERS,
    Card,
    Figure,
    HeatRow,
    card_of,
    heat_of,
    history_figure,
    minutes_figure,
    usage_figure,
)

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot, ZAELimiterError
    from zae_limiter.stores import Unreadable
    from zae_limiter.values import Bucket
    from zae_limiter.values.usage import Window

Span = Literal["24h", "30d"]

SPANS: "Final[dict[Span, tuple[Window, int, timedelta]]]" = {
    "24h": ("hourly", 24, timedelta(hours=1)),
    "30d": ("daily", 30, timedelta(days=1)),
}
MOST_CHANGES: Final = 50  # on a page
EVER: Final = datetime.fromtimestamp(0, UTC)
SNAPSHOTS: Final = 1000  # that core reads at once
MOST_PAGES: Final = 3  # of them
MOST_BUDGETS: Final = 4  # on the start page, of those that are read
READ_BUDGETS: Final = 8  # buckets whose budgets are looked at, each by a query; those shown by one more
BUDGETS_SECONDS: Final = 300.0  # for which a forecast is shown
MOST_EVENTS: Final = 50  # that move the line of a limit
USAGE_SECONDS: Final = 30.0  # for which usage is shown; the aggregator counts it some seconds later anyway
MOST_BUSIEST: Final = 10  # of refusals, and as many of calls, of more entities than a page may read
MOST_TEAMS: Final = 40  # rows of the heat map
MOST_BELOW: Final = 8  # of them below one parent
MOST_RECORDS: Final = 100  # of entities, of which the parents are read


@dataclass(frozen=True, slots=True)
class Shown:
    """A row as the page has it: its texts, and ``state`` for its colour."""

    row: Row
    percent: int
    state: State
    used: str
    refused_rate: str


@dataclass(frozen=True, slots=True)
class Shoot:
    """A row in the tree: those below it, and ``elsewhere``, the other parents below which it is shown as well."""

    shown: Shown
    elsewhere: tuple[str, ...]
    below: tuple["Shoot", ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used in each window, which begin ``at``: of all as a picture, and of teams as a heat map.

    Without a picture, the heat map has the busiest buckets alone, and ``others`` that were used lately are left out.
    """

    figure: Figure | None
    heat: list[HeatRow]
    at: Sequence[datetime]
    step: timedelta
    others: int = 0


class Pages:
    """Reads for all browsers: the rows at most once in ``every`` seconds, however many look, and none waits for it."""

    def __init__(
        self, repository: "SyncRepository", reader: Reader, health: Health, *, every: float, options: list[str]
    ) -> None:
        self.repository, self.options = repository, options
        self._reader, self._health, self._every = reader, health, every
        self._lock, self._usage_lock, self._counted_lock = Lock(), Lock(), Lock()
        self._counted, self.late = Watch(), ""
        self._usage: dict[Span, tuple[float, Usage]] = {}
        self._recent = Recent(every)
        self._minutes = Minutes()
        self._last: Reading | None = None
        self._budgets: list[BurnDown] = []
        self._budgets_at: float | None = None
        self._read_at = 0.0
        self._reads = False
        self._problem: ZAELimiterError | None = None
        self._unreadable: Sequence[Unreadable] = ()  # of the last reading

    def rows(self, order: Order, only: str, now: float) -> list[Shown]:
        """Return the rows of the last reading. ``now``: of `time.monotonic`."""
        with self._lock:
            return [_shown(row) for row in self._look(now).rows(order, only, self._reader.most, tree=False)]

    def tree(self, order: Order, only: str, now: float) -> list[Shoot]:
        """Return the rows as trees, with those above them; as ``rows`` else."""
        with self._lock:
            recent = self._look(now)
            rows = recent.rows(order, only, self._reader.most, tree=True)
            known = {row.place for row in rows}
            above = {
                place: tuple(up for up in recent.parents.get(place.entity_id, ()) if Place(up, place.resource) in known)
                for place in known
            }
            return [_shoot(branch, None, above) for branch in tree_of(rows, recent.parents)]

    def progress(self) -> str:
        """Return how much usage was read, until all of it was."""
        return "" if self._reader.complete else f"The usage of {self._reader.known:,} was read so far, more follows."

    def _look(self, now: float) -> Recent:
        """Return what was read last, and have it read again meanwhile if it is too old: only the first look waits."""
        if not self._recent:
            self._take(self._read_rows())
            self._read_at = now
        elif self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        elif not self._reads and now - self._read_at >= self._every:
            self._reads, self._read_at = True, now
            Thread(target=self._read, daemon=True).start()
        return self._recent

    def _read(self) -> None:
        from zae_limiter import ZAELimiterError

        found: tuple[Reading, Sequence[Unreadable]] | None = None
        problem: ZAELimiterError | None = None
        try:
            found = self._read_rows()
        except ZAELimiterError as error:  # the next look reports it
            problem = error
        with self._lock:
            self._problem, self._reads = problem, False
            if found is not None:
                self._take(found)

    def _read_rows(self) -> "tuple[Reading, Sequence[Unreadable]]":
        with collecting() as skipped:
            reading = self._reader.read()
            return reading, skipped.take_errors()

    def _take(self, found: "tuple[Reading, Sequence[Unreadable]]") -> None:
        reading, self._unreadable = found
        self._recent.add(reading)
        self._minutes.add(reading)
        self._last = reading

    def unreadable(self) -> "Sequence[Unreadable]":
        """Return the records that the last reading of the rows had to skip."""
        with self._lock:
            return self._unreadable

    def health(self) -> str:
        """Return the line of the stack's parts."""
        with self._lock:
            return self._health.line()

    def look_how_late(self, now: float) -> None:
        """Look how far usage is counted, once a minute, once rows were read: ``late`` says that it is behind, in the
        words of commands. ``now`` as for ``rows``.
        """
        from zae_limiter import ZAELimiterError

        with self._lock:
            reading = self._last
        if reading is None:
            return
        busiest = sorted(reading.usage, key=lambda each: -reading.usage[each].admitted)
        with self._counted_lock:
            try:
                self.late = str(self._counted.look(self.repository, [*busiest, *reading.buckets], now) or "")
            except ZAELimiterError as error:
                self.late = f"how far usage is counted is not known: {one_line(str(error))}"

    def verdict(self, now: float) -> Verdict:
        """Return whether calls are refused now; ``now`` as for ``rows``."""
        with self._lock:
            return verdict_of(self._look(now).rows("refused", "", self._reader.most, tree=True))

    def minutes(self, now: float) -> Figure:
        """Return the refusals of the last hour by the minute, as far as they were seen."""
        with self._lock:
            self._look(now)
            at_ms = self._last.at_ms if self._last is not None else 0
            minutes, counts = self._minutes.by_limit(at_ms, MOST_REFUSERS)
            return minutes_figure(minutes, counts, self._minutes.since_ms)

    def budgets(self, now: float) -> list[Card]:
        """Return the budgets of the buckets on the page, those that are gone first. They are read now and then."""
        with self._lock:
            self._look(now)
            reading = self._last
        if reading is not None and (self._budgets_at is None or now - self._budgets_at >= BUDGETS_SECONDS):
            self._budgets_at = now
            at = datetime.fromtimestamp(reading.at_ms / 1000, UTC)
            fullest = nsmallest(
                READ_BUDGETS, [each for each in reading.buckets.values() if _share_left(each) < inf], key=_share_left
            )
            found, _ = read_budgets(self.repository, fullest, 1, MOST_BUDGETS, by_hour=False)
            self._budgets = [read_burn_down(self.repository, each, at) for each in found]
        return [card_of(each) for each in self._budgets]

    def why(self, place: Place, span: Span) -> dict[str, Any]:
        """Return the report on an acquire, the use of its limits, and the commands that help."""
        report = read_report(self.repository, place.entity_id, place.resource, None, cascade=False)
        at, step, now = self._windows(span)
        snapshots = self._snapshots(place.entity_id, place.resource, span, at) or []
        own = report.explanation.buckets[0]
        events = self.repository.get_audit_events(subject_of(own, own.source), limit=MOST_EVENTS).events
        told = [(event, list(changes(event))) for event in events]
        refuses = report.explanation.binding or report.explanation.disabled
        return {
            "report": report,
            "refused": bool(refuses),
            "in_force": in_force,
            "rate": rate_of,
            "asked": amounts_of(report),
            "served": served(report),
            "until": until(report),
            "drawn": " ".join(by_draw(report, f"An acquire of {amounts_of(report)}")),
            "notes": [*(each.sentence for each in report.unknown), *asked_by(report)],
            "changes": [(event, list(changes(event))) for event in report.changes],
            "steps": next_steps(report, self.options),
            "history": history_figure(history_of(own, snapshots, told, at, step, now)),
        }

    def usage(self, span: Span, now: float) -> Usage:
        """Return the usage of a span, which is read at most twice a minute, however many look. ``now`` as for ``rows``.

        It is all of it, unless that is more than a page may read: then that of the buckets that did the most lately.
        """
        with self._usage_lock:
            read_at, found = self._usage.get(span, (-inf, None))
            if found is None or now - read_at >= USAGE_SECONDS:
                found = self._whole_usage(span) or self._busiest(span, now)
                self._usage[span] = now, found
            return found

    def _whole_usage(self, span: Span) -> Usage | None:
        """Return the usage of all as a picture, and of teams as a heat map; ``None`` if that takes too many reads."""
        at, step, _ = self._windows(span)
        if self._reader.known > MOST_PAGES * SNAPSHOTS or (found := self._snapshots(None, None, span, at)) is None:
            return None
        own = [each for _, each in with_own(self.repository, found)]
        teams = teams_of(found, self._parents_of(found), at, MOST_TEAMS, MOST_BELOW)
        return Usage(usage_figure(own, at, step, self._units(own)), heat_of(teams, at, step), at, step)

    def _busiest(self, span: Span, now: float) -> Usage:
        """Return the usage of the buckets with the most refusals, and with the most calls, of this hour and the one
        before: a query for each.
        """
        from zae_limiter import ValidationError

        at, step, _ = self._windows(span)
        with self._lock:
            self._look(now)
            used = {} if self._last is None else self._last.usage
        refused = [place for place, each in used.items() if each.refused][:MOST_BUSIEST]
        others = sorted(used.keys() - refused, key=lambda place: (-used[place].admitted, place))[:MOST_BUSIEST]
        teams = list[Team]()
        for place in [*refused, *others]:
            with suppress(ValidationError):  # an id of the usage that no program can use today
                calls = calls_of(self._snapshots(*place, span, at) or (), at)
                teams.append(Team(f"{place.entity_id} on {place.resource}", 0, calls))
        return Usage(None, heat_of(teams, at, step), at, step, max(0, self._reader.known - len(teams)))

    def _units(self, snapshots: "Sequence[UsageSnapshot]") -> dict[str, str]:
        """Return the currencies of limits: those of the buckets that were read, and of other limits as `usage` finds
        them, as far as they can be read.
        """
        from zae_limiter import ZAELimiterError

        buckets = () if self._last is None else self._last.buckets.values()
        known = {each.limit.name: each.limit.unit for bucket in buckets for each in bucket.limits}
        try:
            others = units_of(self.repository, [each for each in snapshots if not each.consumed.keys() <= known.keys()])
        except ZAELimiterError:  # a damaged record, which the page of its entity names: its amounts stay tokens
            others = {}
        return {**others, **known}

    def _windows(self, span: Span) -> tuple[list[datetime], timedelta, datetime]:
        window, windows, step = SPANS[span]
        now = datetime.fromtimestamp(self.repository.namespace_state.now() / 1000, UTC)
        this = now.replace(minute=0, second=0, microsecond=0)
        this = this.replace(hour=0) if window == "daily" else this
        return [this - number * step for number in reversed(range(windows))], step, now

    def _snapshots(
        self, entity_id: str | None, resource: str | None, span: Span, at: Sequence[datetime]
    ) -> "list[UsageSnapshot] | None":
        """Return the usage of an entity on a resource, or of all; ``None`` if it has more snapshots than a page may
        read.
        """
        read = partial(
            self.repository.get_usage_snapshots, entity_id=entity_id, resource=resource, window=SPANS[span][0]
        )
        snapshots: list[UsageSnapshot] = []
        behind: str | None = None
        for _ in range(MOST_PAGES):
            page = read(start=at[0], limit=SNAPSHOTS, next=behind)
            snapshots += page.snapshots
            if (behind := page.next) is None:
                return snapshots
        return None

    def _parents_of(self, snapshots: "Sequence[UsageSnapshot]") -> dict[str, Sequence[str]]:
        """Return the parents of the busiest entities."""
        from zae_limiter.maintenance import SyncMaintenance

        calls = Counter[str]()
        for each in snapshots:
            calls[each.entity_id] += each.total_events + each.total_refused
        busiest = [name for name, _ in calls.most_common(MOST_RECORDS)]
        if not busiest:
            return {}
        records = SyncMaintenance(self.repository).get_entity_records(busiest, skip_unreadable=True)
        return {name: each.parent_ids for name, each in records.items()}

    def changes(self, before: str | None) -> tuple[list[tuple[Any, list[str]]], str | None]:
        """Return a page of changes of the namespace before this one, newest first, each with the values that it
        changed; and what the next page is before, if there is one.
        """
        page = self.repository.get_namespace_audit_events(EVER, limit=MOST_CHANGES, start=before)
        return [(event, list(changes(event))) for event in page.events], page.next


def _share_left(bucket: "Bucket") -> float:
    """Return the smallest part that is left of a budget of a bucket, as a share; infinite without one."""
    budgets = [each for each in bucket.limits if each.limit.kind in BUDGETS and each.limit.capacity]
    return min((each.available / each.limit.capacity for each in budgets), default=inf)


def _shown(row: Row) -> Shown:
    percent = max(0, min(100, round(100 * row.left)))
    return Shown(row, percent, row.state, used(row), rate(row.refused_per_minute))


def _shoot(branch: Branch, parent: str | None, above: Mapping[Place, tuple[str, ...]]) -> Shoot:
    place = branch.row.place
    elsewhere = tuple(each for each in above[place] if each != parent)
    return Shoot(_shown(branch.row), elsewhere, tuple(_shoot(each, place.entity_id, above) for each in branch.below))
