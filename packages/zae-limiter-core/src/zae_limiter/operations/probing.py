"""Probing: when to ask again a store that does not answer, and how long a process relies on what it learned last.

While the breaker is open, calls learn at once what the last probe showed. That is right only while somebody asks. A
process that was frozen, or whose event loop has ended, would rely on the silence of an hour ago: with ``allow`` it
would let calls through uncounted, with ``block`` refuse them, although the store answers.

So a silence counts until the next probe is due, and a moment longer, as a busy process may be late with it. After that,
nothing is known: the next call has a probe sent and waits for its end, and so does each call that comes meanwhile. They
wait for at most as long as the last silence is old: before a store that hangs, a busy process waits a second, and one
that was frozen for a minute waits as long as the probe takes. Sending a caller's own request as the probe was tried and
dropped: what it learns ends with its caller's budget, and with its task. A probe that hangs does not hold up the next
one: a store that answers again is found within a second.
"""

import math
from typing import Final

from ..runtime.jitter import jittered

FIRST_PAUSE: Final = 0.1  # seconds until the first probe; each later pause is twice as long, up to the longest
LONGEST_PAUSE: Final = 0.75
BUSY: Final = 0.25  # seconds by which a busy process may be late; nothing that is known is older than both together
STANDSTILL: Final = (
    1.0  # seconds behind its deadline: a request that ends later says something about this process, not about the store
)


class Probing:
    """The times of the probes of an outage. Instants are of ``runtime.elapsed``.

    ``longest``: the most seconds that a request takes in a process that does not stand still.
    """

    def __init__(self, operation_timeout: float) -> None:
        self.longest = operation_timeout + STANDSTILL
        self._answered_at = 0.0
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Begin a new outage, which requests of callers have just shown."""
        self._pause = FIRST_PAUSE
        self._learned_at = self._rested_at = now
        self._awaited_since = self._awaited_until = -math.inf
        self._due = now + self._next_pause()
        self._known_until = self._due + BUSY

    def answered(self, now: float) -> None:
        """Note the answer that ends the outage."""
        self._answered_at = now

    def proves(self, begun: float, now: float) -> bool:
        """Return whether a request that ends now without an answer shows that the store is away.

        It does not if it outlasted a standstill of the process, or began in an outage that has ended since.
        """
        return now - begun <= self.longest and begun >= self._answered_at

    def resume(self) -> None:
        """Begin with a new prober, because the former one ended with its event loop; rest as long as a probe takes."""
        self._due = self._known_until = max(self._due, self._rested_at)

    def knows(self, now: float) -> bool:
        """Return whether calls may rely on the last silence; otherwise they wait for the end of the next probe."""
        return self._awaited_until <= now < self._known_until

    def patience(self, now: float) -> float:
        """Return the most seconds for which calls wait now."""
        return self._awaited_until - now if now < self._awaited_until else now - self._learned_at

    def until_due(self, now: float) -> float:
        """Return the seconds until the next probe, at most the first pause: an outage may end, and another begin."""
        return min(max(0.0, self._due - now), FIRST_PAUSE)

    def ask(self, now: float) -> None:
        """Note that a probe is sent."""
        if now >= max(self._known_until, self._awaited_until):
            self._awaited_since, self._awaited_until = now, now + self.patience(now)
        self._due = now + LONGEST_PAUSE
        self._known_until = self._due + BUSY

    def unanswered(self, asked_at: float, now: float) -> None:
        """Note that a probe got no answer. One that outlasted a standstill of the process shows nothing."""
        if now >= self._known_until or asked_at < self._awaited_since:
            return
        self._awaited_until = -math.inf
        self._learned_at = now
        self._due = min(self._due, now + self._next_pause())
        self._rested_at = now + (now - asked_at)

    def cut_off(self, asked_at: float, now: float) -> None:
        """Note that a probe was cut off: it shows a silence of the time that it took, good for as long."""
        if now >= self._known_until or asked_at < self._awaited_since:
            return
        self._awaited_until = -math.inf
        self._due, self._rested_at = now, max(self._rested_at, now + (now - asked_at))

    def _next_pause(self) -> float:
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return jittered(pause)
