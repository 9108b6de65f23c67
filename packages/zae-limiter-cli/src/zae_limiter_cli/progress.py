"""Report the progress of a command on standard error. Results go to standard output."""

from collections.abc import Callable

Reporter = Callable[[str], None]


def silent(_: str) -> None:
    """Report nothing."""


def reporter(*, quiet: bool) -> Reporter:
    """Return a function that prints a line on standard error, dim on a terminal; with ``quiet`` it prints nothing."""
    if quiet:
        return silent
    from .terminal import Terminal

    terminal = Terminal.of_stderr()
    return lambda line: terminal.say(terminal.paint(line, "dim"))
