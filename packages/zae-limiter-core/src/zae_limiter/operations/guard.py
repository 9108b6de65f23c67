"""What a guarded store of either variant knows, without I/O: its breaker, and when to probe."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..clock.system import Clock
from ..runtime.elapsed import elapsed
from .errors import StoreError
from .health import Health, Requests
from .probing import Probing
from .values import Operation


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
        """Have probes sent until the store answers, if nobody does."""

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
