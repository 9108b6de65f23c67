"""Check the parts of a stack: what `status` checks, and beside it the versions of the code, alarms and sizes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Final

from ..artifacts.builder import LAMBDAS, LambdaName, distribution_name
from ..columns import counted
from ..connection import Connection
from ..errors import CommandError
from ..pages import DOCS, RUNBOOKS
from ..stack import cloudformation, record, status
from ..stack.cloudformation import Stack
from ..stack.deploy import earlier_options, lambdas_of
from ..stack.events import way_out
from ..stack.replicas import WHY as REPLICATED
from .caller import client
from .findings import Checks, Finding, State, to_paste

ITEM_LIMIT: Final = 400 * 1024  # bytes, of DynamoDB
ONE_WRITE: Final = 1024
SIZE_WARNS: Final = 0.5
SIZE_FAILS: Final = 0.9
SAMPLE: Final = 1000
QUOTA_WARNS: Final = 80  # percent: a raise takes days, and a busy minute is above the average

TOPIC: Final = "with the ARN of a topic of SNS with a subscriber"
SCAN: Final = "allow dynamodb:Scan, which reads a sample of the items"


def check_stack(connection: Connection, checks: Checks) -> Iterator[Finding]:
    """Yield what there is to say about each part of the stack."""
    found: list[Stack | None] = []
    foreign: list[str] = []

    def stack() -> Finding:
        found.append(cloudformation.find(client(connection, "cloudformation"), connection.name))
        if told := record.another_products(connection):
            foreign.append(told)
            return Finding("stack", "fail", told, "leave it to that product, and choose another --name for this one")
        if found[0] is None:
            where = f"there is none of this name in {connection.session.region_name}"
            there_are = to_paste(connection, "zae-limiter list")
            way = "check --name and --region by the list of stacks, or deploy it"
            return Finding("stack", "fail", where, way, commands=(there_are, _deploy(connection)))
        way, command = way_out(found[0])
        return _of_status(status.check_stack(found[0]), way, *([to_paste(connection, command)] if command else []))

    yield checks.make("stack", stack, fix="allow cloudformation:DescribeStacks")
    if foreign:
        return
    if found == [None]:
        yield from _without_stack(connection, checks)
        return
    described = found[0] if found else None
    yield checks.make("table", lambda: _table(connection), fix="allow dynamodb:DescribeTable")
    yield checks.make("throughput", lambda: _throughput(connection), fix="allow dynamodb:DescribeTable")
    on = _lambdas(connection, described)
    for name in LAMBDAS:
        yield checks.make(name, partial(_lambda, connection, name, on), fix="allow lambda:GetFunction")
    yield checks.make(
        "stream",
        lambda: _with_aggregator("stream", on, lambda: _stream(connection)),
        fix="allow lambda:ListEventSourceMappings",
    )
    yield checks.make(
        "dead letters", lambda: _dead_letters(connection, described, on), fix="allow sqs:GetQueueAttributes"
    )
    yield checks.make("version", lambda: _version(connection), fix="attach ReadPolicy of the stack")
    yield checks.make("alarms", lambda: _alarms(connection), fix="allow cloudwatch:DescribeAlarms")
    yield checks.make("sizes", lambda: _sizes(connection), fix=SCAN)


def _without_stack(connection: Connection, checks: Checks) -> Iterator[Finding]:
    """Yield what there is to say about a table that the library may have made by itself."""
    table = checks.make("table", partial(_table, connection), fix="allow dynamodb:DescribeTable")
    yield table
    for part in (*LAMBDAS, "stream", "dead letters", "alarms"):
        yield Finding(part, "n/a", "there is no stack")
    if table.state == "ok":
        yield checks.make("throughput", partial(_throughput, connection))
        yield checks.make("version", partial(_version, connection), fix="attach a policy that reads the table")
        yield checks.make("sizes", partial(_sizes, connection), fix=SCAN)


def _of_status(check: status.Check, fix: str = "", *commands: str) -> Finding:
    if check.ok is not False:
        return Finding(check.part, "n/a" if check.ok is None else "ok", check.message, details=check.details)
    return Finding(check.part, "fail", check.message, fix, check.details, commands)


def _deploy(connection: Connection, *words: str) -> str:
    return to_paste(connection, "zae-limiter deploy", "--name", connection.name, *words)


def _table(connection: Connection) -> Finding:
    check = status.check_table(connection)
    if "replicas" in check.details:
        return _of_status(check, REPLICATED)
    return _of_status(check, "deploy the stack, which creates the table", _deploy(connection))


def _throughput(connection: Connection) -> Finding:
    """Return how near the table is to the lowest of its limits."""
    check = status.check_throughput(connection)
    if max((each["percent"] or 0 for each in check.details.values()), default=0) >= QUOTA_WARNS:
        way = f"raise what limits it, or write less ({DOCS}/operate/quota.md)"
        return Finding("throughput", "warn", check.message, way, check.details)
    if any(each["throttled"] for each in check.details.values()):
        way = f"see what refuses them ({RUNBOOKS}/table-throttles.md)"
        return Finding("throughput", "warn", check.message, way, check.details)
    return replace(_of_status(check), state="unknown" if check.ok is None else "ok")


def _lambdas(connection: Connection, stack: Stack | None) -> Sequence[LambdaName]:
    """Return the Lambdas that the stack is meant to have; all where CloudFormation does not say it."""
    from botocore.exceptions import BotoCoreError, ClientError

    if stack is None:
        return LAMBDAS
    try:
        return lambdas_of(
            earlier_options(cloudformation.template_of(client(connection, "cloudformation"), stack.name), stack)
        )
    except (CommandError, BotoCoreError, ClientError):
        return LAMBDAS


def _lambda(connection: Connection, name: LambdaName, on: Sequence[LambdaName]) -> Finding:
    if name not in on:
        return Finding(name, "n/a", "switched off in this stack")
    check = status.check_lambda(connection, name)
    if not check.ok:
        return _of_status(check, "deploy the stack again", _deploy(connection))
    here = version(distribution_name(name))
    if check.details["version"] != here:
        fix, told = "install the stack's release here, or upgrade the stack", f"and the release here is {here}"
        command = to_paste(connection, "zae-limiter upgrade", "--name", connection.name)
        return Finding(name, "warn", f"{check.message}, {told}", fix, check.details, (command,))
    return _of_status(check)


def _with_aggregator(check: str, on: Sequence[LambdaName], look: Callable[[], Finding]) -> Finding:
    return look() if "aggregator" in on else Finding(check, "n/a", "the stack has no aggregator")


def _stream(connection: Connection) -> Finding:
    check = status.check_stream(connection)
    if check.details.get("state") not in {"Disabled", "Disabling"}:
        return _of_status(check, f"see {RUNBOOKS}/aggregator-errors.md")
    enable = "aws lambda update-event-source-mapping"
    return _of_status(
        check, "enable the mapping", to_paste(connection, enable, "--uuid", check.details["uuid"], "--enabled")
    )


def _dead_letters(connection: Connection, stack: Stack | None, on: Sequence[LambdaName]) -> Finding:
    if "aggregator" not in on:
        return Finding("dead letters", "n/a", "the stack has no aggregator")
    if stack is None:
        return Finding("dead letters", "unknown", "the queue's address is an output of the stack, which is not known")
    return _of_status(status.check_dead_letters(connection, stack), f"see {RUNBOOKS}/dead-letters.md")


def _version(connection: Connection) -> Finding:
    with connection.open_table() as table:
        return _of_status(status.check_version(table, connection.name), "deploy the stack again", _deploy(connection))


def _alarms(connection: Connection) -> Finding:
    alarms = status.alarms_of(client(connection, "cloudwatch"), connection.name)
    if not alarms:
        told = "there is none: no one is notified when the aggregator fails"
        command = _deploy(connection, "--alarms", "--alarm-topic-arn", "ARN")
        return Finding("alarms", "warn", told, f"deploy them, {TOPIC}", commands=(command,))
    details = {"alarms": {each["AlarmName"]: each["StateValue"] for each in alarms}}
    if ringing := [each["AlarmName"] for each in alarms if each["StateValue"] == "ALARM"]:
        return Finding("alarms", "fail", f"ringing: {', '.join(ringing)}", f"see {RUNBOOKS}", details)
    if deaf := [each["AlarmName"] for each in alarms if not each.get("AlarmActions")]:
        told = f"of {counted(len(alarms), 'alarm')}, {len(deaf)} without a topic"
        command = _deploy(connection, "--alarm-topic-arn", "ARN")
        return Finding("alarms", "warn", told, f"deploy again, {TOPIC}", details, (command,))
    topics = sorted({action for each in alarms for action in each["AlarmActions"] if ":sns:" in action})
    if silent := [topic for topic in topics if not _subscribed(connection, topic)]:
        words = ("--topic-arn", silent[0], "--protocol", "email", "--notification-endpoint", "YOU")
        command = to_paste(connection, "aws sns subscribe", *words)
        told = f"no one has confirmed a subscription to {', '.join(silent)}"
        return Finding("alarms", "warn", told, "subscribe, and confirm it", details, (command,))
    return Finding(
        "alarms", "ok", f"{counted(len(alarms), 'alarm')}, none ringing, each with a subscriber", details=details
    )


def _subscribed(connection: Connection, topic: str) -> bool:
    pages = client(connection, "sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
    return any(each["SubscriptionArn"].startswith("arn:") for page in pages for each in page["Subscriptions"])


def _sizes(connection: Connection) -> Finding:
    """Return the largest items of a sample beside the limits on them."""
    from zae_limiter.maintenance import read_row
    from zae_limiter.stores import item_size

    page = client(connection, "dynamodb").scan(TableName=connection.name, Limit=SAMPLE)
    sizes = [(item_size(item), item) for item in map(read_row, page["Items"])]
    if not sizes:
        return Finding("sizes", "ok", "the table has no items")
    largest, item = max(sizes, key=lambda each: each[0])
    wide = sum(1 for size, each in sizes if size > ONE_WRITE and each["SK"] == "#STATE")
    of = "" if page.get("LastEvaluatedKey") is None else f" of the first {len(sizes):,}"
    told = f"the largest item{of} has {largest:,} of {ITEM_LIMIT:,} bytes; {counted(wide, 'bucket')} above 1 KB"
    details = {"items": len(sizes), "largest_bytes": largest, "largest_pk": item["PK"], "buckets_above_1_kb": wide}
    if largest >= SIZE_WARNS * ITEM_LIMIT:
        state: State = "fail" if largest >= SIZE_FAILS * ITEM_LIMIT else "warn"
        return Finding(
            "sizes", state, f"{told}: {item['PK']} {item['SK']}", "shorten its metadata or its limits", details
        )
    if wide:
        way = f"a write of a wider bucket costs two units: shorten ids, or use fewer limits ({DOCS}/limiter.md)"
        return Finding("sizes", "warn", told, way, details)
    return Finding("sizes", "ok", told, details=details)
