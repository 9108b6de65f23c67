"""Give a region its share of each limit of a manifest.

Buckets of two regions know nothing of each other, so the one thing that holds over all regions is a sum: what each may
admit, added up. Every amount of a limit is scaled, its burst too, and rounded down. So regions whose shares add up to
at most the whole never admit more than the whole limit does, in any span of time.

Rounding down takes much of a small rate: 60 % of `1/sec` would be nothing. A rate may have a longer period in place of
a smaller amount, so that is what it gets where rounding would take more than a hundredth: `3/5s`. Amounts at once
cannot: a limit whose share is less than one token is refused, because it would block the region without a word.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve, field, frozen

from .addresses import Address
from .declarations import Decl, RecordDecl
from .limit_declarations import MAX_AMOUNT, MAX_REFILL_PERIOD_SECONDS, LimitDecl
from .problems import ManifestError, show
from .schedule_text import read_entry, write_entry

WHOLE: Final = "100%"
_PARTS: Final = 10_000  # of the whole: hundredths of a percent
_LOST: Final = 100  # a rate loses less than one part of these
_NAMED: Final = 3
_SHARE: Final = re.compile(r"([0-9]{1,3})(?:\.([0-9]{1,2}))?%")


class ShareError(ValueError):
    """Limits whose share is less than one token."""


def check_share(text: object) -> str:
    """Return a share of each limit, such as `60%` or `33.33%`, in its one spelling. Raises `ValueError`."""
    return write_share(parts_of(text))


def parts_of(text: object) -> int:
    """Return a share in hundredths of a percent. Raises `ValueError`."""
    found = _SHARE.fullmatch(text.strip()) if isinstance(text, str) and text.isascii() else None
    parts = int(found[1]) * 100 + int((found[2] or "").ljust(2, "0")) if found else 0
    if not 1 <= parts <= _PARTS:
        raise ValueError(f"a share is 0.01% to 100%, such as 60% or 33.33%, not {show(text)}")
    return parts


def write_share(parts: int) -> str:
    """Return the text of a share in hundredths of a percent."""
    whole, rest = divmod(parts, 100)
    return f"{whole}.{rest:02}".rstrip("0").rstrip(".") + "%" if rest else f"{whole}%"


def settled_share(asked: str | None, recorded: str | None) -> str | None:
    """Return the share that holds after an apply, None for the whole: the one asked for, else the recorded one.

    Raises `ValueError` for a text that is none.
    """
    share = recorded if asked is None else asked
    return None if share is None or check_share(share) == WHOLE else check_share(share)


@frozen
class Shared:
    """Scales declarations to a share, equal ones once; None leaves them as they are."""

    share: str | None
    _small: list[str] = field(factory=list, init=False)
    _known: dict[LimitDecl, LimitDecl] = field(factory=dict, init=False)

    def __call__(self, address: Address, decl: Decl) -> Decl:
        """Return the declaration of an address, scaled; note it if a limit cannot be divided."""
        if self.share is None or isinstance(decl, RecordDecl) or not decl.limits:
            return decl
        limits = {}
        for name, limit in decl.limits.items():
            try:
                limits[name] = self._limit(limit, parts_of(self.share))
            except ShareError:
                self._small.append(f"{address}: {name} ({limit.text or limit.capacity})")
        return decl if len(limits) < len(decl.limits) else evolve(decl, limits=limits)

    def check(self) -> None:
        """Raise `ShareError` if a limit could not be divided."""
        if self._small:
            more = len(self._small) - _NAMED
            named = ", ".join(self._small[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
            raise ShareError(
                f"{self.share} is less than one token of {named}: raise it, or declare it in a namespace that one "
                "region has as a whole"
            )

    def _limit(self, limit: LimitDecl, parts: int) -> LimitDecl:
        if limit not in self._known:
            try:
                self._known[limit] = _scaled(limit, parts)
            except ManifestError as error:  # `prefetch` would take all of the burst that is left
                raise ShareError from error
        return self._known[limit]


def _scaled(limit: LimitDecl, parts: int) -> LimitDecl:
    fields = {name: getattr(limit, name) for name in ("capacity", "burst", "refill_amount", "refill_period")}
    is_rate = limit.kind == "token_bucket"
    found = _amounts(fields, parts, is_rate=is_rate)
    if limit.kind not in ("token_bucket", "calendar"):
        found["refill_amount"] = found["capacity"] or 1  # they have no amount of their own
    entries = tuple(write_entry(_amounts(read_entry(text), parts, is_rate=is_rate)) for text in limit.schedule)
    return evolve(limit, **found, schedule=entries)


def _amounts(fields: Mapping[str, Any], parts: int, *, is_rate: bool) -> dict[str, Any]:
    """Return the fields with their amounts scaled; 0, which blocks, stays 0. Raises `ShareError`."""
    if not fields["capacity"]:
        return {**fields}
    burst, capacity = (_least_one(fields[name] * parts // _PARTS) for name in ("burst", "capacity"))
    amount, period = fields["refill_amount"], fields["refill_period"]
    if is_rate and period is not None:
        amount, period = _rate(amount, period, parts)
    else:
        amount = _least_one(amount * parts // _PARTS)
    return {**fields, "burst": burst, "capacity": capacity, "refill_amount": amount, "refill_period": period}


def _rate(amount: int, period: int, parts: int) -> tuple[int, int]:
    """Return the amount and the period of a scaled rate: the shortest period that loses less than a hundredth."""
    for times in range(1, _PARTS + 1):  # with all of them nothing is lost
        exact = amount * parts * times
        whole, lost = divmod(exact, _PARTS)
        if lost * _LOST <= exact and whole:
            if whole > MAX_AMOUNT or period * times > MAX_REFILL_PERIOD_SECONDS:
                break
            return whole, period * times
    raise ShareError


def _least_one(amount: int) -> int:
    if not amount:
        raise ShareError
    return amount
