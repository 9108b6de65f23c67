"""Alarms, by what an operator must do: act now, or act this week. What needs neither is on the dashboard alone.

Act now: callers fail, or records or evidence are lost within a day. This week: the stack works, and will not for ever.
A bucket is throttled for seconds until it has split, and the service answers 500 now and then: the client mends both,
so no alarm knows of them. The planner has none: its caller gets the error.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from zae_limiter.maintenance import METRICS_NAMESPACE

from ...artifacts.builder import LambdaName
from ...pages import RUNBOOKS
from .functions import FUNCTIONS
from .language import Resource, Resources, Value, attribute, ref, resource, text, when

NOW: Final = "Act now"
WEEK: Final = "This week"

DURATION_PERCENT: Final = 80  # of the time-out
CAPACITY_PERCENT: Final = 80  # of what the table may take
LATE_MS: Final = 3_600_000
NEARLY_LOST_MS: Final = 12 * 3_600_000  # the stream drops a record at twice that age
HOT_BUCKET: Final = 300  # throttled writes of a key in five minutes: one a second
SYSTEM_ERRORS: Final = 100  # in a minute: the client mends fewer
PERIOD_SECONDS: Final = 300
MINUTES: Final = 5  # in each of which a limit throttles: a short peak ends before
KINDS: Final = ("Read", "Write")
STACK: Final[Resource] = {"Name": "stack", "Value": ref("AWS::StackName")}  # the dimension of the aggregator's metrics
TABLE: Final[Resource] = {"Name": "TableName", "Value": ref("Table")}

Part = LambdaName | Literal["table", "refusals"]


def alarms() -> Resources:
    """Return all alarms. An alarm without data is OK."""
    return {
        **_of_table(),
        **_of_stream(),
        **_of_function("aggregator", periods=3),  # the stream waits meanwhile
        **_of_function("provisioner", periods=1),
        **_alarm(
            "UncountedAlarm",
            "aggregator",
            f"{WEEK}: calls were let through in an outage, uncounted",
            threshold=1,
            **_metric(METRICS_NAMESPACE, "uncounted", "Sum", STACK),
        ),
        **_alarm(
            "RefusalsAlarm",
            "refusals",
            f"{WEEK}: many acquires are refused",
            threshold=ref("AlarmRefusals"),
            **_metric(METRICS_NAMESPACE, "refused", "Sum", STACK),
        ),
    }


def runbook(alarm: str) -> str:
    """Return the address of the page that says what to do about an alarm of this logical id."""
    words = "".join(f"-{each.lower()}" if each.isupper() else each for each in alarm.removesuffix("Alarm"))
    return f"{RUNBOOKS}/{words.removeprefix('-')}.md"


def metrics_of(alarm: Mapping[str, Any]) -> int:
    """Return how many metrics CloudWatch bills an alarm for, by its properties; a query counts one for each metric that
    it finds, here one.
    """
    return sum("MetricStat" in each or "Period" in each for each in alarm.get("Metrics", ())) or 1


def _of_table() -> Resources:
    return {
        **_alarm(
            "TableThrottlesAlarm",
            "table",
            f"{NOW}: a limit of the table throttles requests",
            threshold=1,
            periods=MINUTES,
            Metrics=_sum(
                _hidden(name, f"{kind.lower()}{number}", TABLE, period=60)
                for kind in KINDS
                for number, name in enumerate(_throttles(kind))
            ),
        ),
        **_alarm(
            "IndexThrottlesAlarm",
            "table",
            f"{NOW}: an index is throttled",
            threshold=1,
            periods=MINUTES,
            Metrics=_sum(_query(f"{kind}ThrottleEvents", "GlobalSecondaryIndexName", kind.lower()) for kind in KINDS),
        ),
        **_alarm(
            "SystemErrorsAlarm",
            "table",
            f"{NOW}: DynamoDB answers with errors of its own",
            threshold=SYSTEM_ERRORS,
            periods=MINUTES,
            Metrics=_sum([_query("SystemErrors", "Operation", "errors")]),
        ),
        **_alarm(
            "HotBucketAlarm",
            "table",
            f"{WEEK}: one key is throttled, and its bucket does not split",
            threshold=HOT_BUCKET,
            periods=6,
            **_metric("AWS/DynamoDB", "WriteKeyRangeThroughputThrottleEvents", "Sum", TABLE),
        ),
        **_alarm(
            "CapacityAlarm",
            "table",
            f"{WEEK}: the table comes near its limit",
            threshold=CAPACITY_PERCENT,
            periods=3,
            Metrics=_used(),
        ),
    }


def _throttles(kind: str) -> tuple[Value, Value]:
    """Return the metrics of what a limit of the whole table throttles: a quota, or its maximum."""
    account, provisioned, on_demand = (
        f"{kind}{limit}ThrottleEvents" for limit in ("AccountLimit", "ProvisionedThroughput", "MaxOnDemandThroughput")
    )
    return account, when("IsProvisioned", provisioned, on_demand)


def _of_stream() -> Resources:
    age = _metric("AWS/Lambda", "IteratorAge", "Maximum", _function("aggregator"))
    letters = {"Name": "QueueName", "Value": attribute("DeadLetters", "QueueName")}
    return {
        **_alarm(
            "UsageLossAlarm",
            "aggregator",
            f"{NOW}: the stream will drop uncounted records",
            threshold=NEARLY_LOST_MS,
            **age,
        ),
        **_alarm(
            "AggregatorIteratorAgeAlarm",
            "aggregator",
            f"{WEEK}: records of the stream wait for the aggregator",
            threshold=LATE_MS,
            **age,
        ),
        **_alarm(
            "DeadLettersAlarm",
            "aggregator",
            f"{NOW}: records of the stream could not be processed, perhaps because somebody changed an audit event",
            threshold=1,
            **_metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum", letters),
        ),
    }


def _of_function(name: LambdaName, *, periods: int) -> Resources:
    prefix = name.capitalize()
    return {
        **_alarm(
            f"{prefix}ErrorsAlarm",
            name,
            f"{WEEK}: the {name} fails",
            threshold=1,
            periods=periods,
            **_metric("AWS/Lambda", "Errors", "Sum", _function(name)),
        ),
        **_alarm(
            f"{prefix}ThrottlesAlarm",
            name,
            f"{WEEK}: the {name} is throttled",
            threshold=1,
            periods=periods,
            **_metric("AWS/Lambda", "Throttles", "Sum", _function(name)),
        ),
        **_alarm(
            f"{prefix}DurationAlarm",
            name,
            f"{WEEK}: the {name} comes near its time-out",
            threshold=DURATION_PERCENT,
            periods=periods,
            Metrics=_duration(name),
        ),
    }


def _alarm(alarm: str, part: Part, told: str, *, threshold: Value, periods: int = 1, **metric: Value) -> Resources:
    topic = when("HasAlarmTopic", [ref("AlarmTopicArn")], [])
    made = resource(
        "CloudWatch::Alarm",
        {
            "AlarmDescription": f"{told}. What to do: {runbook(alarm)}",
            "AlarmActions": topic,
            "OKActions": topic,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "EvaluationPeriods": periods,
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


def _hidden(name: Value, id_: str, dimension: Resource, *, period: int = PERIOD_SECONDS, stat: str = "Sum") -> Resource:
    """Return a metric for an expression; a template cannot calculate, a metric can."""
    namespace = "AWS/DynamoDB" if dimension is TABLE else "AWS/Lambda"
    metric = {"Namespace": namespace, "MetricName": name, "Dimensions": [dimension]}
    return {"Id": id_, "MetricStat": {"Metric": metric, "Period": period, "Stat": stat}, "ReturnData": False}


def _query(name: str, dimension: str, id_: str) -> Resource:
    """Return the sum over all values that a dimension beside the table's name has, such as all indexes."""
    asked = f"""SELECT SUM({name}) FROM SCHEMA("AWS/DynamoDB",{dimension},TableName) WHERE TableName='${{Table}}'"""
    return {"Id": id_, "Expression": text(asked), "Period": 60, "ReturnData": False}


def _sum(metrics: Iterable[Resource]) -> list[Value]:
    """Return metrics with their sum, in which one without data counts nothing; in ``a + b`` it would take all away."""
    parts = [*metrics]
    return [*parts, {"Id": "all", "Expression": f"SUM([{','.join(each['Id'] for each in parts)}])"}]


def _used() -> list[Value]:
    """Return reads and writes in percent of what the table may take; the larger one counts."""
    shares = {kind.lower()[0]: _share(kind) for kind in KINDS}
    return [
        *(_hidden(f"Consumed{kind}CapacityUnits", kind.lower(), TABLE) for kind in KINDS),
        *({"Id": name, "Expression": share, "ReturnData": False} for name, share in shares.items()),
        {"Id": "percent", "Expression": f"MAX([{','.join(shares)}])", "Label": "% of its limit"},
    ]


def _share(kind: str) -> Value:
    used = f"100*{kind.lower()}/PERIOD({kind.lower()})/"
    return when(f"Caps{kind}s", text(f"{used}${{Max{kind}s}}"), text(f"{used}${{{kind}Quota}}"))


def _function(name: LambdaName) -> Resource:
    return {"Name": "FunctionName", "Value": ref(FUNCTIONS[name])}


def _duration(name: LambdaName) -> list[Value]:
    """Return the metrics of the longest run, as a percentage of the time-out."""
    return [
        _hidden("Duration", "longest", _function(name), stat="Maximum"),
        {
            "Id": "percent",
            "Expression": text(f"longest / (${{{name.capitalize()}Timeout}} * 10)"),
            "Label": "% of the time-out",
        },
    ]
