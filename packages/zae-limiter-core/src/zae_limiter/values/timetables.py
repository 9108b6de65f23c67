"""The values of a limit with a schedule, piece by piece of time."""

from functools import lru_cache
from hashlib import blake2s
from typing import Final

from ..runtime.dataclass import replace
from ..runtime.named_tuple import NamedTuple
from .clocks import LAST_MS, clocks_of
from .limits import Limit
from .schedule_text import write_time_of_day
from .schedules import NEVER_MS, SEPARATOR, ScheduleEntry

_MOST_EDGES: Final = 64  # at which nothing changes, until a piece is cut there
_MOST_KEPT: Final = 4_096  # pieces


class Piece(NamedTuple):
    """A time in which a limit has the same values; ``entry`` is ``None`` outside its schedule."""

    limit: Limit
    begin_ms: int
    end_ms: int
    entry: ScheduleEntry | None

    @property
    def text(self) -> str:
        """The entry for people: ``night until 06:00 Europe/Berlin``, with the date if it ends later than in a day."""
        return "" if self.entry is None else f"{self.entry.name} until {self._end(self.entry)}"

    def _end(self, entry: ScheduleEntry) -> str:
        if self.end_ms >= NEVER_MS:
            return "further notice"
        shown = clocks_of(entry.timezone).shown(self.end_ms // 1000)
        day = f"{shown:%Y-%m-%d} " if entry.times is None else ""
        return f"{day}{write_time_of_day(60 * shown.hour + shown.minute)} {entry.timezone}"


class Timetable:
    """The pieces of a limit with a schedule. ``variants``: all the values that it ever has, as a bucket has them."""

    __slots__ = ("_following", "_limits", "_schedule", "_seen", "variants")

    def __init__(self, limit: Limit) -> None:
        self._schedule = limit.schedule
        self._limits = (*(limit.during(entry)._rule for entry in limit.schedule), replace(limit, schedule=())._rule)
        self.variants = frozenset(self._limits)
        self._seen = Piece(self._limits[-1], 0, 0, None)
        self._following: dict[int, Piece] = {}

    def at(self, t_ms: int) -> Piece:
        """Return the piece that holds an instant."""
        piece = self._seen
        if piece.begin_ms <= t_ms < piece.end_ms:
            return piece
        place = self._place(t_ms)
        piece = self._seen = self._piece(place, self._begin(t_ms, place), t_ms)  # at once, because threads share it
        return piece

    def after(self, piece: Piece) -> Piece:
        """Return the piece that follows; those found last are kept, because a wait looks through many."""
        begin_ms = piece.end_ms
        found = self._following.get(begin_ms)
        if found is None:
            found = self._piece(self._place(begin_ms), begin_ms, begin_ms)
            if len(self._following) >= _MOST_KEPT:
                self._following.clear()
            self._following[begin_ms] = found
        return found

    def _piece(self, place: int, begin_ms: int, t_ms: int) -> Piece:
        entry = self._schedule[place] if place < len(self._schedule) else None
        return Piece(self._limits[place], begin_ms, self._end(t_ms, place), entry)

    def _begin(self, t_ms: int, place: int) -> int:
        for _ in range(_MOST_EDGES):
            begin_ms = max(entry.last_edge(min(t_ms, LAST_MS)) for entry in self._schedule)
            if not begin_ms or self._place(begin_ms - 1) != place:
                return begin_ms
            t_ms = begin_ms - 1
        return begin_ms

    def _end(self, t_ms: int, place: int) -> int:
        for _ in range(_MOST_EDGES):
            end_ms = min(entry.next_edge(max(t_ms, 0)) for entry in self._schedule) if t_ms < LAST_MS else NEVER_MS
            if end_ms >= NEVER_MS or self._place(end_ms) != place:
                return end_ms
            t_ms = end_ms
        return end_ms

    def _place(self, t_ms: int) -> int:
        t_ms = min(max(t_ms, 0), LAST_MS)
        found = (place for place, entry in enumerate(self._schedule) if entry.holds(t_ms))
        return next(found, len(self._schedule))


@lru_cache(maxsize=1024)
def schedule_id(limit: Limit) -> str:
    """Return what distinguishes the schedule of a limit, and its values outside of it, from any other."""
    outside = (limit.capacity, limit.burst, limit.refill_amount, limit.refill_period, limit.prefetch)
    kind = (limit.kind, limit.window, limit.timezone, limit.starts_on)
    text = SEPARATOR.join(map(str, (*outside, *kind, *limit.schedule)))
    return blake2s(text.encode(), digest_size=6).hexdigest()


@lru_cache(maxsize=1024)
def timetable_of(limit: Limit) -> Timetable:
    """Return the pieces of a limit with a schedule, which all buckets of it share."""
    return Timetable(limit)
