"""Alarms on aggregator and provisioner, on the stream, on dead letters, on the table and on acquires.

The planner has none: its caller gets the error.
"""

from typing import Final, Literal

from zae_limiter.maintenance import METRICS_NAMESPACE

from ...artifacts.builder import LambdaName
from ...pages import RUNBOOKS
from .functions import FUNCTIONS
from .language import Resource, Resources, Value, attribute, ref, resource, text, when

DURATION_PERCENT: Final = 80  # of the time-out
ITERATOR_AGE_MS: Final = 300_000
PERIOD_SECONDS: Final = 300
STACK: Final[Resource] = {"Name": "stack", "Value": ref("AWS::StackName")}  # the dimension of the aggregator's metrics


def alarms() -> Resources:
    """Return all alarms. An alarm without data is OK."""
    return {
        **_of_function("aggregator"),
        **_of_function("provisioner"),
        **_alarm(
            "AggregatorIteratorAgeAlarm",
            "aggregator",
            "records of the stream wait for the aggregator",
            threshold=ITERATOR_AGE_MS,
            **_metric("AWS/Lambda", "IteratorAge", "Maximum", _function("aggregator")),
        ),
        **_alarm(
            "DeadLettersAlarm",
            "aggregator",
            "records of the stream could not be processed: see the dead-letter queue",
            threshold=1,
            **_metric(
                "AWS/SQS",
                "ApproximateNumberOfMessagesVisible",
                "Maximum",
                {"Name": "QueueName", "Value": attribute("DeadLetters", "QueueName")},
            ),
        ),
        **_alarm(
            "TableThrottlesAlarm",
            "table",
            "writes to the table are throttled",
            threshold=1,
            **_metric("AWS/DynamoDB", "WriteThrottleEvents", "Sum", {"Name": "TableName", "Value": ref("Table")}),
        ),
        **_alarm(
            "UncountedAlarm",
            "aggregator",
            "calls were let through in an outage, uncounted",
            threshold=1,
            **_metric(METRICS_NAMESPACE, "uncounted", "Sum", STACK),
        ),
        **_alarm(
            "RefusalsAlarm",
            "refusals",
            "many acquires are refused",
            threshold=ref("AlarmRefusals"),
            **_metric(METRICS_NAMESPACE, "refused", "Sum", STACK),
        ),
    }


def runbook(alarm: str) -> str:
    """Return the address of the page that says what to do about an alarm of this logical id."""
    words = "".join(f"-{each.lower()}" if each.isupper() else each for each in alarm.removesuffix("Alarm"))
    return f"{RUNBOOKS}/{words.removeprefix('-')}.md"


def _of_function(name: LambdaName) -> Resources:
    prefix = name.capitalize()
    return {
        **_alarm(
            f"{prefix}ErrorsAlarm",
            name,
            f"the {name} fails",
            threshold=1,
            **_metric("AWS/Lambda", "Errors", "Sum", _function(name)),
        ),
        **_alarm(
            f"{prefix}ThrottlesAlarm",
            name,
            f"the {name} is throttled",
            threshold=1,
            **_metric("AWS/Lambda", "Throttles", "Sum", _function(name)),
        ),
        **_alarm(
            f"{prefix}DurationAlarm",
            name,
            f"the {name} comes near its time-out",
            threshold=DURATION_PERCENT,
            Metrics=_duration(name),
        ),
    }


def _alarm(
    alarm: str, part: LambdaName | Literal["table", "refusals"], told: str, *, threshold: Value, **metric: Value
) -> Resources:
    topic = when("HasAlarmTopic", [ref("AlarmTopicArn")], [])
    made = resource(
        "CloudWatch::Alarm",
        {
            "AlarmDescription": f"{told}. What to do: {runbook(alarm)}",
            "AlarmActions": topic,
            "OKActions": topic,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "EvaluationPeriods": 1,
            "Threshold": threshold,
            "TreatMissingData": "notBreaching",
            **metric,
        },
        condition=f"Alarms{part.capitalize()}",
    )
    return {alarm: made}


def _metric(namespace: str, name: str, statistic: str, dimension: Resource) -> Resource:
    return {
        "Namespace": namespace,
        "MetricName": name,
        "Statistic": statistic,
        "Dimensions": [dimension],
        "Period": PERIOD_SECONDS,
    }


def _function(name: LambdaName) -> Resource:
    return {"Name": "FunctionName", "Value": ref(FUNCTIONS[name])}


def _duration(name: LambdaName) -> list[Value]:
    """Return the metrics of the longest run, as a percentage of the time-out: a template cannot calculate, a metric
    can.
    """
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
