"""CloudWatch's embedded metric format: metrics as fields of a line of JSON.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import time
from collections.abc import Mapping
from typing import Any, Final

NAMESPACE: Final = "zae-limiter"


def embedded_metrics(
    dimensions: Mapping[str, str], figures: Mapping[str, float], units: Mapping[str, str]
) -> dict[str, Any]:
    """Return the fields of a line from which CloudWatch extracts the figures, each in its unit."""
    declared = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": units[name]} for name in figures],
    }
    return {
        "_aws": {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [declared]},
        **dimensions,
        **figures,
    }
