"""The addresses of a host, kept: a resolver that is slow or away must not take the store with it.

A look-up has no time-out of its own, and may take longer than a call has to connect. So it goes on in its thread after
the caller has left, and what it finds is there for the next one. A caller that knows addresses waits for newer ones
only for a moment: names of AWS change their addresses every few seconds, but the former ones go on to serve for a
while. One that does not is found out by connecting; its certificate is checked in any case.
"""

from collections.abc import Callable
from typing import Any, Final

from . import forks
from .elapsed import elapsed

PATIENCE: Final = 0.25  # seconds: a resolver that is well answers within a hundredth of them
LONGEST: Final = 10.0  # seconds after which a look-up is given up, and another one may begin


class Addresses:
    """The addresses of a host by its resolver's last answer, ``known``. Threads and event loops may share it."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.known: list[Any] = []
        self._looking: object | None = None
        self._since = 0.0
        forks.register(self)

    def patience(self, left: float) -> float:
        """Return the most seconds to wait for a look-up, of those that are ``left``; 0 if one is under way."""
        if not self.known:
            return left
        return 0.0 if self._looking is not None and elapsed() - self._since < LONGEST else min(PATIENCE, left / 4)

    def look_up(self, resolve: Callable[[str, int], list[Any]]) -> list[Any]:
        """Ask the resolver, which may take any time, and keep its answer. Raises ``OSError``."""
        self._looking = looking = object()
        self._since = elapsed()
        try:
            self.known = found = resolve(self.host, self.port)
        finally:
            if self._looking is looking:
                self._looking = None
        return found

    def forget(self) -> None:
        """Begin again in a child process, where no look-up is under way."""
        self._looking = None
