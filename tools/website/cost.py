"""Write the prices and the table of docs/operate/cost.md. docs/assets/cost.js does the same arithmetic in the page.

python -m website.cost   (with tools on PYTHONPATH; `just pictures` calls it)
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.build import plain

from . import redis
from .markers import fill

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = DOCS / "operate" / "cost.md"
SCRIPT: Final = DOCS / "assets" / "cost.js"

SECONDS: Final = redis.HOURS_PER_MONTH * 3600
UNITS_PER_READ_OF_LIMITS: Final = 5  # four levels of limits and the entity
DEFAULTS: Final = StackOptions()
ALARMS: Final = sum(
    each["Type"] == "AWS::CloudWatch::Alarm" for each in plain("my-app", DEFAULTS)["Resources"].values()
)
PRICES: Final = {
    "write": redis.DOLLARS_PER_MILLION_WRITE_UNITS / 1e6,
    "read": redis.DOLLARS_PER_MILLION_READ_UNITS / 1e6,
    "stored": redis.DOLLARS_PER_GB_STORED,
    "backedUp": redis.DOLLARS_PER_GB_BACKED_UP,
    "alarms": redis.DOLLARS_PER_ALARM * ALARMS,
    "invocation": redis.DOLLARS_PER_MILLION_INVOCATIONS / 1e6,
    "lambda": redis.DOLLARS_PER_GB_SECOND * DEFAULTS.aggregator_memory / 1024 * SECONDS,
    "seconds": SECONDS,
    "unitsPerRead": UNITS_PER_READ_OF_LIMITS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a reader enters: ``calls`` a second, ``writes`` of each, calls ``together`` in one write, and the stack."""

    calls: float
    writes: float = 2
    together: float = 1
    processes: float = 10
    buckets: float = 1000
    window: float = DEFAULTS.batch_window
    aggregator: bool = True
    gigabytes: float = 1
    backups: bool = True
    alarms: bool = True


def month(load: Load) -> dict[str, float]:
    """Return the dollars of a month, by what they are paid for."""
    writes = load.calls * load.writes / max(load.together, 1)
    reads = min(load.calls, load.processes * load.buckets / 60) * UNITS_PER_READ_OF_LIMITS
    window = max(load.window, 1)
    counted = 2 * min(writes, load.buckets / window) + min(writes, load.buckets / 3600) if load.aggregator else 0
    batches = SECONDS / window if load.aggregator else 0
    dollars = {
        "decisions": writes * SECONDS * PRICES["write"],
        "limits": reads * SECONDS * PRICES["read"],
        "usage": counted * SECONDS * PRICES["write"],
        "lambda": (PRICES["lambda"] if load.aggregator else 0) + batches * PRICES["invocation"],
        "storage": load.gigabytes * (PRICES["stored"] + (PRICES["backedUp"] if load.backups else 0)),
        "alarms": PRICES["alarms"] if load.alarms else 0,
    }
    return {**dollars, "total": sum(dollars.values())}


ROWS: Final = (
    ("0.1 calls a second, 10 buckets", Load(calls=0.1, buckets=10)),
    ("1 call a second, 100 buckets", Load(calls=1, buckets=100)),
    ("10 calls a second, 100 buckets", Load(calls=10, buckets=100)),
    ("100 calls a second, 1,000 buckets", Load(calls=100)),
    ("the same, no aggregator", Load(calls=100, aggregator=False)),
    ("1,000 calls a second, 1,000 buckets", Load(calls=1000)),
    ("the same, 10 calls share a write", Load(calls=1000, together=10)),
)


def table() -> str:
    """Return a row for each example: the dollars of a month by what they are for."""
    names = [*month(Load(calls=1))]
    head = ["load", *names, "per million calls"]
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, load in ROWS:
        found = month(load)
        each = found["total"] / (load.calls * SECONDS) * 1e6
        rows.append([name, *(f"{found[key]:,.2f}" for key in names), f"{each:,.2f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def calculator() -> str:
    """Return the place of the calculator, with the prices and the writes of each kind of decision for its script."""
    kinds = {name: redis.write_units(call) for name, call in redis.DECISIONS.items()}
    data = json.dumps({"prices": PRICES, "kinds": kinds})
    return f"""<div id="cost-calculator" data-cost='{data}'></div>"""


def filled(page: str) -> str:
    """Return the page with today's prices and table."""
    for name, text in {"calculator": calculator(), "table": table(), "prices": _sentence()}.items():
        page = fill(page, name, text)
    return page


def _sentence() -> str:
    return (
        f"Prices of us-east-1, on demand, as of {redis.AS_OF}: a million write units "
        f"${redis.DOLLARS_PER_MILLION_WRITE_UNITS}, a million read units ${redis.DOLLARS_PER_MILLION_READ_UNITS}, "
        f"a GB stored ${redis.DOLLARS_PER_GB_STORED} and backed up ${redis.DOLLARS_PER_GB_BACKED_UP:.2f} a month,\n"
        f"an alarm ${redis.DOLLARS_PER_ALARM:.2f} a month, a million invocations "
        f"${redis.DOLLARS_PER_MILLION_INVOCATIONS:.2f}, a GB-second "
        f"${redis.DOLLARS_PER_GB_SECOND:.10f}. A month has {redis.HOURS_PER_MONTH} hours."
    )


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
