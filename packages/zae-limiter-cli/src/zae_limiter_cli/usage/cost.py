"""Estimate what the limiter itself costs in a month or a day, by tenant, from its usage.

Only acquires are counted. The requests that they made are not counted: how many calls shared a write, and how many
buckets a batch of the aggregator wrote, is not known afterwards. So units are estimated from the acquires, each by what
docs/operate/cost.md says that it takes at most, and what is counted is shown beside what is estimated.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from .month import HOURS_OF_A_MONTH
from .prices import Prices

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot

DAY_SECONDS: Final = 24 * 3600
DAY_MINUTES: Final = 24 * 60
MONTH_SECONDS: Final = HOURS_OF_A_MONTH * 3600
UNITS_OF_LIMITS: Final = 5  # read units for the four levels of limits and the record
WINDOWS: Final = 2  # each batch writes the hour and the day of a bucket
AGGREGATOR_GB: Final = 0.25
MILLION: Final = 1_000_000

TenantOf = Callable[["UsageSnapshot"], str]


@dataclass(frozen=True, slots=True)
class Load:
    """How the limiter is used, which no count says: writes of an acquire, processes, seconds of a batch."""

    writes_per_acquire: float = 1.0
    processes: int = 1
    batch_window: int = 2


@dataclass(slots=True)
class Units:
    """What a tenant used: acquires as counted, units as estimated.

    An acquire that cascades counts once, at the entity that was asked; each bucket that it takes from has its units.
    """

    admitted: int = 0
    refused: int = 0
    decision_writes: float = 0.0
    usage_writes: float = 0.0
    limit_reads: float = 0.0

    def add(self, snapshot: "UsageSnapshot", own: "UsageSnapshot", load: Load) -> None:
        """Add one bucket's day, of which a part is the entity's own."""
        acquires = snapshot.total_events + snapshot.total_refused
        self.admitted += own.total_events
        self.refused += own.total_refused
        self.decision_writes += snapshot.total_events * load.writes_per_acquire
        self.usage_writes += WINDOWS * min(acquires, DAY_SECONDS / max(1, load.batch_window))
        self.limit_reads += UNITS_OF_LIMITS * min(acquires, DAY_MINUTES * load.processes)

    def dollars(self, prices: Prices) -> float:
        """Return what these units cost."""
        writes = (self.decision_writes + self.usage_writes) * prices.million_write_units
        return (writes + self.limit_reads * prices.million_read_units) / MILLION


def sum_of(tenants: Iterable[Units]) -> Units:
    """Return the units of all tenants."""
    total = Units()
    for each in tenants:
        for one in fields(Units):
            setattr(total, one.name, getattr(total, one.name) + getattr(each, one.name))
    return total


def fixed_costs(
    prices: Prices,
    elapsed: float,
    *,
    table_bytes: int | None,
    backups: bool,
    aggregator: bool | None,
    alarms: int | None,
) -> dict[str, float]:
    """Return the dollars that a stack costs at any use, for the elapsed part of a month, as far as it is known."""
    costs = {}
    if aggregator:
        costs["lambda"] = AGGREGATOR_GB * MONTH_SECONDS * prices.gb_second * elapsed
    if alarms is not None:
        costs["alarms"] = alarms * prices.alarm_month * elapsed
    if table_bytes is not None:
        per_gb = prices.gb_month_stored + (prices.gb_month_backed_up if backups else 0)
        costs["storage"] = table_bytes / 1024**3 * per_gb * elapsed
    return costs
