# `just variants` copies this module to packages/zae-limiter-core/src/zae_limiter/values.
"""Read and write amounts of money. A limit of money counts micro-units of its currency, as whole numbers."""

import re
from typing import Final

CURRENCIES: Final = (
    *("usd", "eur", "gbp", "aed", "aud", "brl", "cad", "chf", "cny", "czk", "dkk", "hkd", "huf", "idr", "ils", "inr"),
    *("jpy", "krw", "mxn", "nok", "nzd", "pln", "sar", "sek", "sgd", "thb", "twd", "zar"),
)
"""ISO codes, in lower case."""
SIGNS: Final = {"$": "usd", "€": "eur", "£": "gbp"}
MICRO: Final = 1_000_000
MAX_MICRO: Final = 10**15
"""The most micro-units of one amount, a billion of the currency: buckets keep thousandths of them in 64 bits."""
_AMOUNT: Final = re.compile(f"[{''.join(SIGNS)}]?[0-9][0-9_,.]*[kKMG]?")
_SIGN_OF: Final = {unit: sign for sign, unit in SIGNS.items()}
_MONEY: Final = re.compile(
    rf"([{''.join(SIGNS)}])?\s*([0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]+(?:_[0-9]+)*)(?:\.([0-9]{{1,9}}))?([kKMG]?)"
    rf"\s*({'|'.join(CURRENCIES)})?"
)
_LARGE: Final = {"": 1, "k": 1_000, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def join_amounts(text: str) -> str:
    """Return a text whose amounts have no space before their currency: `250 eur/month` is `250eur/month`."""
    words: list[str] = []
    for word in text.split():
        if words and word[:3] in CURRENCIES and not word[3:4].isalpha() and _AMOUNT.fullmatch(words[-1]):
            words[-1] += word
        else:
            words.append(word)
    return " ".join(words)


class Micro(int):
    """An amount of money in micro-units of its `unit`, as a text gives it."""

    unit: str

    @classmethod
    def of(cls, amount: int, unit: str) -> "Micro":
        """Return the amount with its currency."""
        micro = cls(amount)
        micro.unit = unit
        return micro

    def __str__(self) -> str:
        return write_money(self, self.unit)


def read_money(text: str, unit: str = "") -> Micro | None:
    """Return the amount of a text: `$5.50`, `1_500 eur`, `£2k`; None if it names no currency and none is given. Raises
    `ValueError` for parts of a micro-unit.
    """
    found = _MONEY.fullmatch(text) if len(text) <= 40 else None
    if found is None:
        return None
    sign, whole, part, suffix, code = found.groups("")
    named = {each for each in (SIGNS.get(sign), code, unit) if each}
    if not named:
        return None
    if len(named) > 1:
        raise ValueError(f"{text} names two currencies: {' and '.join(sorted(named))}")
    whole, part = whole.replace(",", "").replace("_", ""), part.ljust(9, "0")
    micro, rest = divmod(int(f"{whole}{part}") * _LARGE[suffix], 10**9 // MICRO)
    if rest:
        raise ValueError(f"{text} has a part of a millionth: write at most six decimals")
    if micro > MAX_MICRO:
        raise ValueError(f"{text} is more than a limit can have, {MAX_MICRO // MICRO:_}")
    return Micro.of(micro, named.pop())


def write_money(micro: int, unit: str, *, group: str = "_") -> str:
    """Return an amount as a limit's text has it: `$250`, `$5.50`, `1_500 chf`."""
    whole, part = divmod(abs(micro), MICRO)
    digits = f"{whole:_}".replace("_", group) + (f".{f'{part:06}'.rstrip('0').ljust(2, '0')}" if part else "")
    sign = "-" if micro < 0 else ""
    return f"{sign}{_SIGN_OF[unit]}{digits}" if unit in _SIGN_OF else f"{sign}{digits} {unit}"


def show_amount(amount: int, unit: str) -> str:
    """Return an amount of a limit for people: digits of tokens, or money such as `$1,234.50`."""
    return write_money(amount, unit, group=",") if unit else str(amount)
