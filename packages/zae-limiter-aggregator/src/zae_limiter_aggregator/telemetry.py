"""The metrics of a batch, in CloudWatch's embedded metric format."""

from collections.abc import Mapping
from typing import Any, Final

from zae_limiter.maintenance import embedded_metrics

from .aggregation import BatchResult

DIMENSION: Final = "stack"
METRICS: Final[Mapping[str, str]] = {
    "records": "Count",
    "snapshots": "Count",
    "refills": "Count",
    "splits": "Count",
    "merges": "Count",
    "archived": "Count",
    "failures": "Count",
    "dead_letters": "Count",
    "dropped": "Count",
    "duration_ms": "Milliseconds",
    "admitted": "Count",
    "refused": "Count",
    "uncounted": "Count",
    "alerts": "Count",
    "alerts_failed": "Count",
    "traced": "Count",
}


def metrics(result: BatchResult, stack: str) -> dict[str, Any]:
    """Return the figures of a batch, as fields of a log line from which CloudWatch extracts metrics."""
    lengths = {"failures": len(result.failures), "dead_letters": len(result.dead_letters)}
    figures = {name: getattr(result, name) for name in METRICS} | lengths
    return embedded_metrics({DIMENSION: stack}, figures, METRICS)
