import json
import time
from pathlib import Path

from zae_limiter_aggregator.aggregation import BatchResult
from zae_limiter_aggregator.batch import Failure
from zae_limiter_aggregator.dead_letters import DeadLetter
from zae_limiter_aggregator.telemetry import METRICS, metrics

ACCOUNT = BatchResult(
    records=100,
    snapshots=4,
    refills=1,
    splits=0,
    merges=0,
    archived=2,
    failures=(Failure("7", "broken"),),
    dead_letters=(DeadLetter("5", {}, "broken", "stream"), DeadLetter("6", {}, "broken", "stream")),
    dropped=3,
    duration_ms=12,
    admitted=40,
    refused=4,
    uncounted=7,
    alerts=2,
    alerts_failed=1,
)


def test_metrics_are_declared_as_cloudwatch_reads_them() -> None:
    told = metrics(ACCOUNT, "demo")
    (declared,) = told["_aws"]["CloudWatchMetrics"]
    assert declared["Namespace"] == "zae-limiter"
    assert declared["Dimensions"] == [["stack"]]
    assert {metric["Name"]: told[metric["Name"]] for metric in declared["Metrics"]} == {
        "records": 100,
        "snapshots": 4,
        "refills": 1,
        "splits": 0,
        "merges": 0,
        "archived": 2,
        "failures": 1,
        "dead_letters": 2,
        "dropped": 3,
        "duration_ms": 12,
        "admitted": 40,
        "refused": 4,
        "uncounted": 7,
        "alerts": 2,
        "alerts_failed": 1,
        "traced": 0,
    }
    assert told["stack"] == "demo"
    assert abs(told["_aws"]["Timestamp"] - time.time() * 1000) < 60_000
    assert {metric["Unit"] for metric in declared["Metrics"]} == set(METRICS.values())


def test_the_grafana_dashboard_asks_for_these_metrics_and_for_those_of_lambda() -> None:
    text = (Path(__file__).parents[4] / "examples/grafana/aggregator.json").read_text("utf-8")
    asked = [target for panel in json.loads(text)["panels"] for target in panel["targets"]]
    own = {each["metricName"] for each in asked if each["dimensions"] == {"stack": "$stack"}}
    assert own == METRICS.keys() - {"traced"}
    of_lambda = {each["metricName"] for each in asked if each["dimensions"] == {"FunctionName": "$stack-aggregator"}}
    assert of_lambda == {"IteratorAge", "Duration", "Errors", "Throttles"}
    assert {each["namespace"] for each in asked} == {"zae-limiter", "AWS/Lambda"}
