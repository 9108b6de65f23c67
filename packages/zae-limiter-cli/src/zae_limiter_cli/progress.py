"""Report the progress of a command on standard error. Results go to standard output."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .terminal import Terminal

Reporter = Callable[[str], None]

ITEMS_BETWEEN_LINES: Final = 1000
SECONDS_BEFORE_PHASES: Final = 1.0
SECONDS_BETWEEN_PHASES: Final = 0.2


def silent(_: str) -> None:
    """Report nothing."""


def reporter(*, quiet: bool) -> Reporter:
    """Return a function that prints a line on standard error, dim on a terminal; with ``quiet`` it prints nothing."""
    if quiet:
        return silent
    from .terminal import Terminal

    terminal = Terminal.of_stderr()
    return lambda line: terminal.say(terminal.paint(line, "dim"))


def now_and_then(report: Callable[[int], None]) -> Callable[[int], None]:
    """Return a function that gets the number of items done after each batch, and reports some of them."""
    told = 0

    def on_progress(count: int) -> None:
        nonlocal told
        if count - told >= ITEMS_BETWEEN_LINES:
            report(count)
            told = count

    return on_progress


@contextmanager
def phases(terminal: "Terminal | None" = None, clock: Callable[[], float] = time.monotonic) -> Iterator[Reporter]:
    """Show what this process is at, once the block has taken a second: one line on standard error, drawn again, and
    erased at the end. Nothing where lines cannot be drawn again, such as in the log of a pipeline.
    """
    from .terminal import Terminal

    terminal = terminal or Terminal.of_stderr()
    next_at, drawn = clock() + SECONDS_BEFORE_PHASES, 0

    def report(phase: str) -> None:
        nonlocal next_at, drawn
        if terminal.live and clock() >= next_at:
            terminal.redraw([terminal.line([(phase, "dim")])], over=drawn)
            next_at, drawn = clock() + SECONDS_BETWEEN_PHASES, 1

    try:
        yield report
    finally:
        terminal.erase(drawn)
