"""Regular expressions of a manifest's texts in JSON Schema, with which editors mark a mistake while it is typed.

Each follows the grammar of its reader (`limit_text`, `schedule_text`, `windows`), and admits whatever that admits:
ranges, and which word goes beside which, are the reader's alone.
"""

from typing import Final

from .money import CURRENCIES, SIGNS
from .schedule_text import DAYS

_CURRENCY: Final = f"(?:{'|'.join(CURRENCIES)})"
_AMOUNT: Final = rf"[{''.join(SIGNS)}]?[0-9][0-9_,.]*[kKMG]?(?:\s*{_CURRENCY})?"
_PERIOD: Final = "(?:[1-9][0-9]*)?(?:s|sec|seconds?|min|minutes?|h|hours?|d|days?)"
_PER: Final = r"(?:\s*/\s*|\s+per\s+)"
_ZONE: Final = "[A-Z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*"
_CLOCK: Final = "[0-9]{2}:[0-9]{2}"
_DATE: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DAY: Final = f"(?:{'|'.join(DAYS)})"

_WORDS: Final = "".join(
    (
        rf"(?:\s+(?:capacity|burst)\s+{_AMOUNT}",
        r"|\s+prefetch\s+[0-9.]+(?:ms|s)",
        r"|\s+alert\s+[0-9]+(?:,[0-9]+)*",
        rf"|\s+expires\s+{_PERIOD}",
        r"|\s+from\s+[0-9]{1,2}",
        r"|\s+shadow)*",
    )
)
_REFILLS: Final = (
    _PERIOD,
    r"rolling\s+week",
    rf"rolling\s+{_PERIOD}",
    rf"(?:calendar\s+)?(?:month|year)(?:\s+{_ZONE})?",
    rf"calendar\s+(?:min|minute|h|hour|d|day|week)(?:\s+{_ZONE})?",
    rf"(?:min|minute|h|hour|d|day|week)\s+{_ZONE}",
    rf"{_PERIOD}\s+from\s+first\s+use",
)
_FORMS: Final = (
    rf"{_PER}(?:{'|'.join(_REFILLS)})",
    rf"\s+cron(?:\s+[0-9A-Za-z*?#/,-]+){{5}}(?:\s+{_ZONE})?",
    r"\s+(?:total|concurrent)",
)
_TIMES: Final = (rf"{_CLOCK}-{_CLOCK}", rf"{_DATE}(?:\.\.{_DATE})?", rf"{_DAY}(?:[,-]{_DAY})*", "weekdays", "weekends")

LIMIT: Final = rf"^\s*{_AMOUNT}(?:{'|'.join(_FORMS)}){_WORDS}\s*$"
"""A whole limit: `100/min burst 200`, `$250/month Europe/Berlin`, `10 concurrent`."""

PERCENT: Final = "^[1-9][0-9]?%$"
"""A whole percentage below the whole: `80%`."""

LIMIT_TEXT: Final = """\
A limit as one text:

- `100/min`, `10k/min burst 20k`: tokens that come back evenly; `100/rolling day` is any 24 hours
- `100/day UTC`, `$250/month Europe/Berlin from 15`: a quota that begins anew with the calendar
- `100 cron 0 6 * * MON Europe/Berlin`: a quota that begins anew when a cron expression fires
- `100 per 30d from first use`: a quota of a time that begins with the first call
- `500 total`, `500 total expires 90d`: credits, which never come back
- `10 concurrent`: calls at once

Words that may follow, each once: `capacity 1k`, `burst 20k`, `prefetch 1s`, `alert 80,95`, `shadow`."""
"""What an editor shows over the text of a limit, in Markdown."""

ENTRY: Final = "".join(
    (
        r"^\s*[A-Za-z][A-Za-z0-9_-]{0,31}\s*:\s*",
        rf"(?:(?:{'|'.join(_TIMES)}|[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*)\s+)+",
        rf"(?:{_AMOUNT}{_PER}(?:rolling\s+)?(?:{_PERIOD}|week)|capacity\s+{_AMOUNT})",
        rf"(?:\s+(?:capacity|burst)\s+{_AMOUNT})*\s*$",
    )
)
"""A whole entry of a schedule: `night: 00:00-06:00 Europe/Berlin 100/min`."""

WINDOW: Final = r"^\s*(?:minute|hour|day|week|month|year|[0-9A-Za-z*?#/,-]+(?:\s+[0-9A-Za-z*?#/,-]+){4})\s*$"
"""The name of a calendar window, or five fields of cron."""

ZONE: Final = f"^{_ZONE}$"
"""The form of a time zone's name; whether there is one of that name depends on the machine's database."""
