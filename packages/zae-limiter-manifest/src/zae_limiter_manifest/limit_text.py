# `just variants` copies this module to packages/zae-limiter-core/src/zae_limiter/values.
"""Read and write a limit as one text: `100/min burst 200`. YAML, the command line, Python and messages share it.

A text says what comes back and when, then words, each once, in any order:

    AMOUNT/PERIOD [capacity AMOUNT] [burst AMOUNT] [prefetch TIME] [alert PERCENT,PERCENT] [shadow]
    AMOUNT/WINDOW ZONE [from DAY] [capacity AMOUNT] [burst AMOUNT] [alert PERCENT,PERCENT] [shadow]
    AMOUNT cron MINUTE HOUR DAY MONTH WEEKDAY [ZONE] [capacity AMOUNT] [burst AMOUNT] [alert …] [shadow]
    AMOUNT per PERIOD from first use [alert …] [shadow]
    AMOUNT total [burst AMOUNT] [expires PERIOD] [alert …] [shadow]
    AMOUNT concurrent [expires PERIOD] [shadow]

The amount is what comes back; `100 per min` is `100/min`. The capacity is that amount unless the text has another, the
burst is the capacity. A token bucket gets its tokens evenly. A time zone makes a calendar window of the period:
`100/day` is any 24 hours, `100/day UTC` ends at midnight. A month or a year is always one, of UTC if it has no zone.
`100/rolling day` and `100/calendar day` say which of both; `rolling week` is any seven days. Amounts may be money, all
of one currency: `$5.50/day`, `250 eur/month`. So every limit without weights and without a schedule has a text, and
only one that `write_limit` gives.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias

from .money import CURRENCIES, SIGNS, Micro, join_amounts, read_money, write_money

EXAMPLES: Final = ["100/min", "10k/min burst 20k", "$250/month Europe/Berlin"]
EXAMPLE: Final = " or ".join(EXAMPLES)

Fields: TypeAlias = dict[str, Any]

_LONGEST: Final = 200
_FIELDS_OF_CRON: Final = 5
_EXPIRES: Final = 60  # seconds of slots, unless the text says otherwise
_UTC: Final = "UTC"
_WORDS: Final = r"((?:\s+[^\s/]+)*)"
_ZONE: Final = r"\s+([A-Z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*)"
_RATE: Final = re.compile(r"([^\s/]+)\s*/\s*([^\s/]+)" + _WORDS)
_CALENDAR: Final = re.compile(r"([^\s/]+)\s*/\s*([a-z]+)" + _ZONE + _WORDS)
_CALENDAR_WORD: Final = re.compile(r"([^\s/]+)\s*/\s*calendar\s+([a-z]+)(?:" + _ZONE + ")?" + _WORDS)
_ROLLING: Final = re.compile(r"([^\s/]+)\s*/\s*rolling\s+([^\s/]+)" + _WORDS)
_MONTH: Final = re.compile(r"([^\s/]+)\s*/\s*(month|year)()" + _WORDS)
_CRON: Final = re.compile(r"(\S+)\s+cron((?:\s+\S+){5})(?:" + _ZONE + ")?" + _WORDS)
_LIKE_CRON: Final = re.compile(r"\S+\s+cron\s+(.*)")
_CRON_FIELD: Final = re.compile(  # in capitals
    r"(?:[-0-9*?#/,LW]|MON|TUE|WED|THU|FRI|SAT|SUN|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)+"
)
_LIKE_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)+|(?i:utc|gmt)")
_PER: Final = re.compile(r"^([^\s/]+)\s+per\s+(?!\S+\s+from\s+first\s)")
_OPEN: Final = re.compile(r"[^/]+/\s*(?:day|days|d|month|year)(?:\s+[a-z0-9].*)?")
_FIRST_USE: Final = re.compile(r"(\S+)\s+per\s+(\S+)\s+from\s+first\s+use" + _WORDS)
_TOTAL: Final = re.compile(r"([^\s/]+)\s+total" + _WORDS)
_SLOTS: Final = re.compile(r"([^\s/]+)\s+concurrent" + _WORDS)
_AMOUNT: Final = re.compile(r"(0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.([0-9]{1,9}))?([kKMG]?)")
_BARE_FRACTION: Final = re.compile(r"(\s|^)([0-9][0-9_]*\.[0-9]+)(?=[\s/])")
_PERIOD: Final = re.compile(r"([1-9][0-9]{0,9})?([A-Za-z]+)")
_TIME: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?(ms|s)")
_DAY: Final = re.compile(r"[1-9][0-9]?")
_PERCENTS: Final = re.compile(r"[0-9]{1,3}(,[0-9]{1,3}){0,9}")
_COMMAS: Final = re.compile(r"[0-9]{1,3}(,[0-9]{3})+")
_LARGE: Final = {"": 1, "k": 1_000, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86400),
}
_ONE: Final = {1: "sec", 60: "min", 3600: "hour", 86400: "day"}
_MANY: Final = {86400: "d", 3600: "h", 60: "min", 1: "s"}
_WINDOWS: Final = {
    **dict.fromkeys(("min", "minute"), "minute"),
    **dict.fromkeys(("h", "hour"), "hour"),
    **dict.fromkeys(("d", "day"), "day"),
    "week": "week",
    "month": "month",
    "year": "year",
}
_WINDOW_WORDS: Final = {"minute": "min"}
_ROLLING_WORDS: Final = {86400: "rolling day", 604_800: "rolling week"}  # whose words alone may mean the calendar
_OTHER_UNITS: Final = {
    "m": "may be minutes or months: write min or month",
    "week": "has a time zone if it is one of the calendar: write week UTC, or 7d for any seven days",
    "weeks": "are not a unit: write days, such as 14d",
    "month": "has no fixed length: write days, such as 30d",
    "months": "have no fixed length: write month for one of the calendar, or days, such as 90d",
    "year": "has no fixed length: write days, such as 365d",
    "years": "have no fixed length: write year for one of the calendar, or days, such as 730d",
}
_MEANT: Final = {
    **dict.fromkeys(("secs", "sek"), "sec"),
    **dict.fromkeys(("mins", "mn"), "min"),
    **dict.fromkeys(("hr", "hrs"), "hour"),
    **dict.fromkeys(("dy", "dys"), "day"),
    **dict.fromkeys(("w", "wk"), "week"),
    "wks": "weeks",
    **dict.fromkeys(("mo", "mon", "mth"), "month"),
    **dict.fromkeys(("mos", "mths"), "months"),
    **dict.fromkeys(("y", "yr"), "year"),
    "yrs": "years",
}
"""The units that abbreviations stand for, which the message names."""


def read_limit(text: str, name: str = "") -> Fields:
    """Return the fields of a limit that its text gives; those that it leaves out have the defaults of a limit.

    `capacity` is always there, `kind` for all but token buckets, and what that kind has: `refill_amount`,
    `refill_period` (seconds), `window`, `timezone`. `burst`, `prefetch` (seconds), `alert` (percent), `starts_on`,
    `expires` (seconds), `shadow` and the `unit` of money are there where the text has them. Beside a `name` such as
    `usd`, `250.50` is money. Raises `ValueError`, whose message says what is wrong, and gives examples.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"a limit has at most {_LONGEST} characters")
        words = _PER.sub(r"\1/", join_amounts(text))
        if name in CURRENCIES:
            words = _BARE_FRACTION.sub(rf"\1\2{name}", words)
        _check_cron(words)
        for form, read in _FORMS:
            if found := form.fullmatch(words):
                return _with_unit(read(*found.groups("")))
        _refuse_zone(text.split()[1:])
        _refuse_capitals(words)
        raise ValueError("a limit begins with an amount and a period, or is an amount that is `total` or `concurrent`")
    except ValueError as error:
        raise ValueError(f"is not a limit: {error}; examples: {EXAMPLE}") from None


def write_limit(fields: Mapping[str, Any]) -> str:
    """Return the text of a limit with all these fields, such that `read_limit` gives a limit that is equal to it."""
    words, capacity, kind = [write_refill(fields)], fields["capacity"], fields.get("kind")
    unit = fields.get("unit", "")
    if kind not in _AMOUNT_IS_CAPACITY and capacity != fields["refill_amount"] and not _blocks(fields):
        words.append(f"capacity {write_amount(capacity, unit)}")
    if kind != "concurrent" and fields["burst"] != capacity:
        words.append(f"burst {write_amount(fields['burst'], unit)}")
    if fields["prefetch"]:
        words.append(f"prefetch {write_time(fields['prefetch'])}")
    if kind == "concurrent" and fields["expires"] != _EXPIRES:
        words.append(f"expires {fields['expires']}s")
    if kind == "total" and fields["expires"]:
        words.append(f"expires {write_count(fields['expires'])}")
    if fields.get("alert"):
        words.append(f"alert {','.join(map(str, fields['alert']))}")
    return " ".join([*words, "shadow"] if fields["shadow"] else words)


def write_refill(fields: Mapping[str, Any]) -> str:
    """Return what comes back and when, with which a text begins: `100/min`, `250/month Europe/Berlin from 15`."""
    kind, unit = fields.get("kind"), fields.get("unit", "")
    capacity = write_amount(fields["capacity"], unit)
    if kind in ("concurrent", "total"):
        return f"{capacity} {kind}"
    if kind == "first_use":
        return f"{capacity} per {write_period(fields['refill_period'])} from first use"
    amount = write_amount(0 if _blocks(fields) else fields["refill_amount"], unit)
    if kind != "calendar":
        seconds = fields["refill_period"]
        return f"{amount}/{_ROLLING_WORDS.get(seconds) or write_period(seconds)}"
    window, zone = fields["window"], fields["timezone"]
    if " " in window:
        return f"{amount} cron {window} {zone}"
    first = "" if fields["starts_on"] == 1 else f" from {fields['starts_on']}"
    return f"{amount}/{_WINDOW_WORDS.get(window, window)} {zone}{first}"


def _blocks(fields: Mapping[str, Any]) -> bool:
    """Return whether a limit without a burst has the text of 0 tokens."""
    return bool(fields["capacity"] == 0 and fields["refill_amount"] == 1)


def write_amount(amount: int, unit: str = "") -> str:
    """Return an amount of tokens: `999`, `1_500`, `10k`, `2M`, `1G`; of money if there is a unit: `$5.50`."""
    if unit:
        return write_money(amount, unit)
    for suffix in ("G", "M", "k"):
        if amount and amount % _LARGE[suffix] == 0:
            return f"{amount // _LARGE[suffix]:_}{suffix}"
    return f"{amount:_}"


def write_period(seconds: int) -> str:
    """Return a period: `min`, `90s`, `5min`, `7d`."""
    if seconds in _ONE:
        return _ONE[seconds]
    return write_count(seconds)


def write_count(seconds: int) -> str:
    """Return a period with its number: `1d`, `90s`."""
    return next(f"{seconds // unit}{word}" for unit, word in _MANY.items() if seconds % unit == 0)


def write_time(seconds: float) -> str:
    """Return a time of whole milliseconds: `1s`, `500ms`."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def leaves_open(text: str) -> bool:
    """Return whether a text that is a limit has `day`, `month` or `year` alone, which does not say whether it is the
    calendar's.
    """
    return _OPEN.fullmatch(_PER.sub(r"\1/", text.strip())) is not None


def near_zone(text: str) -> str | None:
    """Return the time zone of this machine's database that a text seems to mean: in another case, or mistyped."""
    from difflib import get_close_matches  # only a mistake needs them
    from zoneinfo import available_timezones

    known = {zone.lower(): zone for zone in sorted(available_timezones())}
    close = get_close_matches(text.lower()[:64], known, n=1, cutoff=0.8)
    return known[close[0]] if close and known[close[0]] != text else None


def _refuse_zone(words: Sequence[str]) -> None:
    """Raise `ValueError` for a zone that is not spelled as the database has it."""
    for word in words:
        if _LIKE_ZONE.fullmatch(word) and (zone := near_zone(word)):
            raise ValueError(f"{word} is not a time zone: write {zone}")


def _refuse_capitals(text: str) -> None:
    """Raise `ValueError` for a currency in capitals."""
    for word in text.replace("/", " ").split():
        code = word[-3:].lower()
        if code in CURRENCIES and word[-3:] != code and (len(word) == len(code) or word[-4].isdigit()):
            raise ValueError(f"currencies are in lower case: write {code} in place of {word[-3:]}")


def _check_cron(text: str) -> None:
    """Raise `ValueError` for a cron expression of more or fewer than five fields."""
    if found := _LIKE_CRON.fullmatch(text):
        fields = list(takewhile(lambda field: _CRON_FIELD.fullmatch(field.upper()), found[1].split()))
        if len(fields) != _FIELDS_OF_CRON:
            raise ValueError(cron_problem(fields))


def cron_problem(fields: Sequence[str]) -> str:
    """Return the problem of a cron expression that has not five fields."""
    way_out = ": leave out the seconds" if len(fields) == _FIELDS_OF_CRON + 1 else ""
    five = "a cron expression has five fields, minute, hour, day, month and weekday"
    return f"{five}, and `{' '.join(fields)}` has {len(fields)}{way_out}"


def _read_rate(amount: str, period: str, words: str) -> Fields:
    return _refilled(amount, words, _VALUES, refill_period=_read_period(period))


def _read_calendar(amount: str, window: str, zone: str, words: str) -> Fields:
    if window not in _WINDOWS:
        raise ValueError(
            f"{window} is not a window of the calendar: write min, hour, day, week, month or year before {zone}"
        )
    fields = _refilled(amount, words, _OF_CALENDAR, kind="calendar", window=_WINDOWS[window], timezone=zone or _UTC)
    return {"starts_on" if name == "from" else name: value for name, value in fields.items()}


def _read_rolling(amount: str, period: str, words: str) -> Fields:
    seconds = 604_800 if period == "week" else _read_period(period)
    return _refilled(amount, words, _VALUES, refill_period=seconds)


def _read_cron(amount: str, expression: str, zone: str, words: str) -> Fields:
    window = " ".join(expression.split())
    return _refilled(amount, words, _OF_CRON, kind="calendar", window=window, timezone=zone or _UTC)


def _refilled(amount: str, words: str, values: "_Words", **when: Any) -> Fields:
    tokens = _read_amount(amount)
    fields: Fields = {"refill_amount": tokens or 1, **when, **_read_words(words, values)}
    if tokens == 0 and fields.get("capacity"):
        raise ValueError("0 tokens come back, which blocks: leave the capacity out")
    capacity, burst = fields.get("capacity", tokens), fields.get("burst")
    if capacity and burst is not None and burst < capacity:
        way_out = "leave the burst out" if "capacity" in fields else f"for {burst} at once write `capacity {burst}`"
        raise ValueError(f"the burst of {burst} is below the capacity of {capacity}: {way_out}")
    return {"capacity": tokens, **fields}


def _read_first_use(amount: str, period: str, words: str) -> Fields:
    tokens, seconds = _read_amount(amount), _read_period(period)
    fields = {"capacity": tokens, "refill_amount": tokens or 1, "refill_period": seconds, "kind": "first_use"}
    return {**fields, **_read_words(words, _OF_FIRST_USE)}


def _read_total(amount: str, words: str) -> Fields:
    return {"capacity": _read_amount(amount), "kind": "total", **_read_words(words, _OF_TOTAL)}


def _read_slots(amount: str, words: str) -> Fields:
    if isinstance(_read_amount(amount), Micro):
        raise ValueError(f"slots are counted, and {amount} is money")
    return {"capacity": _read_amount(amount), "kind": "concurrent", **_read_words(words, _OF_SLOTS)}


def _with_unit(fields: Fields) -> Fields:
    """Return the fields with the currency that all amounts are of, as their unit, if they are money."""
    names = [each for each in ("capacity", "burst", "refill_amount") if each in fields]
    if fields["capacity"] == 0:  # which comes back as 1, of whatever
        names = ["capacity"]
    units = {getattr(fields[each], "unit", "") for each in names}
    if len(units) > 1:
        raise ValueError("its amounts are not all money of one currency: give each the same sign, such as $500")
    unit = units.pop()
    return {**fields, **{each: int(fields[each]) for each in names}, "unit": unit} if unit else fields


def _read_words(text: str, values: "_Words") -> Fields:
    fields: Fields = {}
    words = iter(text.split())
    for word in words:
        if word in fields:
            raise ValueError(f"it has `{word}` twice")
        if word == "shadow":
            fields[word] = True
        elif word in values:
            value = next(words, None)
            if value is None:
                raise ValueError(f"`{word}` needs a value, such as {values[word][1]}")
            fields[word] = values[word][0](value)
        else:
            _refuse_zone([word])
            if word == "ahead":
                raise ValueError(f"`{word}` is `prefetch` now: write `prefetch 1s`")
            known = ", ".join(values)
            raise ValueError(f"`{word}` is not an option of such a limit (known: {known}, shadow)")
    return fields


def _read_amount(text: str) -> int:
    if (money := read_money(text)) is not None:
        return money
    if text[0] in SIGNS:
        raise ValueError(f"{text} is not an amount of money: write $250, $5.50, $1_500 or 250 eur")
    _refuse_capitals(text)
    if _COMMAS.fullmatch(text):
        raise ValueError(f"write {text.replace(',', '_')}, without commas")
    if re.fullmatch(r"[0-9._]+m", text):
        raise ValueError(f"`m` of {text} may be a million or a thousandth: write {text[:-1]}M for a million")
    found = _AMOUNT.fullmatch(text)
    if found is None or len(text) > 32:
        raise ValueError(f"{text} is not a number of tokens: write whole tokens, such as 100, 10_000, 10k, 1.5M or 2G")
    whole, part, suffix = found[1], found[2] or "", _LARGE[found[3]]
    tokens, rest = divmod(int(part or 0) * suffix, int(f"1{'0' * len(part)}"))
    if rest or (part and not found[3]):
        way_out = f"; money has a sign or a currency: ${text}, {text} eur" if not found[3] else ""
        raise ValueError(f"{text} is not a whole number of tokens{way_out}")
    return int(whole) * suffix + tokens


def _read_period(text: str) -> int:
    found = _PERIOD.fullmatch(text)
    unit = found[2] if found else ""
    meant = _MEANT.get(unit.lower(), unit.lower() if unit != "M" else "")
    if meant in ("month", "year") and meant != unit:
        raise ValueError(f"`{unit}` is not a period: write {meant}")
    if meant in _OTHER_UNITS:
        said = f"`{unit}`" if meant == unit else f"`{unit}` is not a period: `{meant}`"
        raise ValueError(f"{said} {_OTHER_UNITS[meant]}")
    if unit not in _UNITS and meant in _UNITS:
        raise ValueError(f"`{unit}` is not a period: write {meant}")
    if found is None or unit not in _UNITS:
        raise ValueError(f"{text} is not a period: write sec, min, hour or day, or a number of them, such as 90s or 7d")
    return int(found[1] or 1) * _UNITS[unit]


def _read_time(text: str) -> float:
    found = _TIME.fullmatch(text)
    if found is None or (found[2] and found[3] == "ms"):
        raise ValueError(f"{text} is not a time: write seconds or milliseconds, such as 1s, 0.5s or 500ms")
    milliseconds = int(found[1]) * 1000 + int((found[2] or "").ljust(3, "0"))
    return milliseconds / 1000 if found[3] == "s" else int(found[1]) / 1000


def _read_day(text: str) -> int:
    if text == "first":
        raise ValueError("a window `from first use` has a length: write `per 365d from first use` for a year")
    if _DAY.fullmatch(text) is None:
        raise ValueError(f"{text} is not a day to begin on: write that of the month, such as 15, or 1 for Monday to 7")
    return int(text)


def _read_percents(text: str) -> tuple[int, ...]:
    if _PERCENTS.fullmatch(text) is None:
        raise ValueError(f"{text} is not an alert: write percentages with commas between them, such as 80,95")
    return tuple(map(int, text.split(",")))


_Words: TypeAlias = Mapping[str, tuple[Callable[[str], int | float | tuple[int, ...]], str]]

_CAPACITY: Final[_Words] = {"capacity": (_read_amount, "capacity 1k")}
_BURST: Final[_Words] = {"burst": (_read_amount, "burst 20k")}
_ALERT: Final[_Words] = {"alert": (_read_percents, "alert 80,95")}
_VALUES: Final[_Words] = {**_CAPACITY, **_BURST, "prefetch": (_read_time, "prefetch 1s"), **_ALERT}
_OF_CRON: Final[_Words] = {**_CAPACITY, **_BURST, **_ALERT}
_OF_CALENDAR: Final[_Words] = {"from": (_read_day, "from 15"), **_OF_CRON}
_OF_FIRST_USE: Final[_Words] = _ALERT
_OF_TOTAL: Final[_Words] = {**_BURST, "expires": (_read_period, "expires 7d"), **_ALERT}
_OF_SLOTS: Final[_Words] = {"expires": (_read_period, "expires 60s")}
_AMOUNT_IS_CAPACITY: Final = ("concurrent", "total", "first_use")
_FORMS: Final[Sequence[tuple[re.Pattern[str], Callable[..., Fields]]]] = (
    (_CRON, _read_cron),
    (_FIRST_USE, _read_first_use),
    (_CALENDAR_WORD, _read_calendar),
    (_ROLLING, _read_rolling),
    (_CALENDAR, _read_calendar),
    (_MONTH, _read_calendar),
    (_TOTAL, _read_total),
    (_SLOTS, _read_slots),
    (_RATE, _read_rate),
)
