import json
import re
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, NoReturn

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import (
    Consumption,
    SnapshotId,
    SyncMaintenance,
    Use,
    VersionRecord,
    count_usage,
    stream_mark,
)
from zae_limiter.schema.table import create_table_request
from zae_limiter.values.versions import SCHEMA_VERSION
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.live.health import Health
from zae_limiter_cli.main import main
from zae_limiter_cli.pages import RUNBOOKS
from zae_limiter_cli.stack import status as status_of_stacks
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.build import plain

pytestmark = pytest.mark.slow


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def deploy(*args: str) -> None:
    done = run("deploy", "--yes", "-n", "my-app", "-q", *args)
    assert done.exit_code == 0, done.output


def status() -> tuple[int, dict[str, Any]]:
    """The exit code, and each part by its name."""
    done = run("status", "-n", "my-app", "--output", "json")
    return done.exit_code, {each["part"]: each for each in json.loads(done.stdout)["parts"]}


def bad(parts: dict[str, Any]) -> dict[str, str]:
    return {name: each["message"] for name, each in parts.items() if each["ok"] is False}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            StackOptions(),
            "audit events 90 days, then archived for ever; usage of hours 90 days, days 730 days; the last 50 applies",
        ),
        (
            StackOptions(archive=False, audit_retention_days=1, usage_hourly_days=0),
            "audit events 1 day; usage of hours for ever, days 730 days; the last 50 applies",
        ),
    ],
    ids=["defaults", "no archive"],
)
def test_what_is_kept_is_told_with_how_long(options: StackOptions, told: str) -> None:
    assert status_of_stacks.check_retention(options).message == told


def test_a_fresh_stack_is_well_in_every_part(aws: str) -> None:
    deploy()
    code, parts = status()
    assert (code, bad(parts)) == (0, {})
    assert list(parts) == [
        *(
            "stack",
            "table",
            "throughput",
            "aggregator",
            "provisioner",
            "planner",
            "stream",
            "dead letters",
            "alarms",
            "retention",
            "version",
            "latency",
        )
    ]
    assert parts["provisioner"]["version"] == version("zae-limiter-provisioner")
    assert parts["table"]["indexes"] == {"GSI1": "ACTIVE", "GSI2": "ACTIVE", "GSI3": "ACTIVE", "GSI4": "ACTIVE"}
    assert parts["latency"]["median_ms"] > 0


def test_alarms_that_ring_are_told_and_those_of_another_stack_are_not(aws: str) -> None:
    deploy()
    cloudwatch = boto3.client("cloudwatch")
    for name in ("my-app-2-TableThrottlesAlarm-OTHER", "my-app-TableThrottlesAlarm-ABC"):
        cloudwatch.put_metric_alarm(
            AlarmName=name,
            MetricName="WriteThrottleEvents",
            Namespace="AWS/DynamoDB",
            Statistic="Sum",
            Period=300,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="GreaterThanOrEqualToThreshold",
        )
        cloudwatch.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="test")
    code, parts = status()
    ringing = f"ringing: my-app-TableThrottlesAlarm-ABC: see {RUNBOOKS}"
    assert (code, bad(parts)) == (1, {"alarms": ringing})


def test_whoever_may_not_see_alarms_is_told_which_right_is_missing(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy()

    def denied(*_: object) -> NoReturn:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DescribeAlarms")

    monkeypatch.setattr(status_of_stacks, "alarms_of", denied)
    code, parts = status()
    assert (code, parts["alarms"]["ok"]) == (0, None)
    assert "cloudwatch:DescribeAlarms" in parts["alarms"]["message"]


def test_people_see_a_line_for_each_part(aws: str) -> None:
    deploy("--no-provisioner")
    done = run("status", "-n", "my-app")
    assert done.exit_code == 0
    words = [line.split()[:2] for line in done.stdout.splitlines()]
    assert ["ok", "table"] in words
    assert ["-", "provisioner"] in words
    assert ["-", "planner"] in words


def test_a_stack_that_is_not_there_is_told_with_the_way_to_make_it(aws: str) -> None:
    code, parts = status()
    assert (code, bad(parts)) == (1, {"stack": "there is none: `zae-limiter deploy --name my-app` creates it"})


def test_what_deploy_has_not_done_yet_is_told(aws: str) -> None:
    deploy("--no-wait")
    code, parts = status()
    assert code == 1
    way = "it has no code: `zae-limiter deploy --name my-app` uploads it"
    assert bad(parts) == {
        "version": "the table has no version record: `zae-limiter deploy --name my-app` writes it",
        "aggregator": way,
        "provisioner": way,
        "planner": way,
    }


def test_parts_that_were_taken_away_are_told(aws: str) -> None:
    deploy()
    client = boto3.client("lambda")
    (mapping,) = client.list_event_source_mappings()["EventSourceMappings"]
    client.delete_event_source_mapping(UUID=mapping["UUID"])
    client.delete_function(FunctionName="my-app-limits-provisioner")
    code, parts = status()
    assert code == 1
    assert bad(parts) == {
        "provisioner": "there is no Lambda my-app-limits-provisioner",
        "stream": "no event source mapping feeds my-app-aggregator",
    }


@pytest.mark.parametrize("stream", ["another", "none"])
def test_a_stream_that_the_table_no_longer_has_is_told(aws: str, stream: str) -> None:
    deploy()
    table = boto3.client("dynamodb")
    table.delete_table(TableName="my-app")
    request = create_table_request("my-app")
    if stream == "none":  # as a restored table
        del request["StreamSpecification"]
    table.create_table(**request)
    told = "my-app-aggregator reads a stream that table my-app does not have"
    assert bad(status()[1])["stream"] == told


def make_another_stack(name: str) -> None:
    template = '{"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}}'
    boto3.client("cloudformation").create_stack(StackName=name, TemplateBody=template)


def test_a_stack_of_something_else_has_nothing_that_is_well(aws: str) -> None:
    make_another_stack("my-app")
    code, parts = status()
    assert code == 1
    assert bad(parts) == {
        "table": "there is no table my-app",
        "version": "the table has no version record: `zae-limiter deploy --name my-app` writes it",
        "aggregator": "there is no Lambda my-app-aggregator",
        "provisioner": "there is no Lambda my-app-limits-provisioner",
        "planner": "there is no Lambda my-app-limits-planner",
        "stream": "no event source mapping feeds my-app-aggregator",
        "dead letters": "the stack has no dead-letter queue",
        "latency": "the table does not answer a read",
    }


def test_dead_letters_are_told(aws: str) -> None:
    deploy()
    (queue,) = boto3.client("sqs").list_queues()["QueueUrls"]
    boto3.client("sqs").send_message(QueueUrl=queue, MessageBody="{}")
    code, parts = status()
    assert (code, bad(parts)) == (1, {"dead letters": "1 batches that the aggregator could not process"})


def test_a_queue_that_was_deleted_by_hand_fails_alone(aws: str) -> None:
    deploy()
    (queue,) = boto3.client("sqs").list_queues()["QueueUrls"]
    boto3.client("sqs").delete_queue(QueueUrl=queue)
    code, parts = status()
    assert (code, bad(parts)) == (1, {"dead letters": "the dead-letter queue is gone"})
    assert len(parts) == 12


def test_a_part_that_one_may_not_ask_about_fails_alone(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy()
    send = BaseClient._make_api_call

    def ask(client: Any, name: str, request: Any) -> Any:
        if name == "DescribeTable":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no right to it"}}, name)
        return send(client, name, request)

    monkeypatch.setattr(BaseClient, "_make_api_call", ask)
    code, parts = status()
    told = "An error occurred (AccessDenied) when calling the DescribeTable operation: no right to it"
    assert (code, bad(parts)) == (1, {"table": told})
    assert len(parts) == 12


@pytest.mark.long
def test_parameters_that_only_cloudformation_takes_fail_alone(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy()

    def refuse(*_: object) -> NoReturn:
        raise CommandError("--usage-hourly-days 1: must be 0 for ever, or 2 or more")

    monkeypatch.setattr(status_of_stacks, "earlier_options", refuse)
    code, parts = status()
    assert (code, bad(parts)) == (1, {"options": "--usage-hourly-days 1: must be 0 for ever, or 2 or more"})
    assert len(parts) == 12


def test_a_list_has_the_stacks_of_deploy_and_no_others(aws: str) -> None:
    assert run("list").stdout == "No stacks in this region.\n"
    deploy()
    make_another_stack("another")
    assert [each["name"] for each in opened(run("list", "--output", "json").stdout)] == ["my-app"]
    assert run("list").stdout.splitlines()[1].split()[:2] == ["my-app", "CREATE_COMPLETE"]


def deploy_as_before_there_was_a_planner() -> None:
    """A stack of a release that had none, with the code of its Lambdas."""
    template = plain("my-app", StackOptions())
    for section in ("Resources", "Outputs"):
        template[section] = {name: part for name, part in template[section].items() if "Planner" not in name}
    invoke = template["Resources"]["InvokeProvisionerPolicy"]["Properties"]["PolicyDocument"]["Statement"][0]
    invoke["Resource"] = invoke["Resource"][0]
    boto3.client("cloudformation").create_stack(
        StackName="my-app", TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_NAMED_IAM"]
    )


@pytest.mark.long
def test_an_older_stack_gets_its_planner_by_an_upgrade(aws: str) -> None:
    deploy_as_before_there_was_a_planner()
    told = run("upgrade", "--yes", "-n", "my-app", "--code-only", "-q")
    assert (told.exit_code, "there is no Lambda my-app-limits-planner: run `zae-limiter deploy" in told.stderr) == (
        1,
        True,
    )
    _, parts = status()
    assert (parts["planner"]["ok"], parts["planner"]["message"]) == (
        None,
        "not there yet: `zae-limiter upgrade --name my-app` adds it",
    )
    assert {parts[name]["message"][:14] for name in ("aggregator", "provisioner")} == {"it has no code"}
    code, found = check()
    assert (code, {"part": "planner", "stack": "-", "here": "0.1.0"} in found["parts"]) == (1, True)
    assert run("upgrade", "--yes", "-n", "my-app", "-q").exit_code == 0
    code, parts = status()
    assert (code, parts["planner"]["version"]) == (0, "0.1.0")


def check() -> tuple[int, Any]:
    """The exit code, and how the stack fits."""
    done = run("status", "-n", "my-app", "--output", "json")
    return done.exit_code, json.loads(done.stdout)["versions"]


def test_a_stack_of_this_release_fits(aws: str) -> None:
    deploy()
    code, found = check()
    assert (code, found["fits"], found["advice"]) == (0, True, "Stack and release match.")
    assert run("status", "-n", "my-app").stdout.splitlines()[-1] == "Stack and release match."


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(
    ("record", "advice"),
    [
        (VersionRecord(0, "0.0.9", "0.0.1"), "upgrade it with `zae-limiter upgrade --name my-app`"),
        (VersionRecord(1, "0.0.9", "0.1.0"), "`zae-limiter upgrade --name my-app` upgrades it"),
        (VersionRecord(1, "99.0.0", "0.1.0"), "upgrade the package"),
        (VersionRecord(9, "99.0.0", "99.0.0"), "needs zae-limiter-core 99.0.0 or newer"),
    ],
    ids=["too old", "older", "newer", "too new"],
)
def test_a_stack_of_another_release_is_told_with_what_to_upgrade(record: VersionRecord, advice: str, aws: str) -> None:
    deploy()
    with SyncRepository.open("default", stack="my-app") as repository:
        SyncMaintenance(repository).set_version_record(record)
    code, found = check()
    assert (code, found["fits"]) == (2, False)
    assert advice in found["advice"]


def test_version_tells_what_is_installed_and_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    shown = dict(line.split() for line in run("--version").stdout.splitlines())
    assert (shown["schema"], shown["zae-limiter-core"]) == (str(SCHEMA_VERSION), version("zae-limiter-core"))


def count(seconds_ago: int | None, *, waiting: int = 0) -> None:
    """Have the table say that usage was counted up to so long ago, or to the whole minute; then so many acquires."""
    with SyncRateLimiter(SyncRepository.open(stack="my-app", read_timeout=30)) as limiter:
        limiter.set_system_defaults([Limit.per_minute("rpm", 100)])

        def take() -> None:
            with limiter.acquire("key", "gpt-4", {"rpm": 1}):
                pass

        take()
        now = limiter.repository.namespace_state.now()
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        place = SnapshotId(limiter.repository.namespace_id, "key", "gpt-4", "hourly", hour)
        until = now - now % 60_000 if seconds_ago is None else now - 1000 * seconds_ago
        use = Use(stream_mark("label", "1"), Consumption({"rpm": 1}, {"ev": 1}), until, 1)
        limiter.repository.driver.run(count_usage(place, 0, [use], expires_at=None, now_ms=until + 1000))
        for _ in range(waiting):
            take()


def test_a_stream_that_is_not_read_is_not_said_to_be_counted(aws: str) -> None:
    deploy()
    count(60)
    functions = boto3.client("lambda")
    (mapping,) = functions.list_event_source_mappings(FunctionName="my-app-aggregator")["EventSourceMappings"]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    stream = status()[1]["stream"]
    assert stream["ok"] is False
    assert stream["message"].startswith("Disabled, usage counted up to ")
    assert ", later calls are in no figure, last batch " in stream["message"]


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(
    ("seconds_ago", "waiting", "told", "ok"),
    [
        (7200, 0, r"not behind, last batch (1 h 59 min|2 h) ago", True),
        (5, 2, r"behind by \d+ s, last batch \d+ s ago", True),
        (None, 1, "current to the minute, as exact as this stream's times, last batch .+ ago", True),
        (900, 1, r"behind by 15 min( \d+ s)?, last batch 1\d min( \d+ s)? ago", False),
    ],
)
def test_the_stream_says_how_far_it_has_counted(
    aws: str, seconds_ago: int | None, waiting: int, told: str, *, ok: bool
) -> None:
    """Up to an instant, or to the whole minute."""
    deploy()
    assert "nothing counted yet" in status()[1]["stream"]["message"]
    count(seconds_ago, waiting=waiting)
    seconds_ago = seconds_ago or 0
    stream = status()[1]["stream"]
    assert re.search(rf"Enabled, usage counted up to 20[-\d]+ [\d:]+ UTC, {told}$", stream["message"])
    assert "No records processed" not in stream["message"]
    assert (stream["ok"], stream["acquires_waiting"]) == (ok, waiting)
    assert stream["behind_seconds"] >= (seconds_ago if waiting else 0)
    line = Health(Connection("my-app")).line()
    assert "usage counted up to" in line, "for `top` and the console"
