"""The rule (`Limit`), its status at a check (`LimitStatus`), and checks of limits and amounts."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias, get_args

from .. import values
from ..exceptions import ValidationError
from ..runtime.dataclass import SignatureOfInit, dataclass, field, fields, replace
from .named_limits import KINDS, REFILL_PERIOD, Kind, NamedLimits, refuse_no_fields
from .naming import check_limit_name
from .token_usage import TokenUsage
from .weights import NO_WEIGHTS, Weights
from .whole import check_whole
from .windows import UTC, check_window

if TYPE_CHECKING:
    from decimal import Decimal

MILLI: Final = 1000
MAX_TOKENS: Final = 10**15
MAX_PERIOD: Final = 100 * 365 * 24 * 3600
MAX_PREFETCH: Final = 3600
MAX_LIMITS: Final = 32  # of one bucket: a write of them all has to fit into DynamoDB's expressions

ConfigSource = Literal["entity", "entity_default", "tier", "tier_default", "resource", "pattern", "system"]

PolicyText: TypeAlias = Literal["block", "allow", "share"]
POLICIES: Final[tuple[PolicyText, ...]] = get_args(PolicyText)
_AS_MONEY: Final = ", of money in millionths: Limit.money takes text or a Decimal, like '0.50'"
_NO_RATE: Final = ("calendar", "first_use", "total", "concurrent")  # whose tokens do not come evenly
_SELDOM: Final[Mapping[str, object]] = {
    "kind": "token_bucket",
    "prefetch": 0.0,
    "window": "",
    "timezone": UTC,
    "starts_on": 1,
    "weights": NO_WEIGHTS,
    "expires": 0,
    "schedule": (),
    "alert": (),
    "unit": "",
}


class OnUnavailable(StrEnum):
    """What a call does while the store is away. Each equals its text: ``OnUnavailable.ALLOW == "allow"``."""

    BLOCK = "block"
    """It raises ``RateLimiterUnavailable``."""
    ALLOW = "allow"
    """It goes on, and is not counted."""
    SHARE = "share"
    """It goes on by this process's share of the limits."""


Policy: TypeAlias = OnUnavailable | PolicyText


@dataclass(frozen=True, slots=True)
class Limit(NamedLimits):
    """At most ``burst`` tokens at once, and ``refill_amount`` more in every ``refill_period`` seconds.

    ``capacity`` is the nominal amount; the bucket's ceiling is ``burst``. A capacity of 0 blocks: every acquire that
    asks for tokens of the limit is refused. A ``shadow`` limit counts and decides like any other, but never refuses.
    A process may take tokens up to ``prefetch`` seconds before it admits by them; in return the ceiling is the
    ``usable_burst``, in every process. By ``weights`` a lease settles what a language model used. Amounts are whole
    tokens, the period whole seconds, ``prefetch`` whole milliseconds. Raises ``ValidationError``.
    """

    name: str
    """The name, unique among the limits of a bucket."""
    capacity: int
    """Whole tokens of a period; 0 blocks."""
    burst: int
    """The most tokens that a bucket holds."""
    refill_amount: int
    """Whole tokens that come in each period."""
    refill_period: int
    """Whole seconds."""
    shadow: bool = False
    """Whether it only counts, and never refuses."""
    kind: Kind = "token_bucket"
    """How its tokens come back: evenly, at the begin of each calendar window, ``refill_period`` seconds after the first
    use, or not at all (``total``)."""
    prefetch: float = 0.0
    """Seconds for which a process may reserve tokens before it admits by them; 0 for not at all."""
    window: str = ""
    """Of a calendar limit: ``minute``, ``hour``, ``day``, ``week``, ``month``, ``year``, or a cron expression."""
    timezone: str = UTC
    """Of a calendar limit: the zone by whose clocks its windows begin."""
    starts_on: int = 1
    """Of a month: its first day; of a week: its first day, with 1 for Monday."""
    weights: Mapping[str, float] = field(default=NO_WEIGHTS, hash=False)  # limits are hashed often
    """How many tokens of the limit a token of each kind counts for (``TokenUsage``); empty for a limit that
    ``lease.settle(usage)`` leaves alone."""
    expires: int = 0
    """Of concurrent slots: whole seconds after which the slot of a lost holder is on its way back. Of a total: whole
    seconds after its last use at which its bucket is removed, and begins anew; 0 for never."""
    schedule: "tuple[values.schedules.ScheduleEntry, ...]" = field(default=(), hash=False)
    """Other values at other times: the first entry that holds wins. Texts become entries."""
    alert: tuple[int, ...] = field(default=(), hash=False)
    """At which percent of its window the aggregator sends an event: whole numbers, ascending."""
    unit: str = ""
    """The currency of a limit of money, such as ``usd``, whose tokens are millionths of it; empty for tokens."""

    if not TYPE_CHECKING:
        __signature__ = SignatureOfInit()

        def __new__(cls, *values: object, **fields: object) -> "Limit":
            refuse_no_fields(cls.__name__, fields)
            if len(values) == 4 and not fields:
                from ..runtime.namesake import told

                way = "Limit.custom(name, capacity, refill_amount=…, refill_period=…); the third of five is the burst"
                raise TypeError(told(f"{cls.__name__}() with four arguments", way))
            return object.__new__(cls)

        def __getattr__(self, name: str) -> NoReturn:
            from ..renamed import refuse_attribute

            refuse_attribute(self, name)

    def __post_init__(self) -> None:
        check_limit_name("limit", self.name)
        for each, least in (("capacity", 0), ("burst", 0), ("refill_amount", 1)):
            field, value = f"{each} of limit {self.name!r}", getattr(self, each)
            check_whole(field, value, at_least=least, at_most=MAX_TOKENS, fraction=_AS_MONEY)
        check_whole(f"refill_period of limit {self.name!r}", self.refill_period, at_least=1, at_most=MAX_PERIOD)
        if type(self.shadow) is not bool:
            raise ValidationError(f"shadow of limit {self.name!r}", self.shadow, "must be True or False")
        if self.kind not in KINDS:
            raise ValidationError(f"kind of limit {self.name!r}", self.kind, f"must be one of {', '.join(KINDS)}")
        if self.burst < self.capacity:
            problem = f"must be at least the capacity, {self.capacity}"
            if self.burst and self.kind == "token_bucket":
                rate = f"capacity={self.burst}, refill_amount={self.refill_amount}, refill_period={self.refill_period}"
                problem += f"; for at most {self.burst} at once at this rate: Limit.custom({self.name!r}, {rate})"
            raise ValidationError(f"burst of limit {self.name!r}", self.burst, problem)
        if self.capacity == 0 < self.burst:
            raise ValidationError(f"burst of limit {self.name!r}", self.burst, "must be 0: a capacity of 0 blocks")
        if self.prefetch != 0 or type(self.prefetch) is not float:
            self._check_prefetch()
        if self.weights is not NO_WEIGHTS:
            object.__setattr__(self, "weights", Weights.check(f"weights of limit {self.name!r}", self.weights))
        if self.unit != "":
            values.money_amounts.check_unit(self.name, self.unit, self.kind)
        window = (self.window, self.timezone, self.starts_on, self.expires, self.schedule, self.alert)
        if self.kind != "token_bucket" or window != ("", UTC, 1, 0, (), ()):
            self._check_kind()

    def _check_kind(self) -> None:
        if self.kind == "calendar":
            window = check_window(self.name, self.window, self.timezone, self.starts_on)
            object.__setattr__(self, "window", window)
        else:
            for each, default in (("window", ""), ("timezone", UTC), ("starts_on", 1)):
                if getattr(self, each) != default:
                    problem = (
                        f"belongs to a calendar limit, this is a {self.kind}: add kind='calendar', or leave it out"
                    )
                    raise ValidationError(f"{each} of limit {self.name!r}", getattr(self, each), problem)
        if self.kind == "concurrent" and type(self.expires) is int and self.expires == 0:
            object.__setattr__(self, "expires", values.slots.EXPIRES)
        values.slots.check_slots(self.kind, {each.name: getattr(self, each.name) for each in fields(Limit)})
        if self.kind in _NO_RATE:
            self._check_no_rate()
        if self.schedule != ():
            checked = values.schedules.check_schedule(self.name, self.kind, self.schedule, self.during)
            object.__setattr__(self, "schedule", checked)
        if self.alert != ():
            object.__setattr__(self, "alert", values.alerts.check_alert(self.name, self.kind, self.alert))

    def _check_no_rate(self) -> None:
        unused: dict[str, object] = {"prefetch": 0.0}
        if self.kind != "first_use":
            unused["refill_period"] = REFILL_PERIOD
        else:
            unused["burst"] = self.capacity
        if self.kind != "calendar":
            unused["refill_amount"] = self.capacity or 1
        for each, default in unused.items():
            if getattr(self, each) != default:
                problem = f"means nothing for a limit whose kind is {self.kind}: leave it out"
                raise ValidationError(f"{each} of limit {self.name!r}", getattr(self, each), problem)

    def _check_prefetch(self) -> None:
        field, seconds = f"prefetch of limit {self.name!r}", self.prefetch
        if type(seconds) not in (int, float) or not 0 <= seconds <= MAX_PREFETCH or seconds != round(seconds, 3):
            raise ValidationError(
                field, seconds, f"must be seconds from 0 to {MAX_PREFETCH}, with at most three decimals"
            )
        object.__setattr__(self, "prefetch", float(seconds))
        if self.usable_burst < 1 and not self.blocks:
            problem = f"takes what comes in that time off the burst, {self.burst}, and has to leave one token: at most "
            most = (self.burst - 1) * self.refill_period * MILLI // self.refill_amount
            raise ValidationError(field, seconds, f"{problem}{most / 1000:g} s, or a larger burst")

    @property
    def _has_slots(self) -> bool:
        """Whether it bounds what is held at the same time, instead of what is consumed."""
        return self.kind == "concurrent"

    @property
    def _unused_seconds(self) -> int:
        """Whole seconds without use after which its bucket may forget what was taken; 0 unless a total ``expires``."""
        return self.expires if self.kind == "total" else 0

    @property
    def blocks(self) -> bool:
        """Whether the capacity is 0, so that no acquire of its tokens ever passes."""
        return self.capacity == 0

    @property
    def _prefetch_ms(self) -> int:
        """``prefetch`` in milliseconds."""
        return round(self.prefetch * 1000)

    @property
    def usable_burst(self) -> int:
        """The most tokens that a bucket holds: ``burst``, less what comes within ``prefetch`` seconds, rounded up."""
        if not self.prefetch or self.blocks:
            return self.burst
        return self.burst + -self.refill_amount * self._prefetch_ms // (self.refill_period * 1000)

    @property
    def _rule(self) -> "Limit":
        """The limit as a bucket has it: with the usable burst, without ``shadow``, ``prefetch``, ``weights`` and
        ``schedule``.

        Its capacity is at most its burst. A limit without any of them is its own rule.
        """
        if not self.shadow and not self.prefetch and not self.weights and not self.schedule:
            return self
        burst = self.usable_burst
        capacity = min(self.capacity, burst)
        plain = {"shadow": False, "prefetch": 0.0, "weights": NO_WEIGHTS, "schedule": ()}
        return replace(self, capacity=capacity, burst=burst, **plain)  # type: ignore[arg-type]

    def during(self, entry: "values.schedules.ScheduleEntry") -> "Limit":
        """Return the limit with the values of an entry, without a schedule. Raises ``ValidationError``."""
        values.money_amounts.check_same_unit(self.unit, entry.unit)
        return replace(
            self,
            capacity=entry.capacity,
            burst=entry.burst,
            refill_amount=entry.refill_amount,
            refill_period=self.refill_period if entry.refill_period is None else entry.refill_period,
            schedule=(),
        )

    def weigh(self, usage: TokenUsage) -> int:
        """Return what a usage counts by the weights, in whole tokens, rounded up: an estimate for ``acquire``.

        ``lease.settle(usage)`` is exact to the millitoken.
        """
        return -(-Weights.check("weights", self.weights).weigh(usage) // MILLI)

    @classmethod
    def parse(cls, text: str) -> "Limit":
        """Return the limit of a text such as ``rpm: 100/min`` or ``tpm: 10k/min burst 20k prefetch 1s``; ``str`` gives
        it.

        An amount has whole tokens, with ``k``, ``M`` or ``G`` behind it; a period is ``sec``, ``min``, ``hour`` or
        ``day``, or a number of them (``90s``). A time zone makes calendar windows of it: ``calls: 250/month
        Europe/Berlin``; a sign makes money of the amount: ``usd: $5.50/day``. Others are ``500 total``, ``5
        concurrent``, ``3 cron 0 6 * * MON UTC`` and ``9 per hour from first use``. Raises ``ValidationError``.
        """
        name, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        if not colon:
            raise ValidationError(
                "limit", text, f"must be a name and a limit, such as rpm: 100/min; limits: {values.limit_text.EXAMPLE}"
            )
        try:
            found = values.limit_text.read_limit(rest, name.strip())
        except ValueError as error:
            raise ValidationError("limit", text, str(error)) from None
        return cls.custom(name.strip(), **found)

    @property
    def text(self) -> str:
        """The limit without its name, such as ``10k/min burst 20k``; with weights or a schedule: all fields.

        ``Limit.parse(f"{limit.name}: {limit.text}")`` is equal to a limit without these two.
        """
        if self.weights or self.schedule:
            plain = self.to_dict()
            return f"{{{', '.join(f'{name}: {plain[name]}' for name in plain if name != 'name')}}}"
        return values.limit_text.write_limit({each.name: getattr(self, each.name) for each in fields(Limit)})

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON values, for ``from_dict``; those seldom used only if not the default."""
        plain = {each.name: getattr(self, each.name) for each in fields(Limit)}
        if self.kind in _NO_RATE and self.kind != "first_use":
            del plain["refill_period"]
        found = {name: plain[name] for name in plain if name not in _SELDOM or plain[name] != _SELDOM[name]}
        if self.schedule:
            found["schedule"] = [str(entry) for entry in self.schedule]
        if self.alert:
            found["alert"] = list(self.alert)
        return {name: dict(value) if isinstance(value, Weights) else value for name, value in found.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Limit":
        """Return the limit of ``to_dict``; ``burst``, ``refill_amount`` and ``refill_period`` default as in ``custom``.

        Raises ``ValidationError``, for unknown fields too.
        """
        if not isinstance(values, Mapping):
            raise ValidationError("limit", values, "must map the fields of a limit to values")
        known = [each.name for each in fields(Limit)]
        for name in values:
            if name not in known:
                raise ValidationError("limit", dict(values), f"has no field {name!r} (known: {', '.join(known)})")
        for name in ("name", "capacity"):
            if name not in values:
                raise ValidationError("limit", dict(values), f"lacks the field {name!r}")
        return cls.custom(**values)

    def show(self, amount: int) -> str:
        """Return an amount of the limit for people: digits, or money such as ``$1,234.50``."""
        return values.money.show_amount(amount, self.unit) if self.unit else str(amount)

    @property
    def _ceiling_milli(self) -> int:
        """The largest balance of a bucket of this limit, in millitokens."""
        return self.usable_burst * MILLI

    @property
    def _initial_milli(self) -> int:
        """The balance of a new bucket of this limit, in millitokens: the ceiling.

        A calendar limit and a total begin with their capacity: nothing was carried over or credited yet.
        """
        return self._ceiling_milli if self.kind == "token_bucket" else self.capacity * MILLI


def check_limits(field: str, limits: Sequence[Limit | str]) -> tuple[Limit, ...]:
    """Return the limits sorted by name; a text like ``rpm: 100/min`` is one, too. Raises ``ValidationError`` for none,
    too many, wrong types and duplicates.
    """
    if isinstance(limits, Limit | str | Mapping) or not isinstance(limits, Iterable):
        raise ValidationError(field, limits, "must be a list of limits, like ['rpm: 100/min']")
    checked = tuple([each if isinstance(each, Limit) else _read(field, each) for each in limits])
    if not checked:
        raise ValidationError(field, [], "give at least one limit")
    if len(checked) > MAX_LIMITS:
        problem = f"a bucket has at most {MAX_LIMITS} limits: leave some out, or put them on a resource of their own"
        raise ValidationError(f"number of {field}", len(checked), problem)
    names = [limit.name for limit in checked]
    for name in names:
        if names.count(name) > 1:
            raise ValidationError(field, name, "is given twice: each name may have one limit")
    return tuple(sorted(map(_without_class, checked), key=lambda limit: limit.name))


def _read(field: str, given: object) -> Limit:
    if isinstance(given, str):
        return Limit.parse(given)
    raise ValidationError(field, given, "is not a Limit: make one with Limit.per_minute(name, capacity)")


def _without_class(limit: Limit) -> Limit:
    """Return the limit as the store gives it back: an instance of a subclass would equal none of the stored ones."""
    return limit if type(limit) is Limit else Limit(*(getattr(limit, each.name) for each in fields(Limit)))


def check_on_unavailable(value: str) -> PolicyText:
    """Return ``"block"``, ``"allow"`` or ``"share"``. Raises ``ValidationError`` for anything else."""
    for known in POLICIES:
        if value == known:
            return known
    raise ValidationError("on_unavailable", value, f"must be one of {', '.join(map(repr, POLICIES))}")


def check_amounts(field: str, amounts: "Mapping[str, int | Decimal]", *, signed: bool = False) -> dict[str, int]:
    """Return amounts in millitokens by limit; a ``Decimal`` is money, and then they are ``MoneyAmounts``. Raises
    ``ValidationError`` for a fraction, boolean or negative amount.
    """
    least = -MAX_TOKENS if signed else 0
    milli = {}
    money = []
    for name, amount in amounts.items():
        if type(amount) is not int or not least <= amount <= MAX_TOKENS:
            milli[name] = MILLI * values.money_amounts.whole_amount(f"{field}[{name!r}]", amount, signed=signed)
            money.append(name)
        else:
            milli[name] = amount * MILLI
    return values.money_amounts.MoneyAmounts.of(milli, money) if money else milli
