"""The prices that `usage cost` goes by: those of a file, or those that this release knows."""

import json
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Final, Self

from ..errors import CommandError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """US dollars, where they hold, and their date."""

    of: str
    as_of: str
    million_write_units: float
    million_read_units: float
    gb_month_stored: float
    gb_month_backed_up: float
    alarm_month: float
    million_invocations: float
    gb_second: float

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the prices of a JSON file, which has every field. Raises ``CommandError``."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise CommandError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
        names = {each.name: each.type for each in fields(cls)}
        if not isinstance(content, dict) or content.keys() != names.keys():
            raise CommandError(f"{path}: must be an object with exactly these keys: {', '.join(names)}")
        for name, value in content.items():
            if names[name] is str:
                if not isinstance(value, str) or not value:
                    raise CommandError(f"{path}: {name} {value!r}: must be a text")
            elif isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
                raise CommandError(f"{path}: {name} {value!r}: must be a number of dollars, 0 or more")
        return cls(**content)


KNOWN: Final = Prices(
    of="us-east-1, on demand",
    as_of="2026-11",
    million_write_units=0.625,
    million_read_units=0.125,
    gb_month_stored=0.25,
    gb_month_backed_up=0.20,
    alarm_month=0.10,
    million_invocations=0.20,
    gb_second=0.0000166667,
)
