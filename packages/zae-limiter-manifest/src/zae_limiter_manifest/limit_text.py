"""Read and write a limit as one text: `100/min burst 200`. YAML, the command line, Python and messages share it.

A text is a rate, then words, each once, in any order:

    AMOUNT/PERIOD [capacity AMOUNT] [burst AMOUNT] [ahead TIME] [alert PERCENT,PERCENT] [shadow]
    AMOUNT per PERIOD from first use [shadow]
    AMOUNT concurrent [expires TIME] [shadow]

The rate is what comes back: an amount of tokens in a period. The capacity is that amount unless the text has another,
the burst is the capacity. So every token bucket has a text, and only one that `write_limit` gives. The second form is
of a limit all of whose tokens come back a period after the first of them was taken, the third of slots.

Core and manifest know nothing of each other, so both have this file, byte for byte: edit both. Another kind of limit
(a calendar window) adds its own text to `read_limit` and `write_limit`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

EXAMPLES: Final = ["100/min", "10k/min burst 20k", "1_000/day"]
EXAMPLE: Final = " or ".join(EXAMPLES)
PATTERN: Final = r"^\s*[0-9][^\s/]*((\s*/\s*|\s+per\s+)[0-9]*[A-Za-z]|\s+concurrent(\s|$))"
"""What every text begins with, as a regular expression of JSON Schema."""

Fields: TypeAlias = dict[str, Any]

_LONGEST: Final = 200
_EXPIRES: Final = 60  # seconds of slots, unless the text says otherwise
_LIMIT: Final = re.compile(r"([^\s/]+)\s*/\s*([^\s/]+)((?:\s+[^\s/]+)*)")
_SLOTS: Final = re.compile(r"([^\s/]+)\s+concurrent((?:\s+[^\s/]+)*)")
_FIRST_USE: Final = re.compile(r"(\S+)\s+per\s+(\S+)\s+from\s+first\s+use(\s+shadow)?")
_AMOUNT: Final = re.compile(r"(0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.([0-9]{1,9}))?([kKMG]?)")
_PERIOD: Final = re.compile(r"([1-9][0-9]{0,9})?([A-Za-z]+)")
_TIME: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?(ms|s)")
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
_OTHER_UNITS: Final = {
    "m": "may be minutes or months: write min",
    "week": "write 7d",
    "weeks": "write days, such as 14d",
    "month": "has no fixed length: write days, such as 30d",
    "year": "has no fixed length: write days, such as 365d",
}


def read_limit(text: str) -> Fields:
    """Return the fields of a limit that its text gives; those that it leaves out have the defaults of a limit.

    `capacity`, `refill_amount` and `refill_period` (seconds) are always there, `burst`, `ahead` (seconds), `alert`
    (percent) and `shadow` where the text has them. Slots have `capacity`, `kind`, and `expires` (seconds) and `shadow`
    where the text has them. Raises `ValueError`, whose message says what is wrong, and gives examples.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"a limit has at most {_LONGEST} characters")
        if slots := _SLOTS.fullmatch(text.strip()):
            words = _read_words(slots[2], _OF_SLOTS)
            return {"capacity": _read_amount(slots[1]), "kind": "concurrent", **words}
        if found := _FIRST_USE.fullmatch(text.strip()):
            return _read_first_use(found[1], found[2], shadow=found[3] is not None)
        found = _LIMIT.fullmatch(text.strip())
        if found is None:
            raise ValueError("a limit begins with an amount and a period, or is an amount that is concurrent")
        amount = _read_amount(found[1])
        fields = {
            "refill_amount": amount or 1,
            "refill_period": _read_period(found[2]),
            **_read_words(found[3], _VALUES),
        }
        if amount == 0 and fields.get("capacity"):
            raise ValueError("0 tokens come back, which blocks: leave the capacity out")
    except ValueError as error:
        raise ValueError(f"is no limit: {error}; examples: {EXAMPLE}") from None
    return {"capacity": amount, **fields}


def write_limit(fields: Mapping[str, Any]) -> str:
    """Return the text of a limit with all these fields, such that `read_limit` gives a limit that is equal to it."""
    capacity, amount = fields["capacity"], fields["refill_amount"]
    if fields.get("kind") == "concurrent":
        words = [write_amount(capacity), "concurrent"]
        words += [] if fields["expires"] == _EXPIRES else [f"expires {fields['expires']}s"]
        return " ".join([*words, "shadow"] if fields["shadow"] else words)
    if fields.get("kind") == "first_use":
        text = f"{write_amount(capacity)} per {write_period(fields['refill_period'])} from first use"
        return f"{text} shadow" if fields["shadow"] else text
    blocks = capacity == 0 and amount == 1
    words = [write_rate(0 if blocks else amount, fields["refill_period"])]
    if capacity != amount and not blocks:
        words.append(f"capacity {write_amount(capacity)}")
    if fields["burst"] != capacity:
        words.append(f"burst {write_amount(fields['burst'])}")
    if fields["ahead"]:
        words.append(f"ahead {write_time(fields['ahead'])}")
    if fields.get("alert"):
        words.append(f"alert {','.join(map(str, fields['alert']))}")
    return " ".join([*words, "shadow"] if fields["shadow"] else words)


def write_rate(amount: int, period: int) -> str:
    """Return an amount of tokens in a period of seconds: `10k/min`, `100/90s`."""
    return f"{write_amount(amount)}/{write_period(period)}"


def write_amount(amount: int) -> str:
    """Return an amount of tokens: `999`, `1_500`, `10k`, `2M`, `1G`."""
    for suffix in ("G", "M", "k"):
        if amount and amount % _LARGE[suffix] == 0:
            return f"{amount // _LARGE[suffix]:_}{suffix}"
    return f"{amount:_}"


def write_period(seconds: int) -> str:
    """Return a period: `min`, `90s`, `5min`, `7d`."""
    if seconds in _ONE:
        return _ONE[seconds]
    return next(f"{seconds // unit}{word}" for unit, word in _MANY.items() if seconds % unit == 0)


def write_time(seconds: float) -> str:
    """Return a time of whole milliseconds: `1s`, `500ms`."""
    milliseconds = round(seconds * 1000)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _read_first_use(amount: str, period: str, *, shadow: bool) -> Fields:
    tokens = _read_amount(amount)
    fields: Fields = {"capacity": tokens, "refill_amount": tokens or 1, "refill_period": _read_period(period)}
    return {**fields, "kind": "first_use", **({"shadow": True} if shadow else {})}


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
            raise ValueError(f"`{word}` is no word of a limit: there are {', '.join(values)} and shadow")
    return fields


def _read_amount(text: str) -> int:
    if _COMMAS.fullmatch(text):
        raise ValueError(f"write {text.replace(',', '_')}, without commas")
    if re.fullmatch(r"[0-9._]+m", text):
        raise ValueError(f"`m` of {text} may be a million or a thousandth: write {text[:-1]}M for a million")
    found = _AMOUNT.fullmatch(text)
    if found is None or len(text) > 32:
        raise ValueError(f"{text} is no amount: write whole tokens, such as 100, 10_000, 10k, 1.5M or 2G")
    whole, part, suffix = found[1], found[2] or "", _LARGE[found[3]]
    tokens, rest = divmod(int(part or 0) * suffix, int(f"1{'0' * len(part)}"))
    if rest or (part and not found[3]):
        raise ValueError(f"{text} is not a whole number of tokens")
    return int(whole) * suffix + tokens


def _read_period(text: str) -> int:
    found = _PERIOD.fullmatch(text)
    unit = found[2] if found else ""
    if unit in _OTHER_UNITS:
        raise ValueError(f"`{unit}` {_OTHER_UNITS[unit]}")
    if found is None or unit not in _UNITS:
        raise ValueError(f"{text} is no period: write sec, min, hour or day, or a number of them, such as 90s or 7d")
    return int(found[1] or 1) * _UNITS[unit]


def _read_time(text: str) -> float:
    found = _TIME.fullmatch(text)
    if found is None or (found[2] and found[3] == "ms"):
        raise ValueError(f"{text} is no time: write seconds or milliseconds, such as 1s, 0.5s or 500ms")
    milliseconds = int(found[1]) * 1000 + int((found[2] or "").ljust(3, "0"))
    return milliseconds / 1000 if found[3] == "s" else int(found[1]) / 1000


def _read_percents(text: str) -> tuple[int, ...]:
    if _PERCENTS.fullmatch(text) is None:
        raise ValueError(f"{text} is no alert: write percentages with commas between them, such as 80,95")
    return tuple(map(int, text.split(",")))


_Words: TypeAlias = Mapping[str, tuple[Callable[[str], int | float | tuple[int, ...]], str]]

_VALUES: Final[_Words] = {
    "capacity": (_read_amount, "capacity 1k"),
    "burst": (_read_amount, "burst 20k"),
    "ahead": (_read_time, "ahead 1s"),
    "alert": (_read_percents, "alert 80,95"),
}
_OF_SLOTS: Final[_Words] = {"expires": (_read_period, "expires 60s")}
