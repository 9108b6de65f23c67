"""A declared limit, as a frozen value that is valid by construction; its fields state the rules."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import evolve, field, fields, frozen

from .checks import ALREADY_CHECKED, enforce
from .converter import (
    ALERT,
    CONVERTER,
    SCHEDULE,
    UNIT,
    UNLIMITED,
    WEIGHTS,
    short_limits,
)
from .limit_text import write_limit
from .money import CURRENCIES
from .naming import NameKind
from .schedules import as_schedule
from .schedules import find_conflicts as find_schedule_conflicts
from .shapes import (
    DEFAULT_REFILL_PERIOD_SECONDS,
    Choice,
    Entries,
    Flag,
    Integer,
    NamedMap,
    Percents,
    Refill,
    Seconds,
    Window,
    Zone,
    about,
    record_of,
)
from .weights import WEIGHTS_OF_KINDS, WeightsDecl, as_weights
from .windows import KINDS, LAST_START, MAX_EXPIRES, UTC, as_window, find_conflicts

MAX_AMOUNT: Final = 10**15
MAX_REFILL_PERIOD_SECONDS: Final = 3_153_600_000  # a hundred years
MAX_PREFETCH_SECONDS: Final = 3600
MAX_ALERTS: Final = 5
EXPIRES: Final = 60
MAX_LIMITS: Final = 32  # of one bucket

_AMOUNT: Final = Integer(MAX_AMOUNT)
_AMOUNT_OR_NONE: Final = Integer(MAX_AMOUNT, least=0)
_PERIOD: Final = Integer(MAX_REFILL_PERIOD_SECONDS)
PREFETCH_SECONDS: Final = Seconds(MAX_PREFETCH_SECONDS)


def _in_seconds(value: float) -> float:
    """Return a whole number as a float; leave anything else to the checks."""
    return float(value) if type(value) is int and abs(value) <= MAX_PREFETCH_SECONDS else value


def _as_tuple(given: Any) -> Any:
    """Return a list as a tuple; leave anything else to the checks."""
    return tuple(given) if isinstance(given, list) else given


@frozen
class LimitDecl:
    """One limit: capacity, burst and refill amount in tokens, refill period in seconds; raises `ManifestError`.

    The tokens of a limit with a `window` come when it begins, those of a `total` never come back. A `shadow` limit
    counts and decides like any other, but refuses no call. A process may take tokens up to `prefetch` seconds before it
    admits by them; in return every bucket holds at most the `usable_burst`. By its
    `weights` a lease settles what a language model has used. By its `schedule` it has other values at other times. At
    the percentages of its `alert` the aggregator sends an event.
    """

    capacity: int = field(metadata=about(_AMOUNT_OR_NONE, "the nominal amount, in tokens; 0 blocks"))
    burst: int = field(
        kw_only=True,
        metadata=about(
            _AMOUNT_OR_NONE,
            "the largest number of tokens at once; at least the capacity, by default the capacity",
            at_least="capacity",
        ),
    )
    refill_amount: int = field(
        kw_only=True,
        metadata=about(
            _AMOUNT, "the tokens that come back in every period; by default the capacity, or 1 if that is 0"
        ),
    )
    refill_period: int = field(
        kw_only=True, default=DEFAULT_REFILL_PERIOD_SECONDS, metadata=about(_PERIOD, "the period, in seconds")
    )
    shadow: bool = field(
        kw_only=True, default=False, metadata=about(Flag(), "`true`: the limit counts, but refuses no call")
    )
    prefetch: float = field(
        kw_only=True,
        default=0,
        converter=_in_seconds,
        metadata=about(
            PREFETCH_SECONDS,
            "the seconds for which a process may reserve tokens before it admits by them; 0: none",
            off=Refill("capacity", "burst", "refill_amount", "refill_period"),
        ),
    )

    window: str = field(
        kw_only=True,
        default="",
        converter=as_window,
        metadata=about(
            Window(),
            "the calendar window at whose begin all tokens come: `minute`, `hour`, `day`, `week`, `month`, `year`, or "
            "a cron expression of five fields",
        ),
    )
    timezone: str = field(
        kw_only=True, default=UTC, metadata=about(Zone(), "the time zone by whose clocks the windows begin")
    )
    starts_on: int = field(
        kw_only=True,
        default=1,
        metadata=about(
            Integer(LAST_START["month"]), "the first day of a month, or of a week, whose days are 1 for Monday to 7"
        ),
    )
    kind: str = field(
        kw_only=True,
        metadata=about(
            Choice(KINDS),
            "how tokens come back; by default evenly, or by the `window`; a period after the `first_use`; never of a "
            "`total`; `concurrent` ones when the lease ends that holds them",
        ),
    )

    @kind.default
    def _kind_is_told_by_the_window(self) -> str:
        return "calendar" if self.window else "token_bucket"

    weights: WeightsDecl | None = field(
        kw_only=True,
        default=None,
        converter=as_weights,
        metadata=about(
            WEIGHTS_OF_KINDS, "how many tokens of the limit a token of each kind counts for, when usage settles a lease"
        ),
    )

    expires: int = field(
        kw_only=True,
        metadata=about(
            Integer(MAX_EXPIRES["total"], least=0),
            "of `kind: concurrent`: the seconds, by default 60 and at most 86,400, after which slots of a lost holder "
            "begin to come back; of `kind: total`: the seconds without use, at least 86,400, after which its bucket is "
            "removed and begins anew, by default never",
        ),
    )

    @expires.default
    def _expires_if_concurrent(self) -> int:
        return EXPIRES if self.kind == "concurrent" else 0

    schedule: tuple[str, ...] = field(
        kw_only=True,
        default=(),
        converter=as_schedule,
        metadata=about(
            Entries(),
            "other values at other times, each as a text `night: 00:00-06:00 Europe/Berlin 100/min`; the first that "
            "holds wins",
        ),
    )

    alert: tuple[int, ...] = field(
        kw_only=True,
        default=(),
        converter=_as_tuple,
        metadata=about(
            Percents(MAX_ALERTS),
            "the percentages of a window at which the aggregator sends an event, each once in a window",
        ),
    )

    unit: str = field(
        kw_only=True,
        default="",
        metadata=about(
            Choice(CURRENCIES), "the currency of a limit of money, such as `usd`, whose amounts are in millionths of it"
        ),
    )

    leaves_open: bool = field(kw_only=True, default=False, eq=False, repr=False)
    """Whether its text had `day`, `month` or `year` alone, which says no calendar; no part of its value."""

    @burst.default
    def _burst_is_capacity(self) -> int:
        return self.capacity

    @refill_amount.default
    def _refill_is_capacity(self) -> int:
        return self.capacity or 1

    def __attrs_post_init__(self) -> None:
        values = {name: getattr(self, name) for name in LIMIT_FIELDS if name != "window" or self.window}
        if not self.schedule:
            del values[SCHEDULE]
        if not self.alert:
            del values[ALERT]
        if not self.unit:
            del values[UNIT]
        if self.weights is None or isinstance(self.weights, WeightsDecl):
            values[WEIGHTS] = ALREADY_CHECKED
        if self.kind == "concurrent" and self.weights is None:
            del values[WEIGHTS]
        enforce(LIMIT, values, "LimitDecl")

    @property
    def text(self) -> str | None:
        """The limit as one text: `10k/min burst 20k`; a manifest may have it in place of the map. None for a limit with
        weights or a schedule, which has no such text.
        """
        if self.weights is not None or self.schedule:
            return None
        return write_limit(self.values)

    def given(self) -> dict[str, Any]:
        """Return the plain values of the fields that differ from their defaults, and the capacity, in their order."""
        plain: dict[str, Any] = CONVERTER.unstructure(self)
        return {name: plain[name] for name in LIMIT_FIELDS if name in plain}

    @property
    def values(self) -> dict[str, Any]:
        """The fields by name, with plain weights: what core's `Limit` takes beside the name."""
        found = {name: getattr(self, name) for name in LIMIT_FIELDS}
        return found | {"weights": self.weights.by_kind() if self.weights else {}}

    @property
    def usable_burst(self) -> int:
        """The most tokens that a bucket holds: `burst`, less what comes within `prefetch` seconds, rounded up."""
        if not self.prefetch or not self.capacity:
            return self.burst
        return self.burst + -self.refill_amount * round(self.prefetch * 1000) // (self.refill_period * 1000)


def _find_conflicts(limit: Mapping[object, object]) -> Iterator[tuple[object, str]]:
    yield from find_conflicts(limit)
    yield from find_schedule_conflicts(limit)


short_limits(LimitDecl)
LIMIT_FIELDS: Final = tuple(each.name for each in fields(LimitDecl) if each.metadata)
LIMIT: Final = evolve(
    record_of(LimitDecl), conflicts=_find_conflicts, short={name: name for name in LIMIT_FIELDS}, recurs=True
)
LIMITS: Final = about(
    NamedMap(
        NameKind.LIMIT,
        LIMIT,
        least=1,
        most=MAX_LIMITS,
        advice="leave some out, or put them on a resource of their own",
        word=UNLIMITED,
    ),
    f"the limits, by name; at least one, at most {MAX_LIMITS}; or `unlimited`",
)
