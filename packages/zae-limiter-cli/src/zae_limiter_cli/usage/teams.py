"""Calls and refusals of teams by the window: parents with those below them, the busiest first."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot


class Calls(NamedTuple):
    """Acquires in a window, and those of them that were refused."""

    asked: int
    refused: int


@dataclass(frozen=True, slots=True)
class Team:
    """An entity with its calls, those of entities below included, and ``depth`` levels above it."""

    entity_id: str
    depth: int
    calls: tuple[Calls, ...]


def calls_of(snapshots: Iterable["UsageSnapshot"], at: Sequence[datetime]) -> tuple[Calls, ...]:
    """Return the calls of snapshots in each window."""
    asked, refused = Counter[datetime](), Counter[datetime]()
    for each in snapshots:
        asked[each.window_start] += each.total_events + each.total_refused
        refused[each.window_start] += each.total_refused
    return tuple(Calls(asked[when], refused[when]) for when in at)


def teams_of(
    snapshots: Iterable["UsageSnapshot"],
    parents: Mapping[str, Sequence[str]],
    at: Sequence[datetime],
    most: int,
    most_below: int,
) -> list[Team]:
    """Return at most ``most`` entities: those without a parent, and behind each the busiest below it."""
    used: dict[str, list[UsageSnapshot]] = {}
    for each in snapshots:
        used.setdefault(each.entity_id, []).append(each)
    calls = {name: calls_of(each, at) for name, each in used.items()}
    busiest = sorted(calls, key=lambda name: (-sum(each.asked for each in calls[name]), name))
    below: dict[str, list[str]] = {}
    for name in busiest:
        for parent in parents.get(name, ()):
            if parent in calls:
                below.setdefault(parent, []).append(name)

    found: list[Team] = []

    def add(name: str, depth: int, above: frozenset[str]) -> None:
        if len(found) == most or name in above:  # records read while an entity moves may be parents of each other
            return
        found.append(Team(name, depth, calls[name]))
        for each in below.get(name, [])[:most_below]:
            add(each, depth + 1, above | {name})

    tops = [name for name in busiest if not any(parent in calls for parent in parents.get(name, ()))]
    for top in sorted(tops, key=lambda name: name not in below):  # teams first, each group by its calls
        add(top, 0, frozenset())
    return found
