"""The burst without a terminal: a line for each event of a caller."""

from collections.abc import Hashable, Sequence

from ..terminal import Colour, Part, Terminal
from .events import Event
from .wording import refusal, seconds


class LineDisplay:
    """The events since the last `tick`; calls of a caller with equal outcomes share a line."""

    def __init__(self, terminal: Terminal, width: int) -> None:
        self._terminal = terminal
        self._width = width
        self._news: list[Event] = []

    def note(self, event: Event) -> None:
        """Keep the event for the next tick."""
        self._news.append(event)

    def tick(self, now: float) -> None:  # noqa: ARG002  a table shows it
        """Print the new events."""
        news: dict[Hashable, list[Event]] = {}
        for event in self._news:
            news.setdefault((event.caller, event.state, event.waited > 0), []).append(event)
        self._news = []
        for events in news.values():
            at, caller = events[0].at, events[0].caller
            head: Part = (f"  {at:>4.1f} s  {caller:<{self._width}}  ", "")
            self._terminal.say(self._terminal.line([head, _in_words(events)]))


def _in_words(events: Sequence[Event]) -> Part:
    first = min(events, key=lambda event: event.wait)
    colour: Colour = "green"
    match first.state:
        case "waiting":
            again = " again" if first.waited else ""
            text, colour = f"wait {seconds(first.wait)}{again} for {first.short}", "yellow"
        case "refused":
            text, colour = f"refused, {refusal(first)}", "red"
        case "uncounted":
            text = "admitted uncounted: the table is unavailable"
        case _:
            text = "admitted" + (f" after {seconds(first.waited)}" if first.waited else "")
    return f"{len(events):>2} {text}", colour
