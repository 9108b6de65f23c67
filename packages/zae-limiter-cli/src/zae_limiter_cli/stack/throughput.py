"""Ask AWS how near a table is to its throughput limits: what it consumes, the quota of a table, what it is set to, and
what it throttles.

The quota holds for the table and for each of its indexes by itself, on demand as well as provisioned; so each is looked
at, and the one nearest to its limit is shown. Each figure has an action of its own; if the caller may not use it, the
message names it.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from ..connection import Connection

MINUTES: Final = 10  # CloudWatch has a minute's figures one to three minutes later
KINDS: Final = ("write", "read")
_METRICS: Final = {
    **{kind: f"Consumed{kind.capitalize()}CapacityUnits" for kind in KINDS},
    **{f"throttled_{kind}": f"{kind.capitalize()}ThrottleEvents" for kind in KINDS},
}
NO_FIGURES: Final = f"CloudWatch has no figures of the last {MINUTES} minutes"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Throughput:
    """Units a second of ``kind``, ``None`` for what is not known. ``used`` is that of the busiest of the last minutes.

    ``index`` is the name of an index, or ``None`` for the table. ``limit`` is the lowest of the limits that apply, and
    ``limit_name`` says which one it is. ``throttled``: the requests that were refused in these minutes, of the table
    and all of its indexes.
    """

    kind: str
    index: str | None
    used: float | None
    limit: float | None
    limit_name: str | None
    warm: float | None
    throttled: int = 0

    @property
    def percent(self) -> float | None:
        """How much of the limit is used."""
        return None if self.used is None or not self.limit else 100 * self.used / self.limit

    def __str__(self) -> str:
        """Return what is known in words; nothing if that is nothing."""
        what = f"{self.kind}s" if self.index is None else f"{self.kind}s of {self.index}"
        if self.limit is None:
            return "" if self.used is None else f"{what} {self.used:,.0f} units a second"
        limit = f"{self.limit:,.0f} units a second"
        if self.percent is None:
            return f"{what} up to {limit} ({self.limit_name})"
        return f"{what} {self.used:,.0f} of {limit} ({self.percent:.0f} %, {self.limit_name})"


def throughput_of(connection: Connection) -> tuple[list[Throughput], list[str]]:
    """Return the throughput of writes and of reads, of the table or of an index that is nearer to its limit, and what
    AWS did not show.

    Raises ``ClientError`` if AWS does not describe the table.
    """
    client = connection.client("dynamodb")
    table = client.describe_table(TableName=connection.name)["Table"]
    places = [table, *table.get("GlobalSecondaryIndexes", ())]
    on_demand = table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
    unknown: list[str] = []
    used = _asked(lambda: _consumed(connection, places), "consumption", "cloudwatch:GetMetricData", unknown)
    if used is not None and not any(name.startswith(KINDS) for name in used):
        unknown.append(NO_FIGURES)
    quotas = _asked(client.describe_limits, "quota", "dynamodb:DescribeLimits", unknown) or {}
    found = []
    for kind in KINDS:
        of_kind = []
        for number, place in enumerate(places):
            limits = _limits(place, quotas, kind, on_demand=on_demand)
            limit_name, limit = min(limits, key=lambda each: each[1], default=(None, None))
            units = used.get(f"{kind}{number}", 0.0) / 60 if used and NO_FIGURES not in unknown else None
            warm = place.get("WarmThroughput", {}).get(f"{kind.capitalize()}UnitsPerSecond")
            of_kind.append(Throughput(kind, place.get("IndexName"), units, limit, limit_name, warm))
        throttled = sum(units for name, units in (used or {}).items() if name.startswith(f"throttled_{kind}"))
        found.append(replace(max(of_kind, key=lambda each: each.percent or 0), throttled=round(throttled)))
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


def _consumed(connection: Connection, places: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the units in the busiest of the last minutes, and the throttled requests of all, by kind and number of the
    place; nothing for what has no figures.
    """
    queries = [
        {
            "Id": f"{kind}{number}",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/DynamoDB",
                    "MetricName": _METRICS[kind],
                    "Dimensions": _dimensions(connection.name, place.get("IndexName")),
                },
                "Period": 60,
                "Stat": "Sum",
            },
        }
        for kind in _METRICS
        for number, place in enumerate(places)
    ]
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    answer = connection.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=now - timedelta(minutes=MINUTES), EndTime=now + timedelta(minutes=1)
    )
    figures = {each["Id"]: each["Values"] for each in answer["MetricDataResults"] if each["Values"]}
    return {name: sum(each) if name.startswith("throttled") else max(each) for name, each in figures.items()}


def _dimensions(table: str, index: str | None) -> list[dict[str, str]]:
    of_table = [{"Name": "TableName", "Value": table}]
    return of_table if index is None else [*of_table, {"Name": "GlobalSecondaryIndexName", "Value": index}]


def _limits(
    place: Mapping[str, Any], quotas: Mapping[str, Any], kind: str, *, on_demand: bool
) -> list[tuple[str, float]]:
    """Return the limits that apply to a table or an index, by what a message calls them."""
    name = kind.capitalize()
    found = {
        "the quota of a table": quotas.get(f"TableMax{name}CapacityUnits"),
        "its on-demand maximum": place.get("OnDemandThroughput", {}).get(f"Max{name}RequestUnits"),
        "provisioned": None if on_demand else place.get("ProvisionedThroughput", {}).get(f"{name}CapacityUnits"),
    }
    return [(what, units) for what, units in found.items() if units is not None and units > 0]
