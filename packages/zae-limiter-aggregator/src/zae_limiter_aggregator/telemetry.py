"""What the Lambda tells: one JSON object a line, and metrics in CloudWatch's embedded format.

Lives here: how log lines look. Never: what is worth a line.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from .aggregation import Account

NAMESPACE: Final = "zae-limiter"
DIMENSION: Final = "stack"
LOGGERS: Final = ("zae_limiter", "zae_limiter_aggregator")
METRICS: Final[Mapping[str, str]] = {
    "records": "Count",
    "snapshots": "Count",
    "refills": "Count",
    "splits": "Count",
    "archived": "Count",
    "failures": "Count",
    "duration_ms": "Milliseconds",
}


class JsonLines(logging.Handler):
    """Writes each log record as a line of JSON to standard output; ``fields`` of a record stand at its top."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line."""
        line: dict[str, Any] = {
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = (self.formatter or logging.Formatter()).formatException(record.exc_info)
        sys.stdout.write(json.dumps(line, default=str) + "\n")
        sys.stdout.flush()


def log_as_json() -> None:
    """Have our loggers write lines of JSON, and nothing else; once."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, JsonLines) for handler in logger.handlers):
            logger.addHandler(JsonLines())
            logger.setLevel(logging.INFO)
            logger.propagate = False  # Lambda's own handler would write the line once more, not in JSON


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
