"""Amounts of money that callers give: exact numbers, in the currency of their limit."""

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

from ..exceptions import ValidationError
from .limit_text import read_limit
from .money import CURRENCIES, MAX_MICRO, MICRO, Micro, write_money


class MoneyAmounts(dict[str, int]):
    """Amounts in thousandths by limit, of which those of ``money`` were given as ``Decimal``."""

    money: frozenset[str]

    @classmethod
    def of(cls, milli: Mapping[str, int], money: Iterable[str]) -> "MoneyAmounts":
        """Return the amounts with the names of those that are money."""
        amounts = cls(milli)
        amounts.money = frozenset(money)
        return amounts


def check_unit(name: str, unit: object, kind: str) -> None:
    """Refuse a unit that is not a currency. Raises ``ValidationError``."""
    if unit not in CURRENCIES:
        problem = f"must be an ISO code in lower case, one of {', '.join(CURRENCIES)}"
        raise ValidationError(f"unit of limit {name!r}", unit, problem)
    if kind == "concurrent":
        raise ValidationError(
            f"unit of limit {name!r}", unit, "belongs to money, and this limit has slots: leave it out"
        )


def check_same_unit(unit: str, of_entry: str) -> None:
    """Refuse an entry of a schedule that is not of its limit's currency. Raises ``ValidationError``."""
    if unit != of_entry:
        meant = f"must be money as the limit is: {write_money(100 * MICRO, unit)}" if unit else "must be tokens"
        raise ValidationError("unit", of_entry or "tokens", meant)


def exact_micro(field: str, amount: object, unit: str) -> Micro:
    """Return an amount of a currency, of which a limit is made, in millionths. Raises ``ValidationError``."""
    problem = "must be money as text, int or Decimal, with at most six decimals"
    if isinstance(amount, float):
        raise ValidationError(field, amount, "is a float, which is not exact: give it as text or as a Decimal")
    if isinstance(amount, bool) or not isinstance(amount, str | int | Decimal):
        raise ValidationError(field, amount, problem)
    try:
        exact = Decimal(amount)
    except InvalidOperation:
        raise ValidationError(field, amount, problem) from None
    if not exact.is_finite() or not 0 <= exact * MICRO <= MAX_MICRO or exact * MICRO != int(exact * MICRO):
        raise ValidationError(field, amount, f"{problem}, from 0 to {write_money(MAX_MICRO, 'usd')[1:]}")
    return Micro.of(int(exact * MICRO), unit)


def read_per(micro: Micro, per: str, timezone: str | None) -> dict[str, Any]:
    """Return the fields of a limit of so much money per what a limit's text has behind the amount. Raises
    ``ValueError``.
    """
    words = per.split() if isinstance(per, str) else []
    joint = " " if words == ["total"] else " per " if words[-3:] == ["from", "first", "use"] else "/"
    if timezone is not None:
        words.append(str(timezone))
    return read_limit(f"{micro}{joint}{' '.join(words)}")


def whole_amount(field: str, amount: object, *, signed: bool) -> int:
    """Return a ``Decimal`` of money in millionths, of which a begun one counts. Raises ``ValidationError`` for any
    other amount.
    """
    least = "" if signed else ", 0 or more"
    if not isinstance(amount, Decimal):
        way_out = "; a float is not exact: give money as a Decimal" if isinstance(amount, float) else ""
        raise ValidationError(field, amount, f"must be a whole number of tokens{least}, at most {MAX_MICRO}{way_out}")
    if not amount.is_finite() or not (-MAX_MICRO if signed else 0) <= amount * MICRO <= MAX_MICRO:
        raise ValidationError(field, amount, f"must be an amount of money{least}, at most {MAX_MICRO // MICRO}")
    return int((amount * MICRO).to_integral_value(ROUND_CEILING))


def counts_tokens(name: str, limits: Mapping[str, Any]) -> bool:
    """Return whether a bucket with these limits has one of this name that is not money."""
    return name in limits and not limits[name].unit


def refuse_tokens(field: str, milli: Mapping[str, int], limits: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a ``Decimal`` among amounts for a limit of tokens; ``limits``: those of each bucket by name. Raises
    ``ValidationError``.
    """
    by_bucket = list(limits)
    for name in milli.money if isinstance(milli, MoneyAmounts) else ():
        if any(counts_tokens(name, each) for each in by_bucket):
            problem = f"is money, and limit {name!r} counts tokens: give a whole number, or make it Limit.money"
            raise ValidationError(f"{field}[{name!r}]", "a Decimal", problem)
