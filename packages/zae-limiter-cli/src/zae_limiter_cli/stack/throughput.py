"""Ask AWS how near a table is to its throughput limits: what it consumes, the quota of a table, what it is set to.

The quota counts a table and its indexes together, on demand as well as provisioned. Each figure has an action of its
own; if the caller may not use it, the message names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from ..connection import Connection

MINUTES: Final = 10  # CloudWatch has a minute's figures one to three minutes later
KINDS: Final = ("write", "read")
_METRICS: Final = {"write": "ConsumedWriteCapacityUnits", "read": "ConsumedReadCapacityUnits"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Throughput:
    """Units a second of ``kind``, ``None`` for what is not known. ``used`` is that of the busiest of the last minutes.

    ``limit`` is the lowest of the limits that apply, and ``limit_name`` says which one it is.
    """

    kind: str
    used: float | None
    limit: float | None
    limit_name: str | None
    warm: float | None

    @property
    def percent(self) -> float | None:
        """How much of the limit is used."""
        return None if self.used is None or not self.limit else 100 * self.used / self.limit

    def __str__(self) -> str:
        """Return what is known in words; nothing if that is nothing."""
        if self.limit is None:
            return "" if self.used is None else f"{self.kind}s {self.used:,.0f} units a second"
        limit = f"{self.limit:,.0f} units a second"
        if self.percent is None:
            return f"{self.kind}s up to {limit} ({self.limit_name})"
        return f"{self.kind}s {self.used:,.0f} of {limit} ({self.percent:.0f} %, {self.limit_name})"


def throughput_of(connection: Connection) -> tuple[list[Throughput], list[str]]:
    """Return the throughput of writes and of reads, and what AWS did not show.

    Raises ``ClientError`` if AWS does not describe the table.
    """
    client = connection.client("dynamodb")
    table = client.describe_table(TableName=connection.name)["Table"]
    unknown: list[str] = []
    used = _asked(lambda: _consumed(connection, table), "consumption", "cloudwatch:GetMetricData", unknown)
    quotas = _asked(client.describe_limits, "quota", "dynamodb:DescribeLimits", unknown) or {}
    found = []
    for kind in KINDS:
        limit_name, limit = min(_limits(table, quotas, kind), key=lambda each: each[1], default=(None, None))
        warm = table.get("WarmThroughput", {}).get(f"{kind.capitalize()}UnitsPerSecond")
        found.append(Throughput(kind, used[kind] if used else None, limit, limit_name, warm))
    return found, unknown


def _asked(ask: Callable[[], T], what: str, action: str, unknown: list[str]) -> T | None:
    from botocore.exceptions import ClientError
    from botocore.parsers import ResponseParserError

    try:
        return ask()
    except ClientError as error:
        unknown.append(f"{what} not known: allow {action} ({error.response['Error']['Code']})")
    except ResponseParserError:  # an emulator that does not know the request
        unknown.append(f"{what} not known: {action} has no answer")
    return None


def _consumed(connection: Connection, table: Mapping[str, Any]) -> dict[str, float]:
    """Return the units a second of each kind, of the table and its indexes, in the busiest of the last minutes."""
    places: list[list[dict[str, str]]] = [[{"Name": "TableName", "Value": connection.name}]]
    for index in table.get("GlobalSecondaryIndexes", ()):
        places.append([*places[0], {"Name": "GlobalSecondaryIndexName", "Value": index["IndexName"]}])
    queries = [
        {
            "Id": f"{kind}{number}",
            "MetricStat": {
                "Metric": {"Namespace": "AWS/DynamoDB", "MetricName": _METRICS[kind], "Dimensions": place},
                "Period": 60,
                "Stat": "Sum",
            },
        }
        for kind in KINDS
        for number, place in enumerate(places)
    ]
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    answer = connection.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=now - timedelta(minutes=MINUTES), EndTime=now
    )
    minutes: dict[str, dict[datetime, float]] = {kind: {} for kind in KINDS}
    for result in answer["MetricDataResults"]:
        of_kind = minutes[result["Id"].rstrip("0123456789")]
        for at, units in zip(result["Timestamps"], result["Values"], strict=True):
            of_kind[at] = of_kind.get(at, 0) + units
    return {kind: max(each.values(), default=0) / 60 for kind, each in minutes.items()}


def _limits(table: Mapping[str, Any], quotas: Mapping[str, Any], kind: str) -> list[tuple[str, float]]:
    """Return the limits that apply to a table, by what a message calls them."""
    name = kind.capitalize()
    on_demand = table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
    found = {
        "the quota of a table": quotas.get(f"TableMax{name}CapacityUnits"),
        "the table's on-demand maximum": table.get("OnDemandThroughput", {}).get(f"Max{name}RequestUnits"),
        "provisioned": None if on_demand else table.get("ProvisionedThroughput", {}).get(f"{name}CapacityUnits"),
    }
    return [(what, units) for what, units in found.items() if units is not None and units > 0]
