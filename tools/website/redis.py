"""Write the tables of docs/start/why-not-redis.md: costs, and figures of docs/benchmarks.md.

The prices and their date are here and nowhere else; docs/operate/cost.md has them from here, too.

python -m website.redis   (with tools on PYTHONPATH; `just pictures` and `just bench` call it)
"""

import re
from collections.abc import Callable
from typing import Final

from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.stores import MemoryTable, Meter, SyncMemoryStore

from .tables import DOCS, measured

PAGE: Final = DOCS / "start" / "why-not-redis.md"

AS_OF: Final = "November 2026"
DOLLARS_PER_MILLION_WRITE_UNITS: Final = 0.625  # DynamoDB, on demand, us-east-1
DOLLARS_PER_MILLION_READ_UNITS: Final = 0.125
DOLLARS_PER_GB_STORED: Final = 0.25  # a month, as the next one
DOLLARS_PER_GB_BACKED_UP: Final = 0.20
DOLLARS_PER_ALARM: Final = 0.10  # CloudWatch, a month
DOLLARS_PER_MILLION_INVOCATIONS: Final = 0.20  # Lambda, x86, as the next one
DOLLARS_PER_GB_SECOND: Final = 0.0000166667
DOLLARS_PER_WRITE_UNIT_HOUR: Final = 0.00065  # DynamoDB, provisioned; once for a unit that is warmed
DOLLARS_PER_READ_UNIT_HOUR: Final = 0.00013
DOLLARS_PER_INSIGHTS_RULE: Final = 0.50  # CloudWatch Contributor Insights, a month
DOLLARS_PER_MILLION_INSIGHTS_EVENTS: Final = 0.03
DOLLARS_PER_NODE_HOUR: Final = {"cache.t4g.small": 0.032, "cache.m7g.large": 0.158}  # ElastiCache, on demand, us-east-1
NODES: Final = 2  # one that serves, one that takes over
HOURS_PER_MONTH: Final = 730

LIMITS: Final = [Limit.per_minute("rpm", 1000), Limit.per_minute("tpm", 100_000)]
COST: Final = {"rpm": 1, "tpm": 500}


def write_units(call: Callable[[SyncRateLimiter], None]) -> float:
    """Return the write units of a call on buckets that are there already."""
    meter = Meter()
    repository = SyncRepository.over(SyncMemoryStore(MemoryTable(meter)), Options())
    with SyncRateLimiter(repository, default_limits=LIMITS) as limiter:
        limiter.create_entity("project")
        limiter.create_entity("key", parent_id="project", cascade=True)
        call(limiter)
        meter.reset()
        call(limiter)
        return meter.write_units + meter.index_units


def _take(entity_id: str, *, settle: bool) -> Callable[[SyncRateLimiter], None]:
    def call(limiter: SyncRateLimiter) -> None:
        with limiter.acquire(entity_id, "gpt-4", COST) as lease:
            if settle:
                lease.settle(tpm=400)

    return call


DECISIONS: Final = {
    "one write: an acquire": _take("user", settle=False),
    "reserve and settle": _take("user", settle=True),
    "reserve and settle, key and project": _take("key", settle=True),
}


def table() -> str:
    """Return the table, with a row for each kind of decision."""
    nodes = list(DOLLARS_PER_NODE_HOUR)
    head = ["a decision", "write units", "$ per million", *(f"break-even with {NODES} x {node}" for node in nodes)]
    rows = [
        head,
        ["---", *["---:"] * (len(head) - 1)],
        *(_row(name, write_units(call)) for name, call in DECISIONS.items()),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(name: str, units: float) -> list[str]:
    dollars = units * DOLLARS_PER_MILLION_WRITE_UNITS
    even = [_even(hourly, dollars) for hourly in DOLLARS_PER_NODE_HOUR.values()]
    return [name, f"{units:g}", f"{dollars:.3f}", *even]


def _even(hourly: float, dollars: float) -> str:
    millions = NODES * HOURS_PER_MONTH * hourly / dollars
    return f"{millions:.0f} M a month, {millions * 1e6 / HOURS_PER_MONTH / 3600:.0f}/s"


def sources() -> str:
    """Return the sentences that say the prices and their date."""
    nodes = " and ".join(f"${price} ({node})" for node, price in DOLLARS_PER_NODE_HOUR.items())
    units = f"${DOLLARS_PER_MILLION_WRITE_UNITS}, a million read units ${DOLLARS_PER_MILLION_READ_UNITS}"
    return (
        f"Prices of us-east-1, on demand, as of {AS_OF}: a million write units {units}; "
        f"a node of ElastiCache {nodes} an hour, a month of {HOURS_PER_MONTH} hours."
    )


_ASYNC: Final = "async, uvloop, orjson"
FIGURES: Final = (  # callers, buckets
    ("100 callers of one bucket", f"{_ASYNC}: 100 callers, 1 bucket"),
    ("100 callers, 1,000 buckets", f"{_ASYNC}: 100 callers, 1,000 buckets"),
    ("1 caller, 1,000 buckets", f"{_ASYNC}: 1 caller, 1,000 buckets"),
)
CLIENTS: Final = {
    "zae-limiter, a stub that answers at once": "zae-limiter, to the stub",
    "zae-limiter, dynoxide": "zae-limiter, to dynoxide",
    "limits, Redis": "limits, fixed window",
    "throttled-py, Redis": "throttled-py, token bucket",
}


DISTANCES: Final = tuple(
    (name, f"{_ASYNC}: {name}")
    for limits in ("1 limit", "2 limits")
    for name in (f"{limits}, an answer after {ms} ms" for ms in (0, 1, 4))
)
ALONE: Final = {
    "zae-limiter": "zae-limiter, to the stub",
    "limits, Redis": "limits, fixed window",
    "throttled-py, Redis": "throttled-py, token bucket",
    "zae-limiter / limits": "zae-limiter, to the stub / limits, fixed window",
}


def distances() -> str:
    """Return the CPU of one caller alone, by how long both servers take to answer, as docs/benchmarks.md has it."""
    found = measured("distance")
    rows = [["CPU of a decision of one caller", *ALONE], ["---", *["---:"] * len(ALONE)]]
    rows += [[name, *(found[f"{case}: {what}"] for what in ALONE.values())] for name, case in DISTANCES]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def figures() -> str:
    """Return the client's CPU for a decision, as docs/benchmarks.md has it. Raise ``KeyError`` if a row is gone."""
    found = measured("peers_redis")
    rows = [["CPU of a decision", *CLIENTS], ["---", *["---:"] * len(CLIENTS)]]
    rows += [[name, *(found[f"{case}: {client}"] for client in CLIENTS.values())] for name, case in FIGURES]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def filled(page: str) -> str:
    """Return the page with its tables between their markers."""
    for name, text in {"prices": f"{table()}\n\n{sources()}", "figures": figures(), "distances": distances()}.items():
        page = re.sub(
            f"<!-- {name} -->.*?<!-- end -->", f"<!-- {name} -->\n{text}\n<!-- end -->", page, flags=re.DOTALL
        )
    return page


def write() -> None:
    """Write the tables into the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
