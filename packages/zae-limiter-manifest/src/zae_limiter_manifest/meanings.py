"""Limits of a manifest that may mean something else than they say: money as tokens, and days of no calendar.

A limit named `usd` with whole tokens counts millionths of a dollar if its calls ask for what a price list gives, and
dollars otherwise. `100/day` is any 24 hours, `250/month` a month of the calendar, and `3000/year` a year. None of
them is a mistake, so each is a warning, which a currency or a word ends.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from .limit_declarations import LimitDecl
from .limit_text import write_refill
from .manifest import LimitsManifest
from .money import CURRENCIES, MICRO, write_money
from .problems import Path
from .warned import BARE_MONEY, OPEN_DAY, Warned
from .winners import all_levels

_PARTS: Final = re.compile(r"[-_.]")
_ALIASES: Final = {"dollar": "usd", "dollars": "usd", "euro": "eur", "euros": "eur", "pounds": "gbp"}
_NAMES: Final[Mapping[str, str]] = {**{code: code for code in CURRENCIES}, **_ALIASES}


def find_bare_money(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield each limit that is named as money, and counts tokens."""
    for path, name, limit in _limits(manifest):
        if (bare := bare_money(name, limit)) is not None:
            text = write_refill(limit.values)
            told = f"is {text}, tokens that price lists count as {bare.counted}: for money write {bare.in_money(text)}"
            yield Warned(BARE_MONEY, manifest.namespace, path, told)


class Counting(Protocol):
    """What a limit counts, and how much of it comes back."""

    @property
    def unit(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def capacity(self) -> int: ...
    @property
    def refill_amount(self) -> int: ...


class BareMoney(NamedTuple):
    """What comes back of a limit that is named as money, and counts tokens."""

    tokens: int
    code: str

    @property
    def counted(self) -> str:
        """The tokens, as price lists count them."""
        return write_money(self.tokens, self.code)

    def in_money(self, text: str) -> str:
        """Return the limit's text, with money in place of the tokens."""
        return f"{write_money(self.tokens * MICRO, self.code)}{text.removeprefix(re.split('[/ ]', text)[0])}"


def bare_money(name: str, limit: Counting) -> BareMoney | None:
    """Return what comes back of a limit, if it is named as money and counts tokens."""
    code = currency_of(name)
    if code is None or limit.unit or limit.kind == "concurrent":
        return None
    return BareMoney(limit.capacity if limit.kind != "token_bucket" else limit.refill_amount, code)


def find_open_days(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield once what `day` alone means in this manifest, and for money once what `month` means, and `year`."""
    found = [(path, name, limit) for path, name, limit in _limits(manifest) if limit.leaves_open]
    days = [path for path, _, limit in found if limit.kind == "token_bucket"]
    money = [(path, limit.window) for path, name, limit in found if limit.unit or currency_of(name) is not None]
    if days:
        means = "a day is any 24 hours: write `rolling day`, or `calendar day` for one that ends at midnight"
        yield _open(manifest, days, means)
    for window, length in (("month", 30), ("year", 365)):
        if paths := [path for path, of in money if of == window]:
            other = f"`{length}d` for any {length} days"
            means = f"a {window} is the calendar's, of UTC: write its zone (`{window} UTC`), or {other}"
            yield _open(manifest, paths, means)


def _open(manifest: LimitsManifest, paths: Sequence[Path], means: str) -> Warned:
    others = f"and {len(paths) - 1:,} more say no calendar" if paths[1:] else "says no calendar"
    return Warned(OPEN_DAY, manifest.namespace, paths[0], f"{others}: {means}")


def currency_of(name: str) -> str | None:
    """Return the currency that a limit's name says, `usd` of `usd-team`; None for any other name."""
    return next((_NAMES[part] for part in _PARTS.split(name.lower()) if part in _NAMES), None)


def _limits(manifest: LimitsManifest) -> Iterator[tuple[Path, str, LimitDecl]]:
    for path, _, level in all_levels(manifest):
        for name, limit in level.limits.items():
            yield (*path, "limits", name), name, limit
