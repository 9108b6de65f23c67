import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from zae_limiter.maintenance import METRICS_NAMESPACE
from zae_limiter.schema.attributes import TTL
from zae_limiter.schema.table import create_table_request
from zae_limiter.schema.trace import TRACE_PREFIX
from zae_limiter_aggregator.telemetry import METRICS
from zae_limiter_cli.artifacts.builder import LAMBDAS, build_artifact
from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.local.pump.delivery import Attempt, GivenUp, Reply, deliver
from zae_limiter_cli.local.pump.mapping import Mapping as Mapped
from zae_limiter_cli.main import main
from zae_limiter_cli.stack.code import function_name
from zae_limiter_cli.stack.options import StackOptions, in_production
from zae_limiter_cli.stack.template.build import parametrized, plain
from zae_limiter_cli.stack.template.parameters import options_of

pytestmark = pytest.mark.slow

LARGEST_BODY = 51_200  # of a template that is sent without a bucket
ROOM = 900  # for options to come

Template = Mapping[str, Any]

AUDIT_RETENTION = "ZAEL_AUDIT_RETENTION_DAYS"

BUCKET = {"Fn::GetAtt": ["ArchiveBucket", "Arn"]}

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TOPIC = "arn:aws:sns:us-east-1:123456789012:alarms"
BUS = "arn:aws:events:us-east-1:123456789012:event-bus/limits"
ROLE = "arn:aws:iam::123456789012:role/lambda"
PLANNER_ROLE = "arn:aws:iam::123456789012:role/planner"
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"

EVERYTHING = StackOptions(
    tracing=True,
    point_in_time_recovery=True,
    deletion_protection=True,
    app_roles=True,
    architecture="arm64",
    aggregator_concurrency=2,
    provisioner_concurrency=3,
    kms_key_arn=KEY,
    alarm_topic_arn=TOPIC,
    alarm_refusals=500,
    dashboard=True,
    archive_days=400,
    alert_bus_arn=BUS,
    permission_boundary_arn=BOUNDARY,
    trusted_accounts="111122223333,444455556666",
    subnet_ids="subnet-0a1b2c3d,subnet-1a1b2c3d",
    security_group_ids="sg-0a1b2c3d",
    code_bucket="acme-code",
    role_name_format="corp-{}-role",
    policy_name_format="corp-{}-policy",
)
UNKNOWN_TOPIC = replace(
    EVERYTHING, alarm_topic_arn="", archive_lock="compliance", archive_glacier_days=30
)  # the largest
ON_DEMAND = StackOptions(
    max_reads=20_000, max_writes=30_000, warm_reads=12_000, warm_writes=30_000, contributor_insights="throttled"
)
PROVISIONED = StackOptions(
    capacity="provisioned",
    min_reads=500,
    min_writes=1_000,
    min_index_writes=100,
    max_reads=20_000,
    max_writes=40_000,
    target_utilization=80,
    warm_writes=40_000,
    contributor_insights="all",
)
LARGEST = replace(UNKNOWN_TOPIC, **PROVISIONED.chosen(), min_index_reads=100, warm_reads=20_000)
LITTLE = StackOptions(aggregator=False, provisioner=False, alarms=False, policies=False, archive=False)
EXTERNAL = StackOptions(iam=False, policies=False, aggregator_role_arn=ROLE, provisioner_role_arn=ROLE)
PLANNING = EXTERNAL.changed(planner_role_arn=PLANNER_ROLE)
LOCKED = StackOptions(archive_lock="compliance", archive_lock_days=30, archive_glacier_days=10, kms_key_arn=KEY)
CASES = {
    "defaults": StackOptions(),
    "production": StackOptions().changed(**in_production({}), recovery_days=7),
    "everything": EVERYTHING,
    "everything, a topic to come": UNKNOWN_TOPIC,
    "the largest": LARGEST,
    "on demand, within bounds": ON_DEMAND,
    "provisioned": PROVISIONED,
    "locked archive": LOCKED,
    "governed archive": StackOptions(archive_lock="governance"),
    "no archive": StackOptions(archive=False, policies=False),
    "aggregator alone": StackOptions(provisioner=False),
    "provisioner alone": StackOptions(aggregator=False, response_host="localhost:4566"),
    "little": LITTLE,
    "external roles": EXTERNAL,
    "external roles, the planner's too": PLANNING,
}


INSIDE_THE_LARGEST = {"everything", "everything, a topic to come", "provisioned"}  # linted with it


def resources(template: Template, kind: str) -> dict[str, Any]:
    """Logical id and properties of the resources of a type."""
    found = template["Resources"].items()
    return {name: each["Properties"] for name, each in found if each["Type"] == f"AWS::{kind}"}


def inside(value: Any) -> Iterator[Any]:
    """The value, and all that is in it."""
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from inside(part)


def complaints(template: Template, *, everywhere: bool) -> list[str]:
    """What cfn-lint says of it in every region, or in its own, with its own choice of rules: nothing is left out."""
    from cfnlint.api import lint  # slow to import, also where the test is only collected
    from cfnlint.helpers import REGIONS

    regions = REGIONS if everywhere else ["us-east-1"]
    return [f"{each.rule.id} {each.message}" for each in lint(json.dumps(template), regions=regions)]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, id=name, marks=[] if name in {"defaults", "the largest"} else pytest.mark.long)
        for name, options in CASES.items()
        if name not in INSIDE_THE_LARGEST
    ],
)
def test_the_plain_template_is_clean(options: StackOptions) -> None:
    everywhere = options is LOCKED  # the parametrized one has all types of resources, and is checked everywhere, too
    assert complaints(plain("my-app", options), everywhere=everywhere) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(StackOptions(), id="defaults"),
        *(pytest.param(CASES[name], id=name, marks=pytest.mark.long) for name in ("the largest", "locked archive")),
    ],
)
def test_the_parametrized_template_is_clean(options: StackOptions) -> None:
    everywhere = options is LARGEST  # a parameter has the same values in each region, whatever its default
    assert complaints(parametrized(options), everywhere=everywhere) == []


@pytest.mark.long
def test_cfn_lint_finds_what_is_wrong_in_a_template() -> None:
    template = parametrized(StackOptions())
    template["Resources"]["DeadLetters"]["Properties"]["MessageRetentionPeriod"] = 10**9
    found = complaints(template, everywhere=False)
    assert any("MessageRetentionPeriod" in each or "1209600" in each for each in found)


def test_nothing_in_a_template_excuses_a_finding() -> None:
    for options in CASES.values():
        assert "cfn-lint" not in json.dumps([plain("my-app", options), parametrized(options)])


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_all_can_be_sent_without_a_bucket_but_the_largest_that_is_printed(options: StackOptions) -> None:
    sizes = [len(json.dumps(each, separators=(",", ":"))) for each in (plain("x" * 40, options), parametrized(options))]
    assert max(sizes[: 1 if options is LARGEST else 2]) < LARGEST_BODY - ROOM


@pytest.mark.parametrize("args", [[], ["--kms-key-arn", KEY, "--role-name-format", "corp-{}"]], ids=["plain", "more"])
def test_what_is_printed_is_the_template_and_small_enough_for_other_tools_to_send(args: list[str]) -> None:
    done = CliRunner().invoke(main, ["cfn-template", *args])
    assert len(done.stdout.encode()) < 51_200
    assert len(done.stdout.splitlines()) > 100
    chosen = StackOptions(kms_key_arn=KEY, role_name_format="corp-{}") if args else StackOptions()
    assert json.loads(done.stdout) == parametrized(chosen)


@pytest.mark.parametrize("form", ["", "corp-{}", "{}-role", "corp-{}-role"])
def test_a_format_of_names_is_a_prefix_and_a_suffix_to_other_tools(form: str) -> None:
    options = StackOptions(role_name_format=form, policy_name_format=form)
    given = {name: each["Default"] for name, each in parametrized(options)["Parameters"].items()}
    before, _, after = form.partition("{}")
    names = [f"{kind}Name{half}" for kind in ("Role", "Policy") for half in ("Prefix", "Suffix")]
    assert [given.get(name) for name in names] == ([*(before, after) * 2] if form else [None] * 4)
    assert StackOptions.kept(options_of({name: str(value) for name, value in given.items()})) == options


def test_the_table_is_that_of_the_schema() -> None:
    (table,) = resources(plain("my-app", StackOptions()), "DynamoDB::Table").values()
    schema = create_table_request("my-app")
    stream = schema.pop("StreamSpecification")
    assert {name: table[name] for name in schema} == schema
    assert table["StreamSpecification"] == {"StreamViewType": stream["StreamViewType"]}
    assert table["TimeToLiveSpecification"] == {"AttributeName": TTL, "Enabled": True}


@pytest.mark.parametrize("name", LAMBDAS)
def test_the_functions_are_those_that_deploy_uploads_to(name: Any) -> None:
    functions = resources(plain("my-app", StackOptions()), "Lambda::Function").values()
    (function,) = [each for each in functions if each["FunctionName"] == function_name("my-app", name)]
    assert function["Handler"] == build_artifact(name).handler


def test_the_provisioner_is_exported_for_the_stacks_of_limits() -> None:
    template = plain("my-app", StackOptions())
    output = template["Outputs"]["LimitsProvisionerArn"]
    assert output == {
        "Value": {"Fn::GetAtt": ["LimitsProvisionerFunction", "Arn"]},
        "Export": {"Name": "my-app-LimitsProvisionerArn"},
    }
    assert template["Resources"]["LimitsProvisionerFunction"]["Properties"]["FunctionName"] == (
        "my-app-limits-provisioner"
    )


def test_the_stream_is_filtered_retried_bisected_and_ends_in_dead_letters() -> None:
    (mapping,) = resources(plain("my-app", StackOptions()), "Lambda::EventSourceMapping").values()
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["TumblingWindowInSeconds"] == 30  # the usage of a busy stream waits so long
    assert (mapping["MaximumRetryAttempts"], mapping["MaximumRecordAgeInSeconds"]) == (-1, -1)  # until they expire
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["DestinationConfig"] == {"OnFailure": {"Destination": {"Fn::GetAtt": ["DeadLetters", "Arn"]}}}
    patterns = [json.loads(each["Pattern"]) for each in mapping["FilterCriteria"]["Filters"]]
    assert [each["dynamodb"]["Keys"]["SK"]["S"] for each in patterns] == [["#STATE"], [{"prefix": "#AUDIT#"}]]
    assert [each["eventName"] for each in patterns] == [["INSERT", "MODIFY"], ["MODIFY", "REMOVE"]]


def test_a_batch_is_sent_until_an_outage_ends_or_as_often_as_was_chosen() -> None:
    """As `local up` reads the mapping of the template: a day of an outage has some thousand retries."""
    told = {"UUID": "u", "EventSourceArn": "arn:aws:dynamodb:us-east-1:1:table/t/stream/s", "FunctionArn": "f"}
    for options, retries in ((StackOptions(), 10_000), (StackOptions(retry_attempts=3), 3)):
        (made,) = resources(plain("my-app", options), "Lambda::EventSourceMapping").values()
        delivery = deliver([{}], Mapped.from_configuration({**made, **told}).policy)
        step = next(delivery)
        for _ in range(retries):
            step = delivery.send(Reply(failed=True))
        assert isinstance(step, Attempt)
        assert isinstance(delivery.send(Reply(failed=True)), Attempt if options.retry_attempts == -1 else GivenUp)


def test_alarms_say_what_an_operator_must_do() -> None:
    template = plain("my-app", StackOptions(alarm_topic_arn=TOPIC, provisioner_timeout=60))
    alarms = resources(template, "CloudWatch::Alarm")
    urgent = {name for name, made in alarms.items() if made["AlarmDescription"].startswith("Act now: ")}
    later = {name for name, made in alarms.items() if made["AlarmDescription"].startswith("This week: ")}
    assert urgent == {
        f"{each}Alarm" for each in ("TableThrottles", "IndexThrottles", "SystemErrors", "UsageLoss", "DeadLetters")
    }
    assert later == {
        *(
            f"{name}{what}Alarm"
            for name in ("Aggregator", "Provisioner")
            for what in ("Errors", "Throttles", "Duration")
        ),
        *("AggregatorIteratorAgeAlarm", "HotBucketAlarm", "CapacityAlarm", "UncountedAlarm"),
    }
    assert urgent | later == set(alarms)
    assert all(alarm["AlarmActions"] == alarm["OKActions"] == [TOPIC] for alarm in alarms.values())
    percent = alarms["ProvisionerDurationAlarm"]["Metrics"][1]["Expression"]
    assert percent == "longest / (60 * 10)"  # ms in ms of the time-out, times 100
    assert all(
        alarm["AlarmActions"] == []
        for alarm in resources(plain("my-app", StackOptions()), "CloudWatch::Alarm").values()
    )


def watched(alarm: Mapping[str, Any]) -> set[str]:
    """The names of the metrics that an alarm watches."""
    told = json.dumps(alarm)
    return {*re.findall(r'"MetricName": "(\w+)"', told), *re.findall(r"SUM\((\w+)\)", told)}


def test_a_split_and_a_single_error_ring_nothing_and_a_throttled_table_index_or_quota_does() -> None:
    alarms = resources(plain("my-app", StackOptions(write_quota=80_000)), "CloudWatch::Alarm")
    by_metric = {name: watched(made) for name, made in alarms.items()}
    of_keys = [name for name, metrics in by_metric.items() if any("KeyRange" in each for each in metrics)]
    assert of_keys == ["HotBucketAlarm"]
    hot = alarms["HotBucketAlarm"]
    assert hot["EvaluationPeriods"] * hot["Period"] == 1800  # a split takes seconds
    assert by_metric["TableThrottlesAlarm"] == {
        f"{kind}{limit}ThrottleEvents"
        for kind in ("Read", "Write")
        for limit in ("AccountLimit", "MaxOnDemandThroughput")
    }
    assert by_metric["IndexThrottlesAlarm"] == {"ReadThrottleEvents", "WriteThrottleEvents"}
    queries = [each["Expression"]["Fn::Sub"] for each in alarms["IndexThrottlesAlarm"]["Metrics"][:2]]
    schema = 'SCHEMA("AWS/DynamoDB",GlobalSecondaryIndexName,TableName)'
    assert all(f"FROM {schema} WHERE TableName='${{Table}}'" in each for each in queries)
    assert (by_metric["SystemErrorsAlarm"], alarms["SystemErrorsAlarm"]["Threshold"]) == ({"SystemErrors"}, 100)
    for name in ("TableThrottlesAlarm", "IndexThrottlesAlarm", "SystemErrorsAlarm"):
        assert alarms[name]["EvaluationPeriods"] == 5
        *parts, total = alarms[name]["Metrics"]
        assert total["Expression"] == f"SUM([{','.join(each['Id'] for each in parts)}])"
        assert {each.get("Period") or each["MetricStat"]["Period"] for each in parts} == {60}
    capacity = alarms["CapacityAlarm"]
    assert by_metric["CapacityAlarm"] == {"ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"}
    shares = [each["Expression"] for each in capacity["Metrics"] if "Expression" in each]
    assert shares == ["100*read/PERIOD(read)/40000", "100*write/PERIOD(write)/80000", "MAX([r,w])"]
    assert capacity["Threshold"] == 80


def test_table_and_indexes_have_the_same_bounds_warmth_and_insights() -> None:
    (table,) = resources(plain("my-app", ON_DEMAND), "DynamoDB::Table").values()
    for each in (table, *table["GlobalSecondaryIndexes"]):
        assert each["OnDemandThroughput"] == {"MaxReadRequestUnits": 20_000, "MaxWriteRequestUnits": 30_000}
        assert each["WarmThroughput"] == {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 30_000}
        assert each["ContributorInsightsSpecification"] == {"Enabled": True, "Mode": "THROTTLED_KEYS"}
        assert "ProvisionedThroughput" not in each
    (writes,) = resources(plain("my-app", StackOptions(max_writes=9, warm_reads=12_000)), "DynamoDB::Table").values()
    assert writes["OnDemandThroughput"] == {"MaxWriteRequestUnits": 9}
    assert writes["WarmThroughput"] == {"ReadUnitsPerSecond": 12_000}


def test_provisioned_table_and_indexes_are_scaled_and_watched_by_their_maximum() -> None:
    template = plain("my-app", PROVISIONED)
    (table,) = resources(template, "DynamoDB::Table").values()
    assert table["BillingMode"] == "PROVISIONED"
    assert table["ProvisionedThroughput"] == {"ReadCapacityUnits": 500, "WriteCapacityUnits": 1_000}
    indexes = {each["IndexName"]: each for each in table["GlobalSecondaryIndexes"]}
    of_index = {"ReadCapacityUnits": 500, "WriteCapacityUnits": 100}
    assert all(each["ProvisionedThroughput"] == of_index for each in indexes.values())
    assert not any("OnDemandThroughput" in each for each in (table, *indexes.values()))
    targets = resources(template, "ApplicationAutoScaling::ScalableTarget")
    places = {None: "table/${Table}", **{name: f"table/${{Table}}/index/{name}" for name in indexes}}
    units = {(None, "Read"): (500, 20_000), (None, "Write"): (1_000, 40_000)}
    assert {
        (each["ResourceId"]["Fn::Sub"], each["ScalableDimension"], each["MinCapacity"], each["MaxCapacity"])
        for each in targets.values()
    } == {
        (place, f"dynamodb:{'index' if name else 'table'}:{kind}CapacityUnits", *units.get((name, kind), bounds))
        for name, place in places.items()
        for kind, bounds in (("Read", (500, 20_000)), ("Write", (100, 40_000)))
    }
    policies = resources(template, "ApplicationAutoScaling::ScalingPolicy")
    assert {each["ScalingTargetId"]["Ref"] for each in policies.values()} == set(targets)
    tracking = [each["TargetTrackingScalingPolicyConfiguration"] for each in policies.values()]
    assert {each["TargetValue"] for each in tracking} == {80}
    alarms = resources(template, "CloudWatch::Alarm")
    assert "WriteProvisionedThroughputThrottleEvents" in watched(alarms["TableThrottlesAlarm"])
    assert "100*write/PERIOD(write)/40000" in json.dumps(alarms["CapacityAlarm"])
    assert "100*read/PERIOD(read)/20000" in json.dumps(alarms["CapacityAlarm"])


def test_the_age_of_records_rings_twice_before_the_stream_drops_them() -> None:
    alarms = resources(plain("my-app", StackOptions()), "CloudWatch::Alarm")
    hours = {name: made["Threshold"] / 3_600_000 for name, made in alarms.items() if "IteratorAge" in watched(made)}
    assert hours == {"AggregatorIteratorAgeAlarm": 1, "UsageLossAlarm": 12}


def test_refusals_have_an_alarm_from_the_number_that_was_chosen() -> None:
    (alarm,) = [
        made
        for name, made in resources(plain("my-app", StackOptions(alarm_refusals=500)), "CloudWatch::Alarm").items()
        if name == "RefusalsAlarm"
    ]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (500, "GreaterThanOrEqualToThreshold")
    assert alarm["Dimensions"] == [{"Name": "stack", "Value": "my-app"}]


@pytest.mark.parametrize("more", [{}, {"provisioner": False}], ids=["whole", "without the provisioner"])
def test_the_dashboard_shows_metrics_that_there_are_and_every_alarm_that_is_always_there(more: Any) -> None:
    template = plain("my-app", StackOptions(dashboard=True, **more))
    (dashboard,) = resources(template, "CloudWatch::Dashboard").values()
    widgets = json.loads(dashboard["DashboardBody"]["Fn::Sub"])["widgets"]
    shown = set(widgets[0]["properties"]["alarms"])
    alarms = {f"${{{name}.Arn}}" for name in resources(template, "CloudWatch::Alarm")}
    assert shown == {name for name in alarms if not name.startswith("${Provisioner")}
    metrics = [each for widget in widgets[1:] for each in widget["properties"]["metrics"]]
    searched = [each[0]["expression"] for each in metrics if isinstance(each[0], dict)]
    assert all('TableName="my-app"' in each for each in searched)
    assert len(searched) == 5
    metrics = [each for each in metrics if not isinstance(each[0], dict)]
    own = {name for namespace, name, *_ in metrics if namespace == METRICS_NAMESPACE}
    assert own == {"admitted", "refused", "uncounted"} <= {*METRICS}
    functions = {
        each["FunctionName"] for each in resources(plain("my-app", StackOptions()), "Lambda::Function").values()
    }
    assert {value for _, _, dimension, value in metrics if dimension == "FunctionName"} <= functions


def test_the_alarms_on_metrics_of_the_aggregator_name_metrics_that_it_has() -> None:
    made = resources(plain("my-app", StackOptions(alarm_refusals=1)), "CloudWatch::Alarm").values()
    own = {each["MetricName"] for each in made if each.get("Namespace") == METRICS_NAMESPACE}
    assert own == {"refused", "uncounted"} <= {*METRICS}


def test_the_archive_lets_go_of_an_event_and_its_versions_after_the_days_that_were_chosen() -> None:
    chosen = StackOptions(archive_glacier_days=30, archive_days=365)
    (bucket,) = resources(plain("my-app", chosen), "S3::Bucket").values()
    rule, _ = bucket["LifecycleConfiguration"]["Rules"]
    assert (rule["ExpirationInDays"], rule["NoncurrentVersionExpiration"]) == (365, {"NoncurrentDays": 365})


def test_the_archive_is_private_encrypted_moves_to_glacier_and_outlives_its_stack() -> None:
    template = plain("my-app", StackOptions(archive_glacier_days=30))
    assert template["Resources"]["ArchiveBucket"]["DeletionPolicy"] == "RetainExceptOnCreate"
    (bucket,) = resources(template, "S3::Bucket").values()
    assert all(bucket["PublicAccessBlockConfiguration"].values())
    assert "AES256" in list(inside(bucket["BucketEncryption"]))
    rule, _ = bucket["LifecycleConfiguration"]["Rules"]
    assert rule["Transitions"] == [{"StorageClass": "GLACIER", "TransitionInDays": 30}]
    assert bucket["LifecycleConfiguration"]["TransitionDefaultMinimumObjectSize"] == "varies_by_storage_class"
    (kept,) = resources(plain("my-app", StackOptions()), "S3::Bucket").values()
    rule, traces = kept["LifecycleConfiguration"]["Rules"]
    assert rule == {"Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}
    assert (traces["Prefix"], traces["ExpirationInDays"]) == (TRACE_PREFIX, 31)


def test_audit_events_of_the_provisioner_live_as_long_as_was_chosen() -> None:
    for days in (0, 400):
        functions = resources(plain("my-app", StackOptions(audit_retention_days=days)), "Lambda::Function")
        told = {name: each["Environment"]["Variables"].get(AUDIT_RETENTION) for name, each in functions.items()}
        # The planner and the aggregator write no audit events.
        assert told == {
            "LimitsProvisionerFunction": str(days),
            "AggregatorFunction": None,
            "LimitsPlannerFunction": None,
        }


def test_the_archive_keeps_what_is_overwritten_and_locks_it_where_that_is_asked_for() -> None:
    (bucket,) = resources(plain("my-app", StackOptions()), "S3::Bucket").values()
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert not {"ObjectLockEnabled", "ObjectLockConfiguration"} & set(bucket)
    for mode in ("governance", "compliance"):
        (locked,) = resources(
            plain("my-app", StackOptions(archive_lock=mode, archive_lock_days=30)), "S3::Bucket"
        ).values()
        assert locked["ObjectLockEnabled"] is True
        assert locked["ObjectLockConfiguration"] == {
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": mode.upper(), "Days": 30}},
        }


@pytest.mark.parametrize(
    ("policy", "of", "actions", "arns"),
    [
        (
            "ArchivePolicy",
            {"Bucket": {"Ref": "ArchiveBucket"}},
            "s3:*",
            [BUCKET, {"Fn::Sub": "${ArchiveBucket.Arn}/*"}],
        ),
        ("DeadLettersPolicy", {"Queues": [{"Ref": "DeadLetters"}]}, "sqs:*", {"Fn::GetAtt": ["DeadLetters", "Arn"]}),
    ],
)
def test_bucket_and_queue_refuse_every_request_without_tls(policy: str, of: Any, actions: str, arns: Any) -> None:
    template = plain("my-app", StackOptions())["Resources"]
    properties = dict(template[policy]["Properties"])
    assert properties.pop("PolicyDocument")["Statement"] == [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": actions,
            "Resource": arns,
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ]
    assert properties == of
    assert template["ArchivePolicy"]["DeletionPolicy"] == template["ArchiveBucket"]["DeletionPolicy"]


@pytest.mark.parametrize("days", [1, 7, 35])
def test_backups_reach_back_as_many_days_as_were_chosen(days: int) -> None:
    options = StackOptions(point_in_time_recovery=True, recovery_days=days)
    (table,) = resources(plain("my-app", options), "DynamoDB::Table").values()
    assert table["PointInTimeRecoverySpecification"] == {
        "PointInTimeRecoveryEnabled": True,
        "RecoveryPeriodInDays": days,
    }
    (off,) = resources(plain("my-app", StackOptions(recovery_days=days)), "DynamoDB::Table").values()
    assert off["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": False}


def test_options_reach_what_they_are_about() -> None:
    template = plain("my-app", EVERYTHING)
    (table,) = resources(template, "DynamoDB::Table").values()
    assert table["DeletionProtectionEnabled"] is True
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 35}
    assert table["SSESpecification"]["KMSMasterKeyId"] == KEY
    for function in resources(template, "Lambda::Function").values():
        assert function["Architectures"] == ["arm64"]
        assert function["TracingConfig"] == {"Mode": "Active"}
    functions = resources(template, "Lambda::Function")
    reserved = {name: each.get("ReservedConcurrentExecutions") for name, each in functions.items()}
    assert reserved == {"AggregatorFunction": 2, "LimitsProvisionerFunction": 3, "LimitsPlannerFunction": None}
    for role in resources(template, "IAM::Role").values():
        assert role["PermissionsBoundary"] == BOUNDARY
        assert role["RoleName"].startswith("corp-my-app-")
        assert role["RoleName"].endswith("-role")
    for policy in resources(template, "IAM::ManagedPolicy").values():
        assert policy["ManagedPolicyName"].startswith("corp-my-app-")
        assert policy["ManagedPolicyName"].endswith("-policy")


@pytest.mark.parametrize(
    ("option", "form", "longest"),
    [("role_name_format", "x" * 40 + "{}", 64), ("policy_name_format", "x" * 120 + "{}", 128)],
)
def test_a_format_that_makes_names_too_long_is_refused(option: str, form: Any, longest: int) -> None:
    with pytest.raises(
        CommandError, match=rf"^--{option.replace('_', '-')}: 'x.*' has \d+ characters, .* {longest} at most"
    ):
        plain("a-stack-with-a-long-name", StackOptions(**{option: form}))


def test_without_lambdas_there_is_the_table_and_nothing_else() -> None:
    assert set(plain("my-app", LITTLE)["Resources"]) == {"Table"}


def test_without_iam_the_lambdas_have_the_roles_they_were_given() -> None:
    template = plain("my-app", EXTERNAL)
    assert not [each for each in template["Resources"].values() if each["Type"].startswith("AWS::IAM::")]
    assert [each["Role"] for each in resources(template, "Lambda::Function").values()] == [ROLE, ROLE]


def test_without_iam_there_is_a_planner_where_there_is_a_role_for_it() -> None:
    functions = resources(plain("my-app", PLANNING), "Lambda::Function")
    assert functions["LimitsPlannerFunction"]["Role"] == PLANNER_ROLE
    assert "LimitsPlannerFunction" not in plain("my-app", EXTERNAL)["Resources"]
    assert (PLANNING.planner, EXTERNAL.planner, LITTLE.planner) == (True, False, False)


def test_the_planner_is_as_large_as_the_provisioner() -> None:
    template = plain("my-app", StackOptions(provisioner_memory=1024, provisioner_timeout=600))
    functions = resources(template, "Lambda::Function")
    sizes = [
        (functions[f"Limits{name}Function"]["MemorySize"], functions[f"Limits{name}Function"]["Timeout"])
        for name in ("Planner", "Provisioner")
    ]
    assert sizes == [(1024, 600), (1024, 600)]


switches = {
    name: st.booleans()
    for name in (
        *("aggregator", "provisioner", "tracing", "alarms", "archive", "policies", "app_roles", "iam"),
        *("point_in_time_recovery", "deletion_protection", "dashboard"),
    )
}
numbers = {
    "aggregator_concurrency": st.integers(0, 2),
    "archive_glacier_days": st.integers(0, 2),
    "archive_days": st.sampled_from([0, 3]),
    "alarm_refusals": st.integers(0, 2),
    **{name: st.sampled_from([0, 100]) for name in ("min_index_reads", "min_index_writes")},
    **{name: st.sampled_from([0, 30_000]) for name in ("max_reads", "max_writes", "warm_reads", "warm_writes")},
}
texts = {
    "archive_lock": st.sampled_from(["off", "governance", "compliance"]),
    "capacity": st.sampled_from(["on-demand", "provisioned"]),
    "contributor_insights": st.sampled_from(["off", "throttled", "all"]),
    "response_host": st.sampled_from(["", "localhost:4566"]),
    "kms_key_arn": st.sampled_from(["", KEY]),
    "alarm_topic_arn": st.sampled_from(["", TOPIC]),
    "alert_bus_arn": st.sampled_from(["", BUS]),
    "aggregator_role_arn": st.sampled_from(["", ROLE]),
    "provisioner_role_arn": st.sampled_from(["", ROLE]),
    "planner_role_arn": st.sampled_from(["", PLANNER_ROLE]),
    "permission_boundary_arn": st.sampled_from(["", BOUNDARY]),
    "role_name_format": st.sampled_from(["", "corp-{}"]),
}


def allowed(chosen: dict[str, Any]) -> StackOptions:
    """These options, mended where they do not go together."""
    if chosen["capacity"] == "provisioned":
        chosen |= {"min_reads": 5, "min_writes": 5, "max_reads": 30_000, "max_writes": 30_000}
    if not chosen["iam"]:
        chosen |= {"aggregator_role_arn": ROLE, "provisioner_role_arn": ROLE}
    return StackOptions(**{**chosen, "app_roles": chosen["app_roles"] and chosen["iam"] and chosen["policies"]})


options = st.fixed_dictionaries({**switches, **numbers, **texts}).map(allowed)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("render", [partial(plain, "my-app"), parametrized], ids=["plain", "parametrized"])
@settings(deadline=None)
@given(chosen=options)
def test_whatever_is_chosen_nothing_refers_to_what_is_not_there(
    render: Callable[[StackOptions], Template], chosen: StackOptions
) -> None:
    template = render(chosen)
    there = {*template["Resources"], *template.get("Parameters", {}), "AWS::NoValue", "AWS::StackName"}
    for value in inside({"Resources": template["Resources"], "Outputs": template["Outputs"]}):
        match value:
            case {"Ref": str(name)}:
                assert name in there
            case {"Fn::GetAtt": [str(name), _]}:
                assert name in there
            case {"Fn::Sub": str(text)}:
                names = [part.split("}")[0].split(".")[0] for part in text.split("${")[1:]]
                assert all(name in there or name.startswith("AWS::") for name in names)


@settings(deadline=None)
@given(options)
def test_whatever_is_chosen_no_condition_and_no_parameter_is_left(chosen: StackOptions) -> None:
    template = plain("my-app", chosen)
    assert not {"Parameters", "Conditions"} & set(template)
    for value in inside(template):
        assert not (isinstance(value, dict) and {"Fn::If", "Condition"} & set(value) and "Effect" not in value)


@settings(deadline=None)
@given(options)
def test_a_printed_template_has_the_parameters_that_it_uses_and_one_condition(chosen: StackOptions) -> None:
    template = parametrized(chosen)
    told = json.dumps({**template, "Parameters": {}})
    assert all(f'{{"Ref": "{name}"}}' in told or f"${{{name}}}" in told for name in template.get("Parameters", {}))
    unknown = chosen.alarms and not chosen.alarm_topic_arn
    assert set(template.get("Conditions", {})) == ({"HasAlarmTopic"} if unknown else set())


def test_a_parameter_cannot_switch_off_what_the_template_was_printed_with() -> None:
    given = parametrized(StackOptions(kms_key_arn=KEY, archive_days=400))["Parameters"]
    assert re.fullmatch(given["KmsKeyArn"]["AllowedPattern"], KEY)
    assert not re.fullmatch(given["KmsKeyArn"]["AllowedPattern"], "")
    assert (given["ArchiveDays"]["MinValue"], given["RefillAfterSeconds"]["MinValue"]) == (1, 0)
    assert re.fullmatch(given["AlarmTopicArn"]["AllowedPattern"], "")


@pytest.mark.long
@settings(deadline=None)
@given(options)
def test_the_options_of_a_stack_can_be_read_from_its_template(chosen: StackOptions) -> None:
    for template in (plain("my-app", chosen), parametrized(chosen)):
        assert StackOptions.kept(template["Metadata"]["ZaeLimiter"]["Options"]) == chosen
