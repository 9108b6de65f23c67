"""Write the prices and the table of docs/operate/cost.md. docs/assets/cost.js does the same arithmetic in the page.

python -m website.cost   (with tools on PYTHONPATH; `just pictures` calls it)
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zae_limiter.maintenance import INDEXES
from zae_limiter_cli.stack.options import GRANTED, StackOptions
from zae_limiter_cli.stack.template.alarms import metrics_of
from zae_limiter_cli.stack.template.build import plain

from . import redis
from .markers import fill

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = DOCS / "operate" / "cost.md"
SCRIPT: Final = DOCS / "assets" / "cost.js"

SECONDS: Final = redis.HOURS_PER_MONTH * 3600
LARGEST_TARGET: Final = 90  # that DynamoDB admits
UNITS_PER_READ_OF_LIMITS: Final = 5  # four levels of limits and the entity
DEFAULTS: Final = StackOptions()
ALARMS: Final = sum(
    metrics_of(each["Properties"])
    for each in plain("my-app", DEFAULTS)["Resources"].values()
    if each["Type"] == "AWS::CloudWatch::Alarm"
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


SIZE: Final = 50_000  # write units a second, of decisions alone
INDEX_UNITS: Final = 500  # write units a second of each index: buckets that are created
TABLES: Final = 1 + len(INDEXES)  # with the indexes


def provisioned(units: float, *, target: float = DEFAULTS.target_utilization) -> float:
    """Return the dollars of a month for write units that autoscaling provisions at its target."""
    return units / target * 100 * redis.DOLLARS_PER_WRITE_UNIT_HOUR * redis.HOURS_PER_MONTH


def warmed(writes: float, reads: float) -> float:
    """Return the dollars that DynamoDB takes once to warm table and indexes beyond what it grants a new table."""
    above_writes, above_reads = max(writes - GRANTED["writes"], 0), max(reads - GRANTED["reads"], 0)
    of_one = above_writes * redis.DOLLARS_PER_WRITE_UNIT_HOUR + above_reads * redis.DOLLARS_PER_READ_UNIT_HOUR
    return TABLES * of_one


def capacity() -> str:
    """Return a row for each option of capacity, at the size of the page."""
    on_demand = SIZE * SECONDS * PRICES["write"]
    rules = redis.DOLLARS_PER_INSIGHTS_RULE * TABLES
    events = SIZE * SECONDS / 1e6 * redis.DOLLARS_PER_MILLION_INSIGHTS_EVENTS
    rows = [
        ("on demand (the default)", f"{on_demand:,.0f} a month", "each decision"),
        ("`--max-writes`, `--max-reads`", "nothing", "requests above are throttled, and not paid for"),
        (
            "`--capacity provisioned`",
            f"{provisioned(SIZE):,.0f} a month",
            f"the table, at the target of {DEFAULTS.target_utilization} %",
        ),
        (
            f"the same, `--target-utilization {LARGEST_TARGET}`",
            f"{provisioned(SIZE, target=LARGEST_TARGET):,.0f} a month",
            "with less room for a peak until autoscaling has followed",
        ),
        (
            f"beside it, `--min-index-writes {INDEX_UNITS}`",
            f"{len(INDEXES) * provisioned(INDEX_UNITS, target=100):,.0f} a month",
            "the four indexes",
        ),
        (
            "the same without: the minimum of the table",
            f"{len(INDEXES) * provisioned(SIZE):,.0f} a month",
            f"the four indexes, with `--min-writes {SIZE / DEFAULTS.target_utilization * 100:.0f}`",
        ),
        (f"`--warm-writes {SIZE}`", f"{warmed(SIZE, 0):,.0f} once", "table and indexes"),
        ("`--contributor-insights throttled`", f"{2 * rules:,.0f} a month", "ten rules, and each throttled event"),
        ("`--contributor-insights all`", f"{4 * rules + events:,.0f} a month", "twenty rules, and each request"),
    ]
    head = ["option", "USD (us-east-1)", "what is paid for"]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---", "---:", "---"], *rows])


def calculator() -> str:
    """Return the place of the calculator, with the prices and the writes of each kind of decision for its script."""
    kinds = {name: redis.write_units(call) for name, call in redis.DECISIONS.items()}
    data = json.dumps({"prices": PRICES, "kinds": kinds})
    return f"""<div id="cost-calculator" data-cost='{data}'></div>"""


def filled(page: str) -> str:
    """Return the page with today's prices and table."""
    for name, text in {
        "calculator": calculator(),
        "table": table(),
        "capacity": capacity(),
        "prices": _sentence(),
    }.items():
        page = fill(page, name, text)
    return page


def _sentence() -> str:
    return (
        f"Prices of us-east-1, on demand, as of {redis.AS_OF}: a million write units "
        f"${redis.DOLLARS_PER_MILLION_WRITE_UNITS}, a million read units ${redis.DOLLARS_PER_MILLION_READ_UNITS}, "
        f"a GB stored ${redis.DOLLARS_PER_GB_STORED} and backed up ${redis.DOLLARS_PER_GB_BACKED_UP:.2f} a month,\n"
        f"a metric of an alarm ${redis.DOLLARS_PER_ALARM:.2f} a month, a million invocations "
        f"${redis.DOLLARS_PER_MILLION_INVOCATIONS:.2f}, a GB-second "
        f"${redis.DOLLARS_PER_GB_SECOND:.10f}. Provisioned: a write unit ${redis.DOLLARS_PER_WRITE_UNIT_HOUR} an hour, "
        f"a read unit ${redis.DOLLARS_PER_READ_UNIT_HOUR}. A month has {redis.HOURS_PER_MONTH} hours."
    )


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
