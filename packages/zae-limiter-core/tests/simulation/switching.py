"""Switches: what administrators set beside the limits, and what a call has to obey that begins afterwards.

Why. A change of an entity's switches tells its live buckets, so the next request of every process heeds it; one of a
resource or of the system holds everywhere when all have read the limits again; so does the former, if somebody deletes
the bucket that was told. So a call that begins when the change is
done is refused by ``disabled``, is refused by no limit of a bucket that ``bypass`` opens, and draws on the parents or
not as ``cascade`` says. While a change is under way, or if nobody knows whether it was made, either is right. So it is
after two that were under way together, as either may be the last that was written, until another has begun and holds.
The word of a level holds where no stronger one says anything.

Never: how a switch is stored or found.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Place = tuple[str, str]  # an entity and a resource; of a level that is for all of them, an empty text


class Change:
    """One change of the switches of an entity on a resource: under way from ``begun_ms`` until it is ``done``."""

    def __init__(self, fields: Mapping[str, Any], begun_ms: int) -> None:
        self.fields = fields
        self.begun_ms = begun_ms
        self.ended_ms = begun_ms
        self.in_force_ms: int | None = None
        self._untold_ms = 0

    def done(self, at_ms: int, *, heeded_after_ms: int = 0) -> None:
        """It is written, and holds for every call that begins so long after that."""
        self.ended_ms = at_ms
        self.in_force_ms = max(at_ms + heeded_after_ms, self._untold_ms)

    def untold(self, until_ms: int) -> None:
        """The bucket that was told is gone: whoever has read the switches may go by them until then."""
        self._untold_ms = until_ms
        if self.in_force_ms is not None:
            self.in_force_ms = max(self.in_force_ms, until_ms)


class Unknown(LookupError):
    """Either value of a switch is right."""


def levels(entity: str, resource: str) -> tuple[Place, ...]:
    """The levels whose words hold for an entity on a resource, the strongest first."""
    return (entity, resource), (entity, ""), ("", resource), ("", "")


class Switchboard:
    """The changes of the switches of all entities, in the order in which they were begun."""

    def __init__(self) -> None:
        self._changes: defaultdict[Place, list[Change]] = defaultdict(list)

    @property
    def in_force(self) -> int:
        """How many changes are known to hold."""
        return sum(change.in_force_ms is not None for changes in self._changes.values() for change in changes)

    def begin(self, place: Place, fields: Mapping[str, Any], now_ms: int) -> Change:
        """An administrator begins to change switches; those that are not named stay."""
        change = Change(fields, now_ms)
        self._changes[place].append(change)
        return change

    def untold(self, place: Place, until_ms: int) -> None:
        """Somebody deleted the bucket of a place by hand, which knew of its changes."""
        for change in self._changes[place]:
            change.untold(until_ms)

    def value(self, name: str, place: Place, begun_ms: int, ended_ms: int) -> Any:
        """The value of a switch for a call that began and ended so. Raises ``Unknown``."""
        found = (self._value(name, level, begun_ms, ended_ms) for level in levels(*place))
        return next((value for value in found if value is not None), None)

    def _value(self, name: str, place: Place, begun_ms: int, ended_ms: int) -> Any:
        value, last_ms, in_turn = None, 0, True
        for change in self._changes[place]:
            if name not in change.fields or change.begun_ms > ended_ms:
                continue
            if change.in_force_ms is None or change.in_force_ms >= begun_ms:
                raise Unknown(name)
            value, in_turn = change.fields[name], change.begun_ms > last_ms
            last_ms = max(last_ms, change.ended_ms)
        if not in_turn:
            raise Unknown(name)
        return value

    def all(self, name: str, places: Iterable[Place], begun_ms: int, ended_ms: int) -> list[Any]:
        """The values for several entities. Raises ``Unknown``."""
        return [self.value(name, place, begun_ms, ended_ms) for place in places]
