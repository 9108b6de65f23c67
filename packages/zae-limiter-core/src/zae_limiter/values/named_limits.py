"""The constructors of ``Limit``: ``custom``, and those by the name of a period, such as ``per_minute``."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar, cast, get_args

from .. import values
from ..exceptions import ValidationError
from .weights import NO_WEIGHTS
from .windows import CALENDAR, SECONDS, UTC, burst_of

if TYPE_CHECKING:
    from decimal import Decimal

Kind = Literal["token_bucket", "calendar", "first_use", "total", "concurrent"]  # how tokens come back: ``rules``

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
REFILL_PERIOD: Final = 60  # seconds, unless a limit says otherwise

Maker = TypeVar("Maker", bound=Callable[..., Any])


_NO_FIELDS: Final = frozenset({"ahead", "rate", "refill_period_seconds"})


def refuse_no_fields(made: str, given: Mapping[str, object]) -> None:
    """Raise ``TypeError`` for what no limit has any more (``renamed``), or has in the other project alone
    (``runtime.namesake``).
    """
    if not _NO_FIELDS.isdisjoint(given):
        from ..renamed import refuse_arguments

        refuse_arguments(made, [name for name in given if name in _NO_FIELDS])


def _names_new_ones(make: Maker) -> Maker:
    """Let the ``TypeError`` of an argument that no limit has say what stands for it."""
    make.__qualname__ = f"Limit.{make.__name__}"  # of which a TypeError of Python tells

    @wraps(make)
    def made(*args: Any, **given: Any) -> Any:
        refuse_no_fields(make.__qualname__, given)
        return make(*args, **given)

    return cast("Maker", made)


class NamedLimits:
    """Constructors by the name of a period. Each raises ``ValidationError``.

    With ``window="calendar"`` all tokens come at the begin of a calendar window, by the clocks of ``timezone``. Up to
    ``carry_over`` tokens that are left at its end are carried into the next one; ``True`` is as many as the capacity.
    The aggregator sends an event when ``alert`` percent of a window are used: up to five whole numbers, ascending.
    """

    __slots__ = ()

    @classmethod
    @_names_new_ones
    def custom(
        cls,
        name: str,
        capacity: int,
        *,
        burst: int | None = None,
        refill_amount: int | None = None,
        refill_period: int = REFILL_PERIOD,
        shadow: bool = False,
        kind: Kind = "token_bucket",
        prefetch: float = 0.0,
        window: str = "",
        timezone: str = UTC,
        starts_on: int = 1,
        weights: Mapping[str, float] = NO_WEIGHTS,
        expires: int = 0,
        schedule: "Sequence[values.schedules.ScheduleEntry] | Sequence[str]" = (),
        alert: Sequence[int] = (),
        unit: str = "",
    ) -> Self:
        """Return a limit of any rate; ``burst`` and ``refill_amount`` default to ``capacity``, ``refill_period`` to 60
        seconds.

        With a capacity of 0, which blocks, the rate means nothing.
        """
        return cls(  # type: ignore[call-arg]  # the fields are those of `Limit`
            name=name,
            capacity=capacity,
            burst=capacity if burst is None else burst,
            refill_amount=(capacity or 1) if refill_amount is None else refill_amount,
            refill_period=refill_period,
            shadow=shadow,
            kind=kind,
            prefetch=prefetch,
            window=window,
            timezone=timezone,
            starts_on=starts_on,
            weights=weights,
            expires=expires,
            schedule=schedule,
            alert=alert,
            unit=unit,
        )

    @classmethod
    @_names_new_ones
    def per_second(
        cls,
        name: str,
        capacity: int,
        *,
        burst: int | None = None,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
        prefetch: float = 0.0,
    ) -> Self:
        """Return a limit of ``capacity`` tokens a second."""
        return cls.custom(
            name, capacity, burst=burst, refill_period=1, shadow=shadow, weights=weights, alert=alert, prefetch=prefetch
        )

    @classmethod
    @_names_new_ones
    def per_minute(
        cls,
        name: str,
        capacity: int,
        *,
        burst: int | None = None,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
        prefetch: float = 0.0,
        window: Literal["calendar"] | None = None,
        carry_over: int | bool = 0,
    ) -> Self:
        """Return a limit of ``capacity`` tokens a minute; ``window="calendar"``: all of them at the full minute."""
        burst = burst_of(name, capacity, burst, carry_over, window)
        rate = _period(name, window, "minute", prefetch)
        return cls.custom(name, capacity, burst=burst, shadow=shadow, weights=weights, alert=alert, **rate)

    @classmethod
    @_names_new_ones
    def per_hour(
        cls,
        name: str,
        capacity: int,
        *,
        burst: int | None = None,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
        prefetch: float = 0.0,
        window: Literal["calendar"] | None = None,
        carry_over: int | bool = 0,
    ) -> Self:
        """Return a limit of ``capacity`` tokens an hour; ``window="calendar"``: all of them at the full hour of UTC."""
        burst = burst_of(name, capacity, burst, carry_over, window)
        rate = _period(name, window, "hour", prefetch)
        return cls.custom(name, capacity, burst=burst, shadow=shadow, weights=weights, alert=alert, **rate)

    @classmethod
    @_names_new_ones
    def per_day(
        cls,
        name: str,
        capacity: int,
        *,
        burst: int | None = None,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
        prefetch: float = 0.0,
        window: Literal["calendar"] | None = None,
        timezone: str = UTC,
        carry_over: int | bool = 0,
    ) -> Self:
        """Return a limit of ``capacity`` tokens a day (24 hours); ``window="calendar"``: all of them at midnight."""
        burst = burst_of(name, capacity, burst, carry_over, window)
        rate = _period(name, window, "day", prefetch, timezone)
        return cls.custom(name, capacity, burst=burst, shadow=shadow, weights=weights, alert=alert, **rate)

    @classmethod
    @_names_new_ones
    def per_week(
        cls,
        name: str,
        capacity: int,
        *,
        burst: int | None = None,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
        prefetch: float = 0.0,
        window: Literal["calendar"] | None = None,
        timezone: str = UTC,
        starts_on: int = 1,
        carry_over: int | bool = 0,
    ) -> Self:
        """Return a limit of ``capacity`` tokens a week (7 days).

        ``window="calendar"``: all of them at the midnight that begins the day ``starts_on``, 1 for Monday to 7.
        """
        burst = burst_of(name, capacity, burst, carry_over, window)
        rate = {**_period(name, window, "week", prefetch, timezone), "starts_on": starts_on}
        return cls.custom(name, capacity, burst=burst, shadow=shadow, weights=weights, alert=alert, **rate)

    @classmethod
    def per_month(
        cls,
        name: str,
        capacity: int,
        *,
        timezone: str = UTC,
        starts_on: int = 1,
        carry_over: int | bool = 0,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
    ) -> Self:
        """Return a limit of ``capacity`` tokens a calendar month: all of them at the midnight that begins its first
        day.

        ``starts_on``: the first day, from 1 to 31; a month without that day begins on its last one.
        """
        burst = burst_of(name, capacity, None, carry_over, CALENDAR)
        rate = {**_period(name, CALENDAR, "month", 0.0, timezone), "starts_on": starts_on}
        return cls.custom(name, capacity, burst=burst, shadow=shadow, weights=weights, alert=alert, **rate)

    @classmethod
    def per_year(
        cls,
        name: str,
        capacity: int,
        *,
        timezone: str = UTC,
        carry_over: int | bool = 0,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
    ) -> Self:
        """Return a limit of ``capacity`` tokens a calendar year: all of them at the midnight that begins it.

        A year that begins on another day is a ``Limit.quota`` with a cron expression, like ``0 0 1 4 *``.
        """
        burst = burst_of(name, capacity, None, carry_over, CALENDAR)
        rate = _period(name, CALENDAR, "year", 0.0, timezone)
        return cls.custom(name, capacity, burst=burst, shadow=shadow, weights=weights, alert=alert, **rate)

    @classmethod
    def quota(
        cls,
        name: str,
        capacity: int,
        *,
        cron: str | None = None,
        window: int | None = None,
        timezone: str = UTC,
        carry_over: int | bool = 0,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
    ) -> Self:
        """Return a limit of ``capacity`` tokens, all of them whenever a cron expression of five fields fires, or
        ``window`` seconds after the first use.

        ``"0 6 * * MON"`` is every Monday at six, by the clocks of the zone. A time that they leave out comes when they
        are put on, a repeated one comes once. A window begins when the first token is taken of a full bucket, or of one
        whose window is over; at its end all tokens are back.
        """
        if window is not None:
            for each, given, default in (("cron", cron, None), ("timezone", timezone, UTC)):
                if given != default:
                    problem = "means nothing beside window=, whose seconds begin with the first use: leave one out"
                    raise ValidationError(f"{each} of limit {name!r}", given, problem)
            if carry_over not in (0, False):
                raise ValidationError(
                    f"carry_over of limit {name!r}", carry_over, "must be 0: a window of the first use begins full"
                )
            return cls.custom(
                name, capacity, refill_period=window, shadow=shadow, weights=weights, alert=alert, kind="first_use"
            )
        if cron is None:
            raise ValidationError(f"quota of limit {name!r}", None, "needs cron='0 6 * * MON', or window=3600 seconds")
        if cron in SECONDS:
            raise ValidationError(f"cron of limit {name!r}", cron, "must be a cron expression, like '0 6 * * MON'")
        burst = burst_of(name, capacity, None, carry_over, CALENDAR)
        rate = _period(name, CALENDAR, cron, 0.0, timezone)
        return cls.custom(name, capacity, burst=burst, shadow=shadow, weights=weights, alert=alert, **rate)

    @classmethod
    def total(
        cls,
        name: str,
        capacity: int,
        *,
        burst: int | None = None,
        expires: int | None = None,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
    ) -> Self:
        """Return a limit of ``capacity`` tokens that never come back by themselves.

        A bucket begins with the capacity; ``credit_bucket`` adds to it, up to the burst, by default the capacity. It
        stays for ever, or until it was unused for ``expires`` seconds, at least a day: then it begins anew.
        """
        if expires is not None:
            values.slots.check_expires_of_total(name, expires)
        return cls.custom(
            name, capacity, burst=burst, shadow=shadow, weights=weights, alert=alert, kind="total", expires=expires or 0
        )

    @classmethod
    def money(
        cls,
        name: str,
        amount: "str | int | Decimal",
        *,
        per: str,
        timezone: str | None = None,
        unit: str | None = None,
        shadow: bool = False,
        weights: Mapping[str, float] = NO_WEIGHTS,
        alert: Sequence[int] = (),
        schedule: "Sequence[values.schedules.ScheduleEntry] | Sequence[str]" = (),
    ) -> Self:
        """Return a limit of money: ``Limit.money("usd", "250.50", per="month", timezone="Europe/Berlin")``.

        The amount is in the currency, not in millionths; a float is refused, because it is not exact. ``per`` is what
        follows it in a limit's text: ``day`` or ``rolling day`` (any 24 hours), ``calendar day``, ``month``, ``30d from
        first use``, ``total``. ``unit``: the currency, by default the name, or ``usd``.
        """
        field = f"amount of limit {name!r}"
        code = unit or (name if name in values.money.CURRENCIES else "usd")
        micro = values.money_amounts.exact_micro(field, amount, code)
        try:
            found = values.money_amounts.read_per(micro, per, timezone)
        except ValueError as error:
            raise ValidationError(f"per of limit {name!r}", per, str(error)) from None
        return cls.custom(name, **found, shadow=shadow, weights=weights, alert=alert, schedule=schedule)

    @classmethod
    def concurrent(cls, name: str, capacity: int, *, expires: int = 60, shadow: bool = False) -> Self:
        """Return a limit of ``capacity`` slots: an acquire takes some, and the end of its lease frees them.

        A long block renews its slots. Those of a holder that is gone come back between ``expires`` seconds and twice
        that after it took or renewed them last.
        """
        values.slots.check_expires(name, expires)
        return cls.custom(name, capacity, shadow=shadow, kind="concurrent", expires=expires)


for _made in vars(NamedLimits).values():  # Python's own errors name `Limit.per_minute()`, as the caller wrote it
    if isinstance(_made, classmethod):
        _made.__func__.__qualname__ = f"Limit.{_made.__func__.__name__}"


def _period(name: str, window: str | None, unit: str, prefetch: float, timezone: str = UTC) -> dict[str, Any]:
    """Return the fields of a limit whose tokens come evenly over a unit, or all at once with each one of a calendar."""
    if window is not None:
        return {"kind": CALENDAR, "window": unit, "timezone": timezone, "prefetch": prefetch}
    if timezone != UTC:
        problem = "belongs to a calendar window: add window='calendar'"
        raise ValidationError(f"timezone of limit {name!r}", timezone, problem)
    return {"refill_period": SECONDS[unit], "prefetch": prefetch}
