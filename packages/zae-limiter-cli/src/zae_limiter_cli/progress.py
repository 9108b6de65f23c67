"""Report the progress of a command on standard error. Results go to standard output."""

from collections.abc import Callable
from typing import Final

Reporter = Callable[[str], None]

ITEMS_BETWEEN_LINES: Final = 1000


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
