"""Usage by the hour and by the day: snapshots, their sums, and the names of their windows."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal

from ..exceptions import ValidationError
from ..runtime.dataclass import dataclass, field
from ..runtime.named_tuple import NamedTuple
from .naming import DISABLED, RUN_PREFIX, RUN_RESOURCE

Window = Literal["hourly", "daily"]
EARLIEST: Final = datetime(1970, 1, 2, tzinfo=UTC)

WINDOW_SECONDS: Final[Mapping[Window, int]] = {"hourly": 3600, "daily": 24 * 3600}

KEPT_DAYS: Final[Mapping[Window, int]] = {"hourly": 90, "daily": 730}
"""The days for which a snapshot is kept after its window, unless the aggregator's settings say otherwise."""

WINDOWS_REMEMBERED: Final = 1024  # the rows of a namespace have few of them, and each is read and written as text

_FORMATS: Final[Mapping[Window, str]] = {"hourly": "%Y-%m-%dT%H:00:00Z", "daily": "%Y-%m-%d"}


class Refuser(NamedTuple):
    """A limit that was short for a call: one of the entity that asked, of an ancestor, or of a draw; or, by the name
    ``disabled``, which no limit has, a disable of such an entity.
    """

    entity_id: str
    limit_name: str

    @classmethod
    def of(cls, entity_id: str, resource: str, limit_name: str) -> "Refuser":
        """Return the limit by its bucket; all runs are one, because their number has no bound."""
        is_run = resource == RUN_RESOURCE and entity_id.startswith(RUN_PREFIX)
        return cls(f"{RUN_PREFIX}*" if is_run else entity_id, limit_name)

    def __str__(self) -> str:
        return f"{self.entity_id}/{self.limit_name}"

    @property
    def is_disabled(self) -> bool:
        """Whether it stands for a disable of the entity, which refuses whatever limits there are."""
        return self.limit_name == DISABLED


@dataclass(frozen=True, slots=True)
class UsageSnapshot:
    """The consumption of an entity on a resource in one window, which begins at ``window_start`` (UTC).

    ``consumed`` has whole tokens by limit, net of tokens given back. Acquires are counted: ``total_events`` those
    admitted, ``total_refused`` those refused, ``total_shadowed`` those admitted that shadow limits would have refused,
    ``total_uncounted`` those that an outage let through, of which nothing else is counted.
    ``total_below`` are those of the admitted that entities below asked for, whose calls cascaded to this one, and
    ``total_refused_below`` those of the refused: they count at the entity that was asked, too.
    ``refused_by`` has those of the refused by the limits that were short, of the entity itself or of an ancestor.
    """

    entity_id: str
    resource: str
    window: Window
    window_start: datetime
    consumed: Mapping[str, int] = field(hash=False)
    total_events: int
    total_refused: int = 0
    total_shadowed: int = 0
    refused_by: Mapping[Refuser, int] = field(default_factory=dict, hash=False)
    total_uncounted: int = 0
    total_below: int = 0
    total_refused_below: int = 0


@dataclass(frozen=True, slots=True)
class UsagePage:
    """A page of snapshots; pass ``next`` to get the following page; ``None`` at the end."""

    snapshots: tuple[UsageSnapshot, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """The consumption of a limit, in tokens; minimum, maximum and average cover the windows with any use."""

    limit_name: str
    total: int
    """Whole tokens in all windows."""
    minimum: int
    """Whole tokens in the window with the least."""
    maximum: int
    """Whole tokens in the window with the most."""
    average: float
    """Tokens of a window with any use."""


@dataclass(frozen=True, slots=True)
class UsageSummary:
    """The sums of snapshots: all entities and resources of a window count as one; limits are sorted by name.

    The totals of acquires and ``refused_by`` are as in ``UsageSnapshot``. Of several entities, a call that cascaded
    counts once, at the entity that was asked; then nothing is ``below``.
    """

    window: Window
    windows: int
    """The number of windows with any use."""
    limits: tuple[LimitUsage, ...]
    total_events: int
    total_refused: int = 0
    total_shadowed: int = 0
    refused_by: Mapping[Refuser, int] = field(default_factory=dict, hash=False)
    total_uncounted: int = 0
    total_below: int = 0
    total_refused_below: int = 0


@dataclass(frozen=True, slots=True)
class EntityUsage:
    """The sums of an entity's snapshots on one resource: ``consumed`` in whole tokens, acquires as in a snapshot."""

    entity_id: str
    resource: str
    consumed: Mapping[str, int] = field(hash=False)
    total_events: int
    total_refused: int
    total_shadowed: int
    refused_by: Mapping[Refuser, int] = field(default_factory=dict, hash=False)
    total_uncounted: int = 0
    total_below: int = 0
    total_refused_below: int = 0


@lru_cache(maxsize=WINDOWS_REMEMBERED)
def window_key(window: Window, at: datetime) -> str:
    """Return the name of the window that contains an instant: ``2024-01-01T14:00:00Z`` hourly, ``2024-01-01`` daily."""
    return at.astimezone(UTC).strftime(_FORMATS[window])


def window_start(window: Window, at_ms: int) -> datetime:
    """Return the start of the window that contains an instant (epoch milliseconds)."""
    seconds = at_ms // 1000
    return datetime.fromtimestamp(seconds - seconds % WINDOW_SECONDS[window], UTC)


@lru_cache(maxsize=WINDOWS_REMEMBERED)
def parse_window_key(key: str) -> tuple[Window, datetime]:
    """Return the window and its start, from its name. Raises ``ValueError`` for any other text."""
    window: Window = "hourly" if "T" in key else "daily"
    return window, datetime.strptime(key, _FORMATS[window]).replace(tzinfo=UTC)


def check_window(window: object) -> Window:
    """Return ``"hourly"`` or ``"daily"``. Raises ``ValidationError`` for anything else."""
    if window == "hourly":
        return "hourly"
    if window == "daily":
        return "daily"
    raise ValidationError("window", window, "must be 'hourly' or 'daily'")


def check_instant(field: str, instant: object) -> datetime | None:
    """Return the instant in UTC. Raises ``ValidationError`` without a time zone, or before 1970-01-02."""
    if instant is None:
        return None
    if not isinstance(instant, datetime) or instant.tzinfo is None:
        raise ValidationError(field, instant, "must be a datetime with a time zone")
    if instant < EARLIEST:
        raise ValidationError(field, instant, f"must not be before {EARLIEST:%Y-%m-%d}")
    return instant.astimezone(UTC)
