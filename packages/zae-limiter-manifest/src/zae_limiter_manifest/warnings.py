"""What is not a mistake in a manifest, and may not be meant."""

from collections.abc import Iterator
from typing import TypeAlias

from .left_out import LeftOut, find_left_out
from .look_alikes import LookAlike, find_look_alikes
from .manifest import LimitsManifest
from .meanings import BareMoney, RollingOrCalendar, find_bare_money, find_open_days

Warned: TypeAlias = LeftOut | LookAlike | BareMoney | RollingOrCalendar


def find_warnings(manifest: LimitsManifest) -> Iterator[Warned]:
    """Yield the levels that leave limits out, the ids that look like others, money that counts tokens, and days that
    may be the calendar's.
    """
    yield from find_left_out(manifest)
    yield from find_look_alikes(manifest)
    yield from find_bare_money(manifest)
    yield from find_open_days(manifest)
