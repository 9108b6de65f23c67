"""The thresholds of a limit (``alert``): the parts of its window at which alerts are sent."""

from collections.abc import Iterable
from typing import Any, Final

from ..exceptions import ValidationError

MAX_ALERTS: Final = 5  # of one limit
EXAMPLE: Final = "alert=(80, 95)"


def check_alert(name: str, kind: str, alert: Any) -> tuple[int, ...]:
    """Return the thresholds of the limit ``name``, in percent. Raises ``ValidationError``.

    They are one to five whole numbers from 1 to 100, each above the one before.
    """
    field = f"alert of limit {name!r}"
    if kind == "concurrent":
        raise ValidationError(field, alert, "means nothing for slots, which have no window: leave it out")
    if not isinstance(alert, list | tuple):
        raise ValidationError(field, alert, f"must be percentages of the window, like {EXAMPLE}")
    found = tuple(alert)
    whole = all(type(each) is int and 1 <= each <= 100 for each in found)
    if not whole or len(found) > MAX_ALERTS or list(found) != sorted(set(found)):
        problem = f"must be at most {MAX_ALERTS} whole numbers from 1 to 100, each above the one before, like {EXAMPLE}"
        raise ValidationError(field, list(found), problem)
    return found


def write_alert(alert: Iterable[int]) -> str:
    """Return thresholds as text: ``80,95``."""
    return ",".join(map(str, alert))


def read_alert(text: str) -> tuple[int, ...]:
    """Return the thresholds of a text that ``write_alert`` gives. Raises ``ValueError``."""
    return tuple(int(each) for each in text.split(","))
