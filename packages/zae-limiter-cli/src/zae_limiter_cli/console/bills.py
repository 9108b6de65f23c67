"""What the limiter costs by tenant, as `usage cost` estimates it, for a page and as a file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, Final, Literal, get_args

from ..live.running import run
from ..skipped import add
from ..spreadsheet import write_rows

By = Literal["root", "entity", "resource"]

BYS: Final[tuple[By, ...]] = get_args(By)
COLUMNS: Final = ("month", "tenant", "admitted", "refused", "write_units", "read_units", "usd")


@dataclass(frozen=True, slots=True)
class Bill:
    """A month's rows, the dearest first; ``problem`` is what the command says instead if it fails."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    total: Mapping[str, Any] = field(default_factory=dict)
    month: str = ""
    prices: str = ""
    problem: str = ""

    def csv(self) -> str:
        """Return the rows as a file."""
        text = StringIO()
        write_rows(text, COLUMNS, ([row[name] for name in COLUMNS] for row in self.rows))
        return text.getvalue()


def read_bill(options: Sequence[str], by: By, month: str, width: int) -> Bill:
    """Return the bill of a month, by default of this one, as the command has it."""
    chosen = [f"--month={month}"] if month else []
    said = run(["usage", "cost", "--by", by, *chosen, *options, "-o", "json"], width)
    try:
        told, _ = json.JSONDecoder().raw_decode(said)  # warnings may follow
        add(told.get("unreadable"))
        rows = [_row(told["month"], each["tenant"], each) for each in told["tenants"]]
        prices = f"{told['prices']['of']}, as of {told['prices']['as_of']}"
        return Bill(rows, _row(told["month"], "total", told["total"]), told["month"], prices)
    except (ValueError, TypeError, KeyError, AttributeError):
        return Bill(problem=said.removeprefix("Error: "))


def _row(month: str, tenant: str, told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "month": month,
        "tenant": tenant,
        "admitted": told["admitted"],
        "refused": told["refused"],
        "write_units": round(told["decision_writes"] + told["usage_writes"]),
        "read_units": round(told["limit_reads"]),
        "usd": told["usd"],
    }
