"""Usage as bars of SVG, which need no script."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot

WIDTH, HEIGHT = 600, 90
GAP: Final = 0.2


@dataclass(frozen=True, slots=True)
class Bar:
    """A window: its place in the picture, and its amount in words."""

    x: float
    y: float
    width: float
    height: float
    told: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One count over all windows."""

    name: str
    total: int
    most: int
    bars: Sequence[Bar]


def charts_of(snapshots: Iterable["UsageSnapshot"], start: datetime, windows: int, step: timedelta) -> list[Chart]:
    """Return a chart for the acquires admitted and refused, and for the tokens of each limit."""
    sums: dict[str, Counter[datetime]] = {"admitted": Counter(), "refused": Counter()}
    for each in snapshots:
        sums["admitted"][each.window_start] += each.total_events
        sums["refused"][each.window_start] += each.total_refused
        for name, amount in each.consumed.items():
            sums.setdefault(f"{name} used", Counter())[each.window_start] += amount
    at = [start + number * step for number in range(windows)]
    return [_chart(name, counts, at) for name, counts in sums.items()]


def _chart(name: str, counts: Mapping[datetime, int], at: Sequence[datetime]) -> Chart:
    amounts = [max(0, counts.get(each, 0)) for each in at]
    most, wide = max(amounts, default=0), WIDTH / max(1, len(at))
    bars = []
    for number, (when, amount) in enumerate(zip(at, amounts, strict=True)):
        height = amount * HEIGHT / most if most else 0.0
        told = f"{when:%Y-%m-%d %H:%M}: {amount:,}"
        bars.append(Bar(round(number * wide, 2), round(HEIGHT - height, 2), round(wide * (1 - GAP), 2), height, told))
    return Chart(name, sum(amounts), most, bars)
