"""Alarms on aggregator and provisioner, on the stream and on dead letters.

The planner has none: its caller gets the error."""

from typing import Final

from ...artifacts.builder import LambdaName
from .functions import FUNCTIONS
from .language import Resource, Resources, Value, attribute, ref, resource, text, when

DURATION_PERCENT: Final = 80  # of the time-out
ITERATOR_AGE_MS: Final = 300_000
PERIOD_SECONDS: Final = 300


def alarms() -> Resources:
    """Return all alarms. An alarm without data is OK."""
    return {
        **_of_function("aggregator"),
        **_of_function("provisioner"),
        "AggregatorIteratorAgeAlarm": _alarm(
            "aggregator",
            "records of the stream wait for the aggregator",
            threshold=ITERATOR_AGE_MS,
            **_metric("Lambda", "IteratorAge", "Maximum", _function("aggregator")),
        ),
        "DeadLettersAlarm": _alarm(
            "aggregator",
            "records of the stream could not be processed: see the dead-letter queue",
            threshold=1,
            **_metric(
                "SQS",
                "ApproximateNumberOfMessagesVisible",
                "Maximum",
                {"Name": "QueueName", "Value": attribute("DeadLetters", "QueueName")},
            ),
        ),
    }


def _of_function(name: LambdaName) -> Resources:
    prefix = name.capitalize()
    return {
        f"{prefix}ErrorsAlarm": _alarm(
            name, f"the {name} fails", threshold=1, **_metric("Lambda", "Errors", "Sum", _function(name))
        ),
        f"{prefix}ThrottlesAlarm": _alarm(
            name, f"the {name} is throttled", threshold=1, **_metric("Lambda", "Throttles", "Sum", _function(name))
        ),
        f"{prefix}DurationAlarm": _alarm(
            name, f"the {name} comes near its time-out", threshold=DURATION_PERCENT, Metrics=_duration(name)
        ),
    }


def _alarm(name: LambdaName, told: str, *, threshold: int, **metric: Value) -> Resource:
    topic = when("HasAlarmTopic", [ref("AlarmTopicArn")])
    return resource(
        "CloudWatch::Alarm",
        {
            "AlarmDescription": text(f"${{AWS::StackName}}: {told}"),
            "AlarmActions": topic,
            "OKActions": topic,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "EvaluationPeriods": 1,
            "Threshold": threshold,
            "TreatMissingData": "notBreaching",
            **metric,
        },
        condition=f"Alarms{name.capitalize()}",
    )


def _metric(service: str, name: str, statistic: str, dimension: Resource) -> Resource:
    return {
        "Namespace": f"AWS/{service}",
        "MetricName": name,
        "Statistic": statistic,
        "Dimensions": [dimension],
        "Period": PERIOD_SECONDS,
    }


def _function(name: LambdaName) -> Resource:
    return {"Name": "FunctionName", "Value": ref(FUNCTIONS[name])}


def _duration(name: LambdaName) -> list[Value]:
    """Return the metrics of the longest run, as a percentage of the time-out: a template cannot calculate, a metric
    can."""
    longest = {
        "Metric": {"Namespace": "AWS/Lambda", "MetricName": "Duration", "Dimensions": [_function(name)]},
        "Period": PERIOD_SECONDS,
        "Stat": "Maximum",
    }
    return [
        {"Id": "longest", "MetricStat": longest, "ReturnData": False},
        {
            "Id": "percent",
            "Expression": text(f"longest / (${{{name.capitalize()}Timeout}} * 10)"),
            "Label": "% of the time-out",
        },
    ]
