"""What the pages show, read with the commands' own rooms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Literal

from ..audit.changes import changes
from ..explanation.next_steps import next_steps
from ..explanation.report import in_force, read_report
from ..explanation.showing import amounts_of, asked_by
from ..live.health import Health
from ..live.reading import Reader
from ..live.rows import Order, Place, Reading, Recent, Row, State, rate, used
from ..live.tree import Branch, tree_of
from ..rates import rate as rate_of
from ..skipped import collecting
from ..usage.own import with_own
from .charts import Chart, charts_of

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot, ZAELimiterError
    from zae_limiter.stores import Unreadable
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


class Pages:
    """Reads for all browsers: the rows at most once in ``every`` seconds, however many look, and none waits for it."""

    def __init__(
        self, repository: "SyncRepository", reader: Reader, health: Health, *, every: float, options: list[str]
    ) -> None:
        self.repository, self.options = repository, options
        self._reader, self._health, self._every = reader, health, every
        self._lock = Lock()
        self._recent = Recent(every)
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

    def unreadable(self) -> "Sequence[Unreadable]":
        """Return the records that the last reading of the rows had to skip."""
        with self._lock:
            return self._unreadable

    def health(self) -> str:
        """Return the line of the stack's parts."""
        with self._lock:
            return self._health.line()

    def why(self, place: Place) -> dict[str, Any]:
        """Return the report on an acquire, and the commands that help."""
        report = read_report(self.repository, place.entity_id, place.resource, None, cascade=False)
        return {
            "report": report,
            "in_force": in_force,
            "rate": rate_of,
            "asked": amounts_of(report),
            "notes": [*(each.sentence for each in report.unknown), *asked_by(report)],
            "changes": [(event, list(changes(event))) for event in report.changes],
            "steps": next_steps(report, self.options),
        }

    def charts(self, entity_id: str | None, resource: str | None, span: Span) -> list[Chart] | None:
        """Return the usage of an entity, of a resource, of both or of all as charts; ``None`` if it has more snapshots
        than a page may read.
        """
        window, windows, step = SPANS[span]
        now = datetime.fromtimestamp(self.repository.namespace_state.now() / 1000, UTC)
        this = now.replace(minute=0, second=0, microsecond=0)
        this = this.replace(hour=0) if window == "daily" else this
        start = this - (windows - 1) * step
        read = partial(self.repository.get_usage_snapshots, entity_id=entity_id, resource=resource, window=window)
        if read(start=this, limit=SNAPSHOTS).next is not None:
            return None  # the last window alone has too many
        snapshots: list[UsageSnapshot] = []
        behind: str | None = None
        for _ in range(MOST_PAGES):
            page = read(start=start, limit=SNAPSHOTS, next=behind)
            snapshots += page.snapshots
            if (behind := page.next) is None:
                own = snapshots if entity_id is not None else [each for _, each in with_own(self.repository, snapshots)]
                return charts_of(own, start, windows, step)
        return None

    def changes(self, before: str | None) -> tuple[list[tuple[Any, list[str]]], str | None]:
        """Return a page of changes of the namespace before this one, newest first, each with the values that it
        changed; and what the next page is before, if there is one.
        """
        page = self.repository.get_namespace_audit_events(EVER, limit=MOST_CHANGES, start=before)
        return [(event, list(changes(event))) for event in page.events], page.next


def _shown(row: Row) -> Shown:
    percent = max(0, min(100, round(100 * row.left)))
    return Shown(row, percent, row.state, used(row), rate(row.refused_per_minute))


def _shoot(branch: Branch, parent: str | None, above: Mapping[Place, tuple[str, ...]]) -> Shoot:
    place = branch.row.place
    elsewhere = tuple(each for each in above[place] if each != parent)
    return Shoot(_shown(branch.row), elsewhere, tuple(_shoot(each, place.entity_id, above) for each in branch.below))
