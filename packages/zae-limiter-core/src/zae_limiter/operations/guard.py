"""What a guarded store of either variant knows, without I/O: its breaker, and when to ask again a store that does not
answer.

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
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from ..clock.system import Clock
from ..runtime.elapsed import elapsed
from ..runtime.jitter import jittered
from .errors import StoreError
from .health import Health, Requests
from .values import Operation

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


class Guard(ABC):
    """The breaker of one store, whose operations take at most ``operation_timeout`` seconds each."""

    def __init__(self, *, operation_timeout: float, clock: Clock | None) -> None:
        self._now: Callable[[], float] = getattr(clock, "monotonic", elapsed)  # of the breaker
        self._operation_timeout = operation_timeout
        self._closed = False
        self.health = Health()
        self._probing, self._outage = Probing(operation_timeout), 0

    def begin_outage(self, error: Exception) -> None:
        """Open the breaker, and begin to probe."""
        self.health.begin_outage(error)
        self._probe_in_background()

    @abstractmethod
    def _probe_in_background(self) -> None:
        """Start sending probes until the store answers, unless they are being sent."""

    def _note_outage(self) -> bool:
        """Begin the pauses between probes anew, if the outage is another one than at the last call; return whether."""
        if is_new := self._outage != self.health.outages:
            self._outage = self.health.outages
            self._probing.begin(self._now())
        return is_new

    def _note_probe(self) -> float:
        """Count a probe that begins now; return its instant."""
        self.health.probes += 1
        self._probing.ask(now := self._now())
        return now

    def _failed(self, error: StoreError, operation: Operation[Any], begun: float) -> StoreError:
        """Note a failed request, and begin to probe if it opens the breaker."""
        now, was_open = self._now(), self.health.is_open
        shown = self.health.failed(error, operation, proves=self._probing.proves(begun, now))
        if self.health.is_open:
            self._probe_in_background()
        elif was_open:
            self._probing.answered(now)
        return shown

    def _has_to_wait(self, kind: Requests) -> bool:
        """Return whether a call has to wait for the next probe: the breaker is open for its kind, and the last silence
        is too old to go by.
        """
        return self.health.refuses(kind) and not self._closed and not self._probing.knows(self._now())
