# Generated from zae_limiter_manifest/schedule_text.py by `just variants`: edit that one.
"""Read and write one entry of a limit's schedule as a text: `night: 00:00-06:00 Europe/Berlin 100/min burst 200`.

An entry is a name, when it holds, and the values that the limit has then:

    NAME: [HH:MM-HH:MM] [DAYS] [DATES] [ZONE] AMOUNT/PERIOD [capacity AMOUNT] [burst AMOUNT]
    NAME: [HH:MM-HH:MM] [DAYS] [DATES] [ZONE] capacity AMOUNT [burst AMOUNT]

It holds where all that it says of a time does; times, days and dates are those that the clocks of the zone show, by
default UTC. Times over midnight belong to the day on which they begin. A capacity alone is what comes back, too.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

from .limit_text import read_limit, write_amount, write_limit
from .money import SIGNS, join_amounts

EXAMPLES: Final = ["night: 00:00-06:00 Europe/Berlin 100/min", "weekend: sat-sun 200/min burst 400"]
EXAMPLE: Final = "; ".join(EXAMPLES)
MAX_ENTRIES: Final = 16
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FULL_DAY: Final = 24 * 60
_WEEK: Final = 7

_LONGEST: Final = 200
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_TIMES: Final = re.compile(r"([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2})")
_LIKE_TIMES: Final = re.compile(r"[0-9]{1,2}:.*")
_DATES: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:\.\.([0-9]{4}-[0-9]{2}-[0-9]{2}))?")
_LIKE_DATES: Final = re.compile(r"[0-9]{4}-.*")
_LIKE_DAYS: Final = re.compile(rf"(?:{'|'.join(DAYS)})[a-z,-]*")
_ALIASES: Final = {"weekdays": "mon-fri", "weekends": "sat-sun"}
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_FEWEST: Final = 2  # in a row, to be written as a range


def read_entry(text: str) -> dict[str, Any]:
    """Return the fields of an entry. Raises `ValueError`, whose message says what is wrong, and gives examples.

    `times` are minutes of the day, the end above the begin, so that it may be of the next day; `days` are 1 for Monday
    to 7; `dates` are the first and the last one as texts. `refill_period` is there if the text has a period.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"an entry has at most {_LONGEST} characters")
        name, colon, rest = text.partition(":")
        if not colon or not _NAME.fullmatch(name.strip()):
            raise ValueError("it begins with a name of at most 32 letters, digits, - and _, and a colon")
        when, values = _split(join_amounts(rest).split())
        return {"name": name.strip(), **_read_when(when), **_read_values(values)}
    except ValueError as error:
        raise ValueError(f"is not an entry of a schedule: {error}; examples: {EXAMPLE}") from None


def write_entry(fields: Mapping[str, Any]) -> str:
    """Return the text of an entry with all these fields, which `read_entry` reads back as equal ones."""
    return f"{write_when(fields)} {write_values(fields)}"


def write_when(fields: Mapping[str, Any]) -> str:
    """Return the name of an entry and when it holds: `night: 00:00-06:00 Europe/Berlin`."""
    words = [f"{fields['name']}:"]
    if times := fields["times"]:
        words.append("-".join(write_time_of_day(minute) for minute in times))
    if fields["days"]:
        words.append(write_days(fields["days"]))
    if dates := fields["dates"]:
        words.append("..".join(dict.fromkeys(dates)))
    if fields["timezone"] != "UTC":
        words.append(fields["timezone"])
    return " ".join(words)


def write_values(fields: Mapping[str, Any]) -> str:
    """Return the values of an entry: `100/min burst 200`, or `capacity 100`."""
    if fields["refill_period"] is not None:
        return write_limit({**fields, "prefetch": 0, "shadow": False})
    unit = fields.get("unit", "")
    words = [f"capacity {write_amount(fields['capacity'], unit)}"]
    if fields["burst"] != fields["capacity"]:
        words.append(f"burst {write_amount(fields['burst'], unit)}")
    return " ".join(words)


def write_time_of_day(minute: int) -> str:
    """Return a minute of a day, or of the next one, as the clock shows it: `06:00`; `24:00` for the end of the day."""
    shown = minute if minute == FULL_DAY else minute % FULL_DAY
    return f"{shown // 60:02}:{shown % 60:02}"


def write_days(days: Sequence[int]) -> str:
    """Return days of the week: `mon-fri`, `mon,wed`."""
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(_write_run([DAYS[day - 1] for day in run]) for run in runs)


def find_unreachable(entries: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[str, ...]] | None:
    """Return the first entry that never holds because earlier ones always do where it would, and these.

    Only entries of the same zone are compared, minute by minute of their clocks, also over midnight. From one day on
    which a date begins or ends to the next one, every week is like the other: so a week behind each is looked at.
    """
    for place, entry in enumerate(entries):
        earlier = [each for each in entries[:place] if each["timezone"] == entry["timezone"]]
        spans = [span for day in _days_to_look_at(entry, earlier) if (span := _span(entry, day))]
        if spans and all(_is_covered(span, earlier) for span in spans):
            alone = [each for each in earlier if all(_is_covered(span, [each]) for span in spans)]
            used = alone[:1] or [each for each in earlier if any(_overlaps(each, span) for span in spans)]
            return entry["name"], tuple(each["name"] for each in used)
    return None


def _days_to_look_at(entry: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the days, counted as by `date.toordinal`, that stand for all on which the entry may hold."""
    if not entry["dates"]:
        far = date.max.toordinal() - 4 * _WEEK  # behind all dates
        return list(range(far, far + _WEEK))
    first, last = (date.fromisoformat(day).toordinal() for day in entry["dates"])
    dates = [date.fromisoformat(day).toordinal() for each in earlier for day in each["dates"] or ()]
    days = {day for begin in (first, *dates) for day in range(begin - _WEEK, begin + _WEEK + 2)}
    return sorted(day for day in days if first <= day <= last)


def _span(entry: Mapping[str, Any], day: int) -> tuple[int, int] | None:
    """Return the minutes in which an entry holds from a day on; `None` if it does not begin on that day."""
    if entry["days"] and (day - 1) % _WEEK + 1 not in entry["days"]:
        return None
    if entry["dates"]:
        first, last = (date.fromisoformat(each).toordinal() for each in entry["dates"])
        if not first <= day <= last:
            return None
    begin, end = entry["times"] or (0, FULL_DAY)
    return day * FULL_DAY + begin, day * FULL_DAY + end


def _is_covered(span: tuple[int, int], entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether one of the entries holds in every minute of a span."""
    at, end = span
    others = [each for entry in entries for each in _spans_around(entry, span)]
    for first, last in sorted(others):
        if first <= at < last:
            at = last
    return at >= end


def _overlaps(entry: Mapping[str, Any], span: tuple[int, int]) -> bool:
    return any(first < span[1] and span[0] < last for first, last in _spans_around(entry, span))


def _spans_around(entry: Mapping[str, Any], span: tuple[int, int]) -> list[tuple[int, int]]:
    day = span[0] // FULL_DAY
    return [found for each in (day - 1, day, day + 1) if (found := _span(entry, each))]


def _write_run(names: Sequence[str]) -> str:
    return f"{names[0]}-{names[-1]}" if len(names) >= _FEWEST else names[0]


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    for place, word in enumerate(words):
        if word in ("capacity", "burst") or ((word[0].isdigit() or word[0] in SIGNS) and "/" in word):
            return words[:place], words[place:]
    return words, []


def _read_when(words: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        field, value = _read_word(word)
        if field in found:
            raise ValueError(f"`{word}` says the {field} twice")
        found[field] = value
    if not found.keys() - {"timezone"}:
        raise ValueError("it has no time: give times, days or dates")
    when = {"times": None, "days": (), "dates": None, "timezone": "UTC", **found}
    if when["dates"] and when["days"] and not _meet(when["dates"], when["days"]):
        raise ValueError("it never holds: none of its dates is on one of its days")
    return when


def _read_word(word: str) -> tuple[str, Any]:
    word = _ALIASES.get(word, word)
    if _LIKE_DATES.fullmatch(word):
        return "dates", _read_dates(word)
    if _LIKE_TIMES.fullmatch(word):
        return "times", _read_times(word)
    if _LIKE_DAYS.fullmatch(word):
        return "days", _read_days(word)
    if not _ZONE.fullmatch(word):
        raise ValueError(f"`{word}` is not a time, day, date, zone or value")
    return "timezone", word


def _read_times(word: str) -> tuple[int, int]:
    found = _TIMES.fullmatch(word)
    if found is None:
        raise ValueError(f"{word} are not times: write HH:MM-HH:MM, such as 22:00-06:00")
    begin, end = (60 * int(hour) + int(minute) for hour, minute in (found.group(1, 2), found.group(3, 4)))
    if int(found[2]) > 59 or int(found[4]) > 59 or begin >= FULL_DAY or end > FULL_DAY:
        raise ValueError(f"{word} are not times: the clock shows 00:00 to 23:59, and 24:00 at the end of a day")
    if begin == end:
        raise ValueError(f"{word} is empty: for the whole day write 00:00-24:00, or leave the times out")
    return begin, end if end > begin else end + FULL_DAY


def _read_days(word: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in word.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            raise ValueError(f"{word} are not days: write {', '.join(DAYS)}, such as mon-fri or sat,sun")
        begin = DAYS.index(first)
        count = (DAYS.index(last) - begin) % 7 if dash else 0
        found |= {(begin + step) % 7 + 1 for step in range(count + 1)}
    return tuple(sorted(found))


def _read_dates(word: str) -> tuple[str, str]:
    found = _DATES.fullmatch(word)
    if found is None:
        raise ValueError(f"{word} are not dates: write YYYY-MM-DD, or the first and the last as 2026-12-24..2026-12-26")
    first, last = found[1], found[2] or found[1]
    for day in (first, last):
        try:
            date.fromisoformat(day)
        except ValueError:
            raise ValueError(f"{day} is not a date of the calendar") from None
    if last < first:
        raise ValueError(f"{word} is empty: the last date is before the first")
    return first, last


def _meet(dates: Sequence[str], days: Sequence[int]) -> bool:
    first, last = (date.fromisoformat(day).toordinal() for day in dates)
    return any(date.fromordinal(day).isoweekday() in days for day in range(first, min(last, first + 6) + 1))


def _read_values(words: Sequence[str]) -> dict[str, Any]:
    if not words or words[0] == "burst":
        raise ValueError("it has no values: give a rate such as 100/min, or a capacity")
    for word in words:
        if word in ("prefetch", "alert", "shadow"):
            raise ValueError(f"`{word}` is of the whole limit: no entry changes it")
    has_rate = words[0] != "capacity"
    if not has_rate and len(words) < 2:
        raise ValueError("`capacity` needs a value, such as capacity 1k")
    limit = list(words) if has_rate else [f"{words[1]}/min", *words[2:]]
    if limit[0].endswith("/week"):
        limit.insert(1, "UTC")  # where a limit has the zone
    found = read_limit(" ".join(limit))
    if "kind" in found:
        way_out = "write a rate such as 50/hour, or `capacity 50`, after the zone"
        raise ValueError(f"`{' '.join(words)}` is of a limit of the calendar, whose window no entry changes: {way_out}")
    if has_rate:
        return {"burst": found["capacity"], **found}
    if found["capacity"] != found["refill_amount"] and found["capacity"]:
        raise ValueError("it has `capacity` twice")
    return {"burst": found["capacity"], **found, "refill_period": None}
