"""The progress of a command, on standard error.

Never: a result, which goes to standard output.
"""

from collections.abc import Callable

Reporter = Callable[[str], None]


def reporter(*, quiet: bool) -> Reporter:
    """What writes a line to standard error, dim on a terminal; with ``quiet`` it keeps it to itself."""
    if quiet:
        return lambda _: None
    from .terminal import Terminal

    terminal = Terminal.of_stderr()
    return lambda line: terminal.say(terminal.paint(line, "dim"))
