"""Draw usage as bars in text, one for each window."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from ..rates import amount as shown_amount
from ..times import shown
from .units import NO_UNITS

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot

LEAST_ROOM: Final = 10  # columns for the longest bar, on however narrow a terminal
EIGHTHS: Final = " ▏▎▍▌▋▊▉"

Sums = Mapping[datetime, int]


def charts(
    snapshots: Iterable["UsageSnapshot"],
    step: timedelta,
    units: Mapping[str, str] = NO_UNITS,
    *,
    width: int,
    symbols: bool,
) -> Iterator[str]:
    """Yield for each limit its name and a line for each window, from the first with any use to the last, a ``step``
    apart.
    """
    sums: dict[str, Counter[datetime]] = {}
    seen: set[datetime] = set()
    for snapshot in snapshots:
        seen.add(snapshot.window_start)
        for name, amount in snapshot.consumed.items():
            sums.setdefault(name, Counter())[snapshot.window_start] += amount
    for name in sorted(sums):
        yield name
        of_windows = {at: sums[name][at] for at in _windows(min(seen), max(seen), step)}
        yield from _lines(of_windows, width, units.get(name, ""), symbols=symbols)


def bar(amount: int, most: int, room: int, *, symbols: bool) -> str:
    """Return a bar as long as its share of ``room``; any amount above 0 is visible. ``symbols``: draw eighths."""
    parts = len(EIGHTHS) if symbols else 1
    length = max(1, amount * room * parts // most) if amount > 0 else 0
    if not symbols:
        return "#" * length
    whole, rest = divmod(length, parts)
    return "█" * whole + EIGHTHS[rest].strip()


def _windows(first: datetime, last: datetime, step: timedelta) -> Iterator[datetime]:
    while first <= last:
        yield first
        first += step


def _lines(sums: Sums, width: int, unit: str, *, symbols: bool) -> Iterator[str]:
    figures = {at: shown_amount(amount, unit) for at, amount in sums.items()}
    wide = max(map(len, figures.values()))
    most = max(sums.values())
    for at, amount in sums.items():
        start = f"  {shown(at)}  {figures[at]:>{wide}}  "
        yield (start + bar(amount, most, max(LEAST_ROOM, width - len(start)), symbols=symbols)).rstrip()
