"""Cache the addresses of a host: a slow or failing resolver must not make the store unavailable.

A look-up has no time-out of its own, and may take longer than a call has to connect. So a caller without a known
address waits for as long as its request may take, and a look-up that outlasts its caller goes on in its thread and
leaves its result to the next one. A caller with known addresses waits for newer ones only for a moment: names of AWS
change their addresses every few seconds, but the former ones serve for a while longer. One that does not is found out
by connecting; its certificate is checked in any case.
"""

from collections.abc import Callable
from typing import Any, Final

from . import forks
from .elapsed import elapsed

PATIENCE: Final = 0.25  # seconds: a resolver that is well answers within a hundredth of them
FRESH: Final = 1.0  # seconds for which many connections that are opened together share one look-up
LONGEST: Final = 10.0  # seconds after which a look-up is given up, and another one may begin


class Addresses:
    """The addresses of a host by its resolver's last answer, ``known``. Threads and event loops may share it."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.known: list[Any] = []
        self._looking: object | None = None
        self._since, self._found = 0.0, -FRESH
        forks.register(self)

    def patience(self, left: float) -> float | None:
        """Return the most seconds to wait for a look-up, of those that are ``left`` to connect: 0 if none is needed,
        because one is under way or has just ended; ``None`` for as long as the request may take, if no address is
        known.
        """
        if not self.known:
            return None
        now = elapsed()
        is_asked = self._looking is not None and now - self._since < LONGEST
        return 0.0 if is_asked or now - self._found < FRESH else min(PATIENCE, left / 4)

    def look_up(self, resolve: Callable[[str, int], list[Any]]) -> list[Any]:
        """Ask the resolver, which may take any time, and keep its answer. Raises ``OSError``."""
        self._looking = looking = object()
        self._since = elapsed()
        try:
            self.known = found = resolve(self.host, self.port)
            self._found = elapsed()
        finally:
            if self._looking is looking:
                self._looking = None
        return found

    def forget(self) -> None:
        """Reset after a fork: no look-up is under way in the child."""
        self._looking = None
