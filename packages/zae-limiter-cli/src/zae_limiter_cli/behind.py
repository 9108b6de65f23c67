"""Say, beside figures of usage, that the aggregator is behind: a line on standard error, and keys of a JSON document.

A look costs one read of the buckets that are shown, see ``maintenance.usage_state``. Buckets keep no times, so an
acquire after a quiet hour looks like one that has waited for an hour: what looks late is looked at again, for some
seconds, and is late if nothing was counted meanwhile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from time import sleep
from typing import TYPE_CHECKING, Final

from .columns import note
from .times import duration, iso

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.maintenance import StreamState

LATE_SECONDS: Final = 300  # more than any batch window
WATCH_SECONDS: Final = 60.0
PAUSES: Final = (1.0, 1.0, 2.0)  # seconds before each further look


@dataclass(frozen=True, slots=True)
class Behind:
    """Usage that is counted up to an instant only, so many seconds ago."""

    until: datetime
    seconds: int

    def __str__(self) -> str:
        day = "" if self.seconds < 12 * 3600 else f"{self.until:%Y-%m-%d} "
        minutes = self.seconds // 60
        ago = f"{minutes} minutes" if minutes < 120 else duration(60 * minutes)
        at = f"{day}{self.until:%H:%M:%S} UTC"
        return f"counted up to {at}, {ago} ago: the aggregator is behind (see `zae-limiter doctor`)"


def behind(repository: "SyncRepository", state: "StreamState") -> Behind | None:
    """Return how far a state is behind; ``None`` if nothing waits, or not for long."""
    seconds = state.behind_ms(repository.namespace_state.now()) // 1000  # by the store's time
    if state.until_ms is None or seconds < LATE_SECONDS:
        return None
    return Behind(datetime.fromtimestamp(state.until_ms / 1000, UTC), seconds)


def note_behind(repository: "SyncRepository", places: Iterable[tuple[str, str]], end: datetime | None = None) -> None:
    """Look how far the usage at these places, each an entity and a resource, is counted; have the command say that it
    is behind. Figures up to an ``end`` are whole once usage is counted up to there.
    """
    found = _look(repository, list(places))
    if found is None or (end is not None and found.until >= end):
        return
    note(str(found), {"counted_until": iso(found.until), "behind_seconds": found.seconds})


class Watch:
    """Looks at the same again, once a minute: what was late at a look, and is at the next, is behind."""

    def __init__(self, every: float = WATCH_SECONDS) -> None:
        self._every = every
        self._look_at = -inf
        self._late_until: int | None = None
        self._found: Behind | None = None

    def look(self, repository: "SyncRepository", places: Sequence[tuple[str, str]], now: float) -> Behind | None:
        """Return how far behind usage is, by the last look. ``now``: seconds of a clock."""
        from zae_limiter.maintenance import usage_state

        if now >= self._look_at:
            state = usage_state(repository, places)
            found = behind(repository, state)
            is_sure = found is not None and state.until_ms == self._late_until
            self._late_until = None if found is None else state.until_ms
            self._found = found if is_sure else None
            self._look_at = now + (self._every if found is None or is_sure else sum(PAUSES))
        return self._found


def _look(repository: "SyncRepository", places: list[tuple[str, str]]) -> Behind | None:
    from zae_limiter.maintenance import usage_state

    state = usage_state(repository, places)
    found = behind(repository, state)
    for pause in PAUSES if found is not None else ():
        sleep(pause)
        again = usage_state(repository, places)
        found = behind(repository, again)
        if found is None or again.until_ms != state.until_ms:
            break
    return found
