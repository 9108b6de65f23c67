"""The time that an invocation has left, and the instant when it has to stop."""

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
    """The end of an invocation, and the instant (``stop``) after which it begins nothing more.

    Both are in seconds of ``monotonic``. ``now_ms`` is the time that all processes share, in epoch milliseconds.
    """

    end: float
    stop: float
    now_ms: Callable[[], int]
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def of(cls, context: object, now_ms: Callable[[], int] = _wall_ms) -> Self:
        """Return the deadline of a Lambda's context; fifteen minutes for any other object, such as a test's."""
        ask = getattr(context, "get_remaining_time_in_millis", None)
        told = ask() if callable(ask) else None
        left = told / 1000 if isinstance(told, int | float) else WITHOUT_LAMBDA_SECONDS
        end = time.monotonic() + left
        return cls(end, end - min(MARGIN_SECONDS, left / 5), now_ms)

    def halfway(self) -> Self:
        """Return the same end with a stop at half of the time, so that the other half is left to undo the work."""
        now = self.monotonic()
        return replace(self, stop=now + (self.stop - now) / 2)

    @property
    def is_near(self) -> bool:
        """Return whether the invocation may begin nothing more."""
        return self.monotonic() >= self.stop

    @property
    def seconds_left(self) -> float:
        """Seconds until the runtime ends the invocation."""
        return max(self.end - self.monotonic(), 0.0)

    @property
    def lock_expires_ms(self) -> int:
        """The expiry of a lock of this invocation (epoch milliseconds): its holder has certainly ended by then."""
        return self.now_ms() + round(self.seconds_left * 1000) + AFTER_END_MS
