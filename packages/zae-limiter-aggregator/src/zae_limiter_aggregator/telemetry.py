"""What the Lambda tells of a batch: metrics in CloudWatch's embedded format.

Lives here: how its figures look. Never: what is counted (aggregation), how a line is written (core's json_logs).
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from .aggregation import Account

NAMESPACE: Final = "zae-limiter"
DIMENSION: Final = "stack"
METRICS: Final[Mapping[str, str]] = {
    "records": "Count",
    "snapshots": "Count",
    "refills": "Count",
    "splits": "Count",
    "archived": "Count",
    "failures": "Count",
    "dropped": "Count",
    "duration_ms": "Milliseconds",
}


def metrics(account: Account, stack: str) -> dict[str, Any]:
    """The figures of a batch, as fields of a log line that CloudWatch makes metrics of."""
    declared = {
        "Namespace": NAMESPACE,
        "Dimensions": [[DIMENSION]],
        "Metrics": [{"Name": name, "Unit": unit} for name, unit in METRICS.items()],
    }
    figures = {name: getattr(account, name) for name in METRICS} | {"failures": len(account.failures)}
    return {
        "_aws": {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [declared]},
        DIMENSION: stack,
        **figures,
    }
