"""How much time an invocation has left, and when it has to stop.

Lives here: that arithmetic. Never: a pause.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

WITHOUT_LAMBDA_SECONDS: Final = 900.0
MARGIN_SECONDS: Final = 10.0
AFTER_END_MS: Final = 5_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of an invocation, and when to begin nothing more: both by ``monotonic``, in seconds.

    ``now_ms`` is the time that others know, epoch milliseconds.
    """

    end: float
    stop: float
    now_ms: Callable[[], int]
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, context: object, now_ms: Callable[[], int] = _wall_ms) -> Self:
        """That of a Lambda's context; fifteen minutes where there is none."""
        ask = getattr(context, "get_remaining_time_in_millis", None)
        left = WITHOUT_LAMBDA_SECONDS if ask is None else ask() / 1000
        end = time.monotonic() + left
        return cls(end, end - min(MARGIN_SECONDS, left / 5), now_ms)

    def halfway(self) -> Self:
        """The same end, with a stop so early that as much time is left to undo what was begun."""
        now = self.monotonic()
        return replace(self, stop=now + (self.stop - now) / 2)

    @property
    def is_near(self) -> bool:
        """Whether nothing more may be begun."""
        return self.monotonic() >= self.stop

    @property
    def seconds_left(self) -> float:
        """Until the invocation is ended, whatever it is at."""
        return max(self.end - self.monotonic(), 0.0)

    @property
    def lock_expires_ms(self) -> int:
        """Until when a lock of this invocation holds: whoever held it is gone by then."""
        return self.now_ms() + round(self.seconds_left * 1000) + AFTER_END_MS
