"""The dashboard of a stack: acquires, capacity, throttles, aggregator, dead letters, and the alarms of all of these.

Its body is text, in which CloudFormation fills in names. It names functions by the names that they would have, so it
needs no part of the stack that may be off, apart from the aggregator's queue and the alarms.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from zae_limiter.maintenance import METRICS_NAMESPACE

from ...artifacts.builder import LambdaName
from ..code import function_name
from .alarms import KINDS, alarms
from .language import Resources, resource, text

STACK: Final = "${AWS::StackName}"
WIDTH: Final = 12  # of 24
ALWAYS: Final = {"AlarmsTable", "AlarmsAggregator"}  # the conditions of the alarms that are there with a dashboard

Metric = list[Any]


def dashboard() -> Resources:
    """Return the dashboard. CloudWatch has three for nothing in each account, and charges for more.

    Its name has the region: all regions of an account share the names.
    """
    body = json.dumps({"widgets": _widgets()}, separators=(",", ":"))
    properties = {"DashboardName": text(f"{STACK}-${{AWS::Region}}"), "DashboardBody": text(body)}
    return {"OverviewDashboard": resource("CloudWatch::Dashboard", properties, condition="HasDashboard")}


def _widgets() -> list[dict[str, Any]]:
    lag = _of_function("IteratorAge", "aggregator")
    letters = ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${DeadLetters.QueueName}"]
    shown = [f"${{{name}.Arn}}" for name, made in alarms().items() if made["Condition"] in ALWAYS]
    return [
        {"type": "alarm", "width": 2 * WIDTH, "properties": {"title": "Alarms", "alarms": shown}},
        _graph("Acquires", "Sum", [_of_stack(name) for name in ("admitted", "refused", "uncounted")]),
        _graph("Units consumed", "Sum", [_search(f"Consumed{kind}CapacityUnits") for kind in KINDS]),
        _graph("Throttled, by reason", "Sum", [_search("ThrottleEvents")]),
        _graph("Throttled, by index", "Sum", [_search("ThrottleEvents", "GlobalSecondaryIndexName")]),
        _graph("Errors of DynamoDB", "Sum", [_search("SystemErrors", "Operation")]),
        _graph("Age of the stream's records, ms", "Maximum", [lag]),
        _graph("Dead letters", "Maximum", [letters]),
        _graph("Failed invocations", "Sum", [_of_function("Errors", each) for each in ("aggregator", "provisioner")]),
    ]


def _graph(title: str, statistic: str, metrics: Sequence[Metric]) -> dict[str, Any]:
    shown = {"title": title, "region": "${AWS::Region}", "stat": statistic, "period": 60, "metrics": [*metrics]}
    return {"type": "metric", "width": WIDTH, "properties": shown}


def _search(name: str, *dimensions: str) -> Metric:
    """Return all metrics of the table whose names have this part, each for all values of the dimensions."""
    schema = ",".join(("AWS/DynamoDB", *dimensions, "TableName"))
    return [{"expression": f"SEARCH('{{{schema}}} TableName=\"{STACK}\" {name}','Sum',60)"}]


def _of_stack(name: str) -> Metric:
    return [METRICS_NAMESPACE, name, "stack", STACK]


def _of_function(name: str, function: LambdaName) -> Metric:
    return ["AWS/Lambda", name, "FunctionName", function_name(STACK, function)]
