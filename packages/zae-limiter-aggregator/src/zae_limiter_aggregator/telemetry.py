"""The metrics of a batch, in CloudWatch's embedded metric format.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from .aggregation import BatchResult

NAMESPACE: Final = "zae-limiter"
DIMENSION: Final = "stack"
METRICS: Final[Mapping[str, str]] = {
    "records": "Count",
    "snapshots": "Count",
    "refills": "Count",
    "splits": "Count",
    "archived": "Count",
    "failures": "Count",
    "dead_letters": "Count",
    "dropped": "Count",
    "duration_ms": "Milliseconds",
}


def metrics(result: BatchResult, stack: str) -> dict[str, Any]:
    """The figures of a batch, as fields of a log line from which CloudWatch extracts metrics."""
    declared = {
        "Namespace": NAMESPACE,
        "Dimensions": [[DIMENSION]],
        "Metrics": [{"Name": name, "Unit": unit} for name, unit in METRICS.items()],
    }
    lengths = {"failures": len(result.failures), "dead_letters": len(result.dead_letters)}
    figures = {name: getattr(result, name) for name in METRICS} | lengths
    return {
        "_aws": {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [declared]},
        DIMENSION: stack,
        **figures,
    }
