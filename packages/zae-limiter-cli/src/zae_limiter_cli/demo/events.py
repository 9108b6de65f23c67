"""The events of calls, and the board that sums them up."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

State = Literal["calling", "admitted", "uncounted", "waiting", "refused"]


@dataclass(frozen=True, slots=True)
class Event:
    """The state of a call since ``at``: times in seconds, ``at`` from the start of the burst.

    ``waited`` so far; ``wait``: the rest of the wait that the limiter asks for, until the tokens of ``short`` are
    there. An ``uncounted`` call was let through because the table was away.
    """

    caller: str
    call: int
    state: State
    at: float = 0
    waited: float = 0
    wait: float = 0
    short: str = ""


class CallBoard:
    """The last event of every call, by caller."""

    def __init__(self, calls: Iterable[Event]) -> None:
        self._rows: dict[str, list[Event]] = {}
        self.acquires = 0
        for call in calls:
            self._rows.setdefault(call.caller, []).append(call)

    def note(self, event: Event) -> None:
        """Store the event, which is the end of one acquire."""
        self.acquires += 1
        self._rows[event.caller][event.call] = event

    @property
    def callers(self) -> list[str]:
        """The callers, in order."""
        return list(self._rows)

    def calls(self, caller: str, *states: State) -> list[Event]:
        """Return the calls of a caller, of all callers for "", in these states, or in any state if none is named."""
        rows = [self._rows[caller]] if caller else self._rows.values()
        return [event for row in rows for event in row if not states or event.state in states]


def after_wait(events: Iterable[Event]) -> list[Event]:
    """Return the calls that had to wait at least once."""
    return [event for event in events if event.waited > 0]


def with_remaining_wait(event: Event, now: float) -> Event:
    """Return the event with the wait that is left now."""
    return replace(event, wait=max(0.0, event.at + event.wait - now))
