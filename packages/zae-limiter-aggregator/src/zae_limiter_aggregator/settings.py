"""The settings in the Lambda's environment, with their defaults and checks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from zae_limiter import ValidationError
from zae_limiter.values.usage import KEPT_DAYS, Window

STACK: Final = "ZAEL_STACK"
REFILL_AFTER: Final = "ZAEL_REFILL_AFTER_SECONDS"
HOURLY_DAYS: Final = "ZAEL_USAGE_HOURLY_DAYS"
DAILY_DAYS: Final = "ZAEL_USAGE_DAILY_DAYS"
ARCHIVE_BUCKET: Final = "ZAEL_ARCHIVE_BUCKET"
ARCHIVE_PREFIX: Final = "ZAEL_ARCHIVE_PREFIX"
DEAD_LETTERS: Final = "ZAEL_DEAD_LETTERS_URL"

ALERT_BUS: Final = "ZAEL_ALERT_BUS_ARN"

DEFAULT_REFILL_AFTER: Final = 3600
DEFAULT_HOURLY_DAYS: Final = KEPT_DAYS["hourly"]
DEFAULT_DAILY_DAYS: Final = KEPT_DAYS["daily"]
DEFAULT_PREFIX: Final = "audit/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table, and the treatment of its stream.

    ``refill_after_seconds``: the largest age of the anchor of a bucket in use; 0 never moves an anchor. ``hourly_days``
    and ``daily_days``: days to keep a snapshot after its window; 0 for ever. Without ``archive_bucket``, expired audit
    events are lost. Without ``dead_letters_url``, a record that can never be processed comes again until the event
    source mapping gives it up. Without ``alert_bus``, the ARN of an event bus, no threshold of a limit is reported.
    """

    stack: str
    refill_after_seconds: int = DEFAULT_REFILL_AFTER
    hourly_days: int = DEFAULT_HOURLY_DAYS
    daily_days: int = DEFAULT_DAILY_DAYS
    archive_bucket: str | None = None
    archive_prefix: str = DEFAULT_PREFIX
    dead_letters_url: str | None = None
    alert_bus: str | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Read an environment. Raises ``ValidationError`` with the name of the variable."""
        stack = environment.get(STACK)
        if not stack:
            raise ValidationError(STACK, stack, "must be the name of the stack and of its table")
        return cls(
            stack=stack,
            refill_after_seconds=_whole(environment, REFILL_AFTER, DEFAULT_REFILL_AFTER),
            hourly_days=_whole(environment, HOURLY_DAYS, DEFAULT_HOURLY_DAYS),
            daily_days=_whole(environment, DAILY_DAYS, DEFAULT_DAILY_DAYS),
            archive_bucket=environment.get(ARCHIVE_BUCKET) or None,
            archive_prefix=environment.get(ARCHIVE_PREFIX, DEFAULT_PREFIX),
            dead_letters_url=environment.get(DEAD_LETTERS) or None,
            alert_bus=environment.get(ALERT_BUS) or None,
        )

    def usage_days(self, window: Window) -> int:
        """Return the days to keep a snapshot after its window; 0 for ever."""
        return self.hourly_days if window == "hourly" else self.daily_days


def _whole(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()):
        raise ValidationError(name, text, "must be a whole number, 0 or more")
    return int(text)
