"""The burst on a terminal: a row for each caller, a mark for each call, redrawn as events come."""

from typing import Final

from ..terminal import Colour, Part, Terminal
from .events import CallBoard, Event, State, with_remaining_wait
from .wording import refusal, seconds

_MARKS: Final[dict[State, tuple[str, str, Colour]]] = {
    "calling": ("·", ".", "dim"),
    "admitted": ("●", "#", "green"),
    "uncounted": ("○", "o", "cyan"),
    "waiting": ("◌", "-", "yellow"),
    "refused": ("✕", "x", "red"),
}


class TableDisplay:
    """The board on a terminal, as of the last `tick`."""

    def __init__(self, terminal: Terminal, board: CallBoard) -> None:
        self._terminal = terminal
        self._board = board
        self._drawn = 0
        self._names = max(len(name) for name in board.callers)
        self._marks = max(len(board.calls(name)) for name in board.callers)
        legend: list[Part] = [("  ", "")]
        for state in ("admitted", "waiting", "refused"):
            legend += [self._mark(state), (f" {state}   ", "")]
        terminal.say(terminal.line(legend))

    def note(self, event: Event) -> None:
        """Do nothing: the next tick draws the event."""

    def tick(self, now: float) -> None:
        """Draw every row again."""
        lines = [self._terminal.line(self._row(caller, now)) for caller in self._board.callers]
        lines.append(self._terminal.line([(f"  {now:.1f} s", "dim")]))
        self._terminal.redraw(lines, over=self._drawn)
        self._drawn = len(lines)

    def _row(self, caller: str, now: float) -> list[Part]:
        calls = self._board.calls(caller)
        marks = [self._mark(event.state) for event in calls]
        room = " " * (self._marks - len(marks) + 2)
        return [(f"  {caller:<{self._names}}  ", "bold"), *marks, (room, ""), *_in_words(self._board, caller, now)]

    def _mark(self, state: State) -> Part:
        symbol, plain, colour = _MARKS[state]
        return (symbol if self._terminal.symbols else plain), colour


def _in_words(board: CallBoard, caller: str, now: float) -> list[Part]:
    admitted = board.calls(caller, "admitted", "uncounted")
    parts: list[Part] = [(f"{len(admitted):>2} admitted", "green")]
    if waiting := [with_remaining_wait(event, now) for event in board.calls(caller, "waiting")]:
        first = min(waiting, key=lambda event: event.wait)
        parts.append((f"  {len(waiting)} wait {seconds(first.wait)} for {first.short}", "yellow"))
    if refused := board.calls(caller, "refused"):
        first = min(refused, key=lambda event: event.wait)
        parts.append((f"  {len(refused)} refused, {refusal(first)}", "red"))
    return parts
