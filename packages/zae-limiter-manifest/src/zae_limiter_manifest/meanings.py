"""Limits of a manifest that may mean something else than they say: money as tokens, and days of no calendar.

A limit named `usd` with whole tokens counts millionths of a dollar if its calls ask for what a price list gives, and
dollars otherwise. `100/day` is any 24 hours, `250/month` a month of the calendar. None of them is a
mistake, so each is a warning, which a currency or a word ends.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from .declarations import ResourceDecl, SystemDecl
from .limit_declarations import LimitDecl
from .limit_text import write_refill
from .manifest import LimitsManifest
from .money import CURRENCIES, MICRO, write_money
from .problems import Path, format_path

_PARTS: Final = re.compile(r"[-_.]")
_ALIASES: Final = {"dollar": "usd", "dollars": "usd", "euro": "eur", "euros": "eur", "pounds": "gbp"}
_NAMES: Final[Mapping[str, str]] = {**{code: code for code in CURRENCIES}, **_ALIASES}


@frozen
class BareMoney:
    """A limit at `path` that is named as money, and counts tokens: `text` is what it says, `meant` what it may mean."""

    namespace: str
    path: str
    text: str
    worth: str
    meant: str

    def __str__(self) -> str:
        told = f"{self.namespace}: {self.path}: {self.text} is tokens, which price lists count as {self.worth}"
        return f"{told}: for money write {self.meant}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the message."""
        return {"namespace": self.namespace, "path": self.path, "names": {}, "message": str(self)}


@frozen
class RollingOrCalendar:
    """Limits whose text has `day` or `month` alone, the first at `path`: what they mean, and how to say it."""

    namespace: str
    path: str
    more: int
    means: str

    def __str__(self) -> str:
        others = f" (and {self.more:,} more)" if self.more else ""
        return f"{self.namespace}: {self.path}{others}: {self.means}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the message."""
        return {"namespace": self.namespace, "path": self.path, "names": {}, "message": str(self)}


def find_bare_money(manifest: LimitsManifest) -> Iterator[BareMoney]:
    """Yield each limit that is named as money, and counts tokens."""
    for path, name, limit in _limits(manifest):
        code = currency_of(name)
        if code is None or limit.unit or limit.kind == "concurrent":
            continue
        amount = limit.capacity if limit.kind != "token_bucket" else limit.refill_amount
        text = write_refill(limit.values)
        when = text.removeprefix(re.split("[/ ]", text)[0])
        meant = f"{write_money(amount * MICRO, code)}{when}"
        yield BareMoney(manifest.namespace, format_path(path), text, write_money(amount, code), meant)


def find_open_days(manifest: LimitsManifest) -> Iterator[RollingOrCalendar]:
    """Yield once what `day` alone means in this manifest, and once what `month` alone means for money."""
    found = [(path, name, limit) for path, name, limit in _limits(manifest) if limit.leaves_open]
    days = [format_path(path) for path, _, limit in found if limit.kind == "token_bucket"]
    months = [
        format_path(path)
        for path, name, limit in found
        if limit.kind == "calendar" and (limit.unit or currency_of(name) is not None)
    ]
    if days:
        means = "a day is any 24 hours: write `rolling day`, or `calendar day` for one that ends at midnight"
        yield RollingOrCalendar(manifest.namespace, days[0], len(days) - 1, means)
    if months:
        means = "a month is the calendar's, of UTC: write its zone (`month UTC`), or `30d` for any 30 days"
        yield RollingOrCalendar(manifest.namespace, months[0], len(months) - 1, means)


def currency_of(name: str) -> str | None:
    """Return the currency that a limit's name says, `usd` of `usd-team`; None for any other name."""
    return next((_NAMES[part] for part in _PARTS.split(name.lower()) if part in _NAMES), None)


def _limits(manifest: LimitsManifest) -> Iterator[tuple[Path, str, LimitDecl]]:
    for path, level in _levels(manifest):
        for name, limit in level.limits.items():
            yield (*path, "limits", name), name, limit


def _levels(manifest: LimitsManifest) -> Iterator[tuple[Path, SystemDecl | ResourceDecl]]:
    if manifest.system is not None:
        yield ("system",), manifest.system
    for resource, level in manifest.resources.items():
        yield ("resources", resource), level
    for section, owners in (("tiers", manifest.tiers), ("entities", manifest.entities)):
        for owner, of_owner in owners.items():
            for resource, level in of_owner.resources.items():
                yield (section, owner, "resources", resource), level
