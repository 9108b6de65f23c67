"""The pictures of the console, as values: what a script draws, and a table with the same numbers in words.

`static/charts.js` draws ``spec``; what it says of a value, under the pointer or by the keyboard, is a row of the table.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ..rates import about, amount
from ..times import duration, shown
from ..usage.burn_down import BurnDown
from ..usage.forecast import Budget
from ..usage.history import History, LimitUse
from ..usage.teams import Team

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot

MOST_LIMITS: Final = 5  # of which a picture has a part each
MOST_REFUSERS: Final = 4  # that have a colour of their own
UNKNOWN: Final = "-"
LEVELS: Final = 5  # of colour, in a heat map
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture: its title, what it says in a sentence, what is drawn, and its table."""

    title: str
    note: str
    spec: Mapping[str, Any]
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    legend: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A budget beside its picture: what is left, until when, and when it is gone at this rate."""

    budget: Budget
    left: str
    of: str
    forecast: str
    trouble: bool
    figure: Figure


@dataclass(frozen=True, slots=True)
class Cell:
    """A window of a team: calls in short, ``level`` for the colour, red if some were refused; all in words."""

    text: str
    level: int
    refused: bool
    words: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A team, or an entity below it."""

    team: Team
    cells: Sequence[Cell]


def usage_figure(
    snapshots: Iterable["UsageSnapshot"], at: Sequence[datetime], step: timedelta, units: Mapping[str, str]
) -> Figure:
    """Return calls, and the tokens of each limit, of all entities in each window."""
    calls: dict[str, Counter[datetime]] = {"admitted": Counter(), "refused": Counter()}
    tokens: dict[str, Counter[datetime]] = {}
    for each in snapshots:
        calls["admitted"][each.window_start] += each.total_events
        calls["refused"][each.window_start] += each.total_refused
        for name, used in each.consumed.items():
            tokens.setdefault(name, Counter())[each.window_start] += used
    names = sorted(tokens, key=lambda name: (-tokens[name].total(), name))[:MOST_LIMITS]
    bars = [_bars(name, [calls[name][when] for when in at], tone) for name, tone in (("admitted", 0), ("refused", 1))]
    grids = [_grid("calls", "", bars)]
    grids += [
        _grid(f"{name} used", units.get(name, ""), [_bars(f"{name} used", [tokens[name][when] for when in at], 0)])
        for name in names
    ]
    rows = [
        [
            _window(when, step),
            *(f"{calls[name][when]:,}" for name in calls),
            *(amount(tokens[name][when], units.get(name, "")) for name in names),
        ]
        for when in at
    ]
    note = f"{calls['admitted'].total():,} admitted, {calls['refused'].total():,} refused, {by_window(step)}"
    spec = _windows(at, step, grids, [])
    heads = ["Time (UTC)", *calls, *(f"{name} used" for name in names)]
    return Figure("Calls and tokens", note, spec, heads, rows, [("admitted", 0), ("refused", 1)])


def history_figure(history: History) -> Figure:
    """Return the use of each limit beside the limit, with refusals below on the same axis."""
    at, step = history.at, history.step
    used = [each for each in history.limits if any(each.used)]
    limits = (used or history.limits[:1])[:MOST_LIMITS]
    grids = [_limit_grid(each) for each in limits]
    names = [*history.refused]
    shown_names, others = names[:MOST_REFUSERS], names[MOST_REFUSERS:]
    parts = {name: list(history.refused[name]) for name in shown_names}
    if others:
        parts["others"] = [sum(history.refused[name][place] for name in others) for place in range(len(at))]
    bars = [_bars(name, numbers, tone) for tone, (name, numbers) in enumerate(parts.items(), 1)]
    grids.append(_grid("refused", "", bars or [_bars("refused", [0] * len(at), 1)]))
    marks: list[dict[str, Any]] = [
        {"place": place, "text": mark.text}
        for mark in history.marks
        for place in [(mark.at - at[0]) // step]
        if 0 <= place < len(at)
    ]
    changes: dict[int, list[str]] = {}
    for mark in marks:
        changes.setdefault(mark["place"], []).append(mark["text"])
    rows = [
        [
            _window(when, step),
            *(cell for each in limits for cell in _limit_cells(each, place)),
            f"{history.admitted[place]:,}",
            *(f"{numbers[place]:,}" for numbers in parts.values()),
            "; ".join(changes.get(place, ())) or UNKNOWN,
        ]
        for place, when in enumerate(at)
    ]
    heads = [
        "Time (UTC)",
        *(head for each in limits for head in (_used_head(each), f"{each.limit.name} limit")),
        "Admitted",
        *(f"Refused by {name}" for name in parts),
        "Changes",
    ]
    refused = sum(map(sum, history.refused.values()))
    note = f"{sum(history.admitted):,} admitted, {refused:,} refused, {by_window(step)}"
    spec = _windows(at, step, grids, marks)
    return Figure("Use against the limit", note, spec, heads, rows, _legend(parts))


def minutes_figure(at_ms: Sequence[int], counts: Mapping[str, Sequence[int | None]], since_ms: int | None) -> Figure:
    """Return refusals by the minute, stacked by the limit that refused."""
    at = [datetime.fromtimestamp(each / 1000, UTC) for each in at_ms]
    step = timedelta(minutes=1)
    bars = [_bars(name, numbers, tone) for tone, (name, numbers) in enumerate(counts.items(), 1)]
    total = sum(number or 0 for numbers in counts.values() for number in numbers)
    rows = [
        [
            f"{when:%H:%M}",
            *(UNKNOWN if numbers[place] is None else f"{numbers[place]:,}" for numbers in counts.values()),
        ]
        for place, when in enumerate(at)
    ]
    since = "" if since_ms is None else datetime.fromtimestamp(since_ms / 1000, UTC).strftime("%H:%M")
    known = f", seen since {since}" if since_ms is not None and since_ms > at_ms[0] else ""
    spec = _windows(at, step, [_grid("refused a minute", "", bars or [_bars("refused", [0] * len(at), 1)])], [])
    heads = ["Time (UTC)", *counts]
    return Figure(
        "Refused, last 60 minutes", f"{total:,} refused{known}, {by_window(step)}", spec, heads, rows, _legend(counts)
    )


def card_of(burn: BurnDown) -> Card:
    """Return a budget for the start page."""
    budget = burn.budget
    unit, limit = budget.limit.unit, budget.limit
    line = _line(burn)
    spec = {
        "kind": "budget",
        "unit": unit,
        "capacity": limit.capacity,
        "left": [[_ms(at), tokens] for at, tokens in burn.left],
        "forecast": [[_ms(at), tokens] for at, tokens in line],
        "begins": None if burn.begins is None else _ms(burn.begins),
        "ends": None if budget.window_ends is None else _ms(budget.window_ends),
        "gone": burn.is_short,
    }
    rows = [[shown(at), amount(max(0, tokens), unit), "counted"] for at, tokens in burn.left]
    rows += [[shown(at), about(max(0, tokens), unit), "forecast"] for at, tokens in line[1:]]
    title = f"{budget.entity_id} on {budget.resource}, {limit.name}"
    forecast = _forecast(burn)
    figure = Figure(title, forecast, spec, ["Time (UTC)", f"{limit.name} left", "From"], rows)
    return Card(budget, about(budget.available, unit), amount(limit.capacity, unit), forecast, burn.is_short, figure)


def heat_of(teams: Sequence[Team], at: Sequence[datetime], step: timedelta) -> list[HeatRow]:
    """Return the rows of a heat map: darker for more calls, and red where some were refused."""
    most = max((calls.asked for team in teams for calls in team.calls), default=0)
    return [
        HeatRow(
            team,
            [
                Cell(
                    short(calls.asked) if calls.asked else "",
                    -(-calls.asked * LEVELS // most) if most else 0,
                    calls.refused > 0,
                    f"{_window(when, step)}: {calls.asked:,} calls, {calls.refused:,} refused",
                )
                for when, calls in zip(at, team.calls, strict=True)
            ],
        )
        for team in teams
    ]


def short(number: float) -> str:
    """Return a number in at most four characters: 950, 1.2k, 34k, 5.6M."""
    for size, suffix in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            part = number / size
            return f"{part:.1f}{suffix}" if part < 9.95 else f"{part:.0f}{suffix}"
    return f"{number:,.0f}"


def by_window(step: timedelta) -> str:
    """Return which windows a picture has, and in which zone their times are."""
    return f"by the {'day' if step >= DAY else 'hour' if step >= HOUR else 'minute'} (UTC)"


def label(when: datetime, step: timedelta) -> str:
    """Return the name of a window on an axis."""
    return f"{when:%b} {when.day}" if step >= DAY else f"{when:%H:%M}"


def _forecast(burn: BurnDown) -> str:
    budget, ends = burn.budget, burn.budget.window_ends
    if budget.available <= 0:
        return "gone" if ends is None else f"gone, until {shown(ends)} UTC"
    if budget.gone_at is not None:
        rate = "hour" if budget.by_hour else "day"
        return f"gone {shown(budget.gone_at)} UTC at the last {rate}'s rate, in {_roughly(budget.gone_at - burn.at)}"
    if ends is None:
        return "not used in the last day"
    left = about(burn.at_end or 0, budget.limit.unit)
    return f"about {left} left when the window ends, {shown(ends)} UTC, at the last {burn.rate}'s rate"


def _roughly(length: timedelta) -> str:
    seconds = length.total_seconds()
    unit = 3600 if seconds >= DAY.total_seconds() else 60
    return duration(max(1, seconds // unit * unit))


def _line(burn: BurnDown) -> list[tuple[datetime, int]]:
    """Return the forecast from now on: to where nothing is left, and then to the end of the window."""
    budget, ends = burn.budget, burn.budget.window_ends
    found = [(burn.at, budget.available)]
    if budget.gone_at is not None and budget.available > 0:
        found.append((budget.gone_at, 0))
    if ends is not None:
        found.append((ends, 0 if burn.is_short else burn.at_end or 0))
    return found


def _limit_grid(each: LimitUse) -> dict[str, Any]:
    known = any(value is not None for value in each.given)
    line = {"name": f"{each.limit.name} limit", "values": each.given} if known else None
    title = f"{_used_head(each)}, and its limit as a line" if line else _used_head(each)
    return _grid(title, each.limit.unit, [_bars(_used_head(each), each.used, 0)], line)


def _used_head(each: LimitUse) -> str:
    return f"{each.limit.name} used so far" if each.adds_up else f"{each.limit.name} used"


def _limit_cells(each: LimitUse, place: int) -> list[str]:
    unit, used, given = each.limit.unit, each.used[place], each.given[place]
    return [UNKNOWN if value is None else amount(value, unit) for value in (used, given)]


def _grid(
    name: str, unit: str, bars: Sequence[Mapping[str, Any]], line: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {"name": name, "unit": unit, "bars": bars, "line": line}


def _legend(refused: Mapping[str, Sequence[int | None]]) -> list[tuple[str, int]]:
    """Return the limits that refused, each with its number and its tone."""
    sums = {name: sum(number or 0 for number in numbers) for name, numbers in refused.items()}
    return [(f"refused by {name}: {number:,}", tone) for tone, (name, number) in enumerate(sums.items(), 1)]


def _bars(name: str, values: Sequence[int | None], tone: int) -> dict[str, Any]:
    """Return a series: of tone 0 in the accent's colour, of others in shades of red."""
    return {"name": name, "values": [None if each is None else max(0, each) for each in values], "tone": tone}


def _windows(
    at: Sequence[datetime], step: timedelta, grids: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {"kind": "windows", "labels": [label(when, step) for when in at], "grids": grids, "marks": marks}


def _window(when: datetime, step: timedelta) -> str:
    if step >= DAY:
        return f"{when:%Y-%m-%d}"
    return f"{shown(when)}" if step >= HOUR else f"{when:%H:%M}"


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
