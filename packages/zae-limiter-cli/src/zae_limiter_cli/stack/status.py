"""Check the health of each part of a stack, by AWS."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final, ParamSpec

from zae_limiter import SyncRepository, ZAELimiterError, maintenance
from zae_limiter.maintenance import APPLIES_KEPT

from ..artifacts.builder import LAMBDAS, LambdaName
from ..behind import LATE_SECONDS
from ..columns import counted
from ..connection import Connection
from ..errors import CommandError, one_line
from ..pages import RUNBOOKS
from ..times import duration, iso
from . import cloudformation, record
from .cloudformation import Stack
from .code import find_function, function_name
from .deploy import earlier_options, lambdas_of
from .events import way_out
from .options import StackOptions
from .replicas import replicas_in
from .template.alarms import alarms as template_alarms
from .template.functions import FUNCTIONS
from .throughput import MINUTES, NO_FIGURES, throughput_of

PINGS: Final = 5
MINUTE: Final = 60  # records of a local stream have their time in whole ones
BATCH_SECONDS: Final = 10  # in which the last one is read
WITHIN: Final = "current to the minute, as exact as this stream's times"
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Check:
    """One part of the stack: ``ok`` is ``None`` for one that is switched off."""

    part: str
    ok: bool | None
    message: str
    details: Mapping[str, Any]


def checks(connection: Connection) -> Iterator[Check]:
    """Yield the check of every part, one after the other; a stack that does not exist is the only part."""
    client = connection.client("cloudformation")
    stack = cloudformation.find(client, connection.name)
    if stack is None:
        deploy = f"there is none: `zae-limiter deploy --name {connection.name}` creates it"
        way = record.another_products(connection) or deploy
        yield Check("stack", False, way, {})
        return
    yield check_stack(stack)
    yield _looked("table", check_table, connection)
    yield _looked("throughput", check_throughput, connection)
    template = cloudformation.template_of(client, connection.name)
    options = _options(template, stack)
    if isinstance(options, Check):
        yield options
    on = LAMBDAS if isinstance(options, Check) else lambdas_of(options)
    for name in LAMBDAS:
        if name not in on:
            yield Check(name, None, "off", {})
        elif _comes_with_an_upgrade(name, template):
            yield Check(name, None, f"not there yet: `zae-limiter upgrade --name {connection.name}` adds it", {})
        else:
            yield _looked(name, check_lambda, connection, name)
    if "aggregator" in on:
        yield _looked("stream", check_stream, connection)
        yield _looked("dead letters", check_dead_letters, connection, stack)
    yield _looked("alarms", check_alarms, connection)
    if isinstance(options, StackOptions):
        yield check_retention(options)
    with connection.open_table() as table:
        yield _looked("version", check_version, table, connection.name)
        yield _looked("latency", check_latency, table)


def _options(template: Mapping[str, Any], stack: Stack) -> StackOptions | Check:
    """Return the options of a stack; a check where CloudFormation took parameters that our commands do not."""
    try:
        return earlier_options(template, stack)
    except CommandError as error:
        return Check("options", False, str(error), {})


def _comes_with_an_upgrade(name: LambdaName, template: Mapping[str, Any]) -> bool:
    """Return whether the stack is of an older release, which did not have this Lambda."""
    resources = template.get("Resources", {})
    return FUNCTIONS["provisioner"] in resources and FUNCTIONS[name] not in resources


def _looked(part: str, look: Callable[P, Check], *args: P.args, **kwargs: P.kwargs) -> Check:
    """Mark a part failed if AWS cannot describe it; still report the rest."""
    from botocore.exceptions import ClientError

    try:
        return look(*args, **kwargs)
    except (ClientError, ZAELimiterError) as error:
        return Check(part, False, " ".join(str(error).split()), {})


def check_stack(stack: Stack) -> Check:
    """Return what CloudFormation says of the stack."""
    message = stack.status if stack.well else f"{stack.status}: {one_line(stack.reason) or way_out(stack)}"
    return Check("stack", stack.usable, message, {"status": stack.status, "changed_at": stack.changed_iso})


def check_table(connection: Connection) -> Check:
    """Return the status of the table and of its indexes."""
    client = connection.client("dynamodb")
    try:
        table = client.describe_table(TableName=connection.name)["Table"]
    except client.exceptions.ResourceNotFoundException:
        return Check("table", False, f"there is no table {connection.name}", {})
    indexes = {index["IndexName"]: index["IndexStatus"] for index in table.get("GlobalSecondaryIndexes", ())}
    status, items = table["TableStatus"], table.get("ItemCount", 0)
    ok = status in {"ACTIVE", "UPDATING"} and set(indexes.values()) <= {"ACTIVE", "UPDATING"}
    # DynamoDB counts every six hours
    message = f"{status}, {len(indexes)} indexes, about {counted(items, 'item')}"
    details = {"status": status, "indexes": indexes, "items": items}
    if regions := replicas_in(table):
        return Check("table", False, f"{message}, replicas in {', '.join(regions)}", {**details, "replicas": regions})
    return Check("table", ok, message, details)


def check_throughput(connection: Connection) -> Check:
    """Return what the table consumes beside its quota; ``None`` where AWS does not show one of them."""
    from botocore.exceptions import ClientError

    try:
        found, unknown = throughput_of(connection)
    except ClientError:
        return Check("throughput", None, "the table cannot be described", {})
    warm = [f"{each.warm:,.0f} {each.kind}s" for each in found if each.warm is not None]
    ready = [f"warm for {' and '.join(warm)} a second"] if warm else []
    details = {each.kind: {**asdict(each), "percent": each.percent} for each in found}
    throttled = ", ".join(counted(each.throttled, each.kind) for each in found if each.throttled)
    refused = [f"THROTTLED {throttled} in {MINUTES} minutes"] if throttled else []
    told = [text] if (text := ", ".join(filter(None, map(str, found)))) else []
    message = "; ".join([*refused, *told, *ready, *unknown])
    return Check("throughput", None if {*unknown} - {NO_FIGURES} else True, message, details)


def check_version(table: SyncRepository, stack: str) -> Check:
    """Return what the version record says."""
    found = record.read_record(table)
    if found is None:
        way = f"the table has no version record: `zae-limiter deploy --name {stack}` writes it"
        return Check("version", False, way, {})
    message = f"schema {found.schema_version}, set up by core {found.core_version}"
    return Check("version", True, message, asdict(found))


def check_lambda(connection: Connection, name: LambdaName) -> Check:
    """Return the state of a Lambda, and the version of its code."""
    function = find_function(connection.client("lambda"), function_name(connection.name, name))
    if function is None:
        return Check(name, False, f"there is no Lambda {function_name(connection.name, name)}", {})
    details = {"state": function.state, "version": function.version, "name": function.name}
    if function.version is None:
        way = f"it has no code: `zae-limiter deploy --name {connection.name}` uploads it"
        return Check(name, False, way, details)
    # a Lambda that was not called for weeks sleeps until the next call
    return Check(name, function.state in {"Active", "Inactive"}, f"{function.state}, {function.version}", details)


def check_stream(connection: Connection) -> Check:
    """Return the state of the mapping that feeds the aggregator."""
    client = connection.client("lambda")
    function = function_name(connection.name, "aggregator")
    mappings = client.list_event_source_mappings(FunctionName=function)["EventSourceMappings"]
    if not mappings:
        return Check("stream", False, f"no event source mapping feeds {function}", {})
    if _is_of_an_earlier_table(connection, mappings[0]["EventSourceArn"]):
        return Check("stream", False, f"{function} reads a stream that table {connection.name} does not have", {})
    state, result = mappings[0]["State"], mappings[0].get("LastProcessingResult", "")
    details = {"state": state, "last_result": result, "uuid": mappings[0].get("UUID", "UUID")}
    ok = state in {"Enabled", "Enabling", "Updating", "Creating"} and not result.startswith("PROBLEM")
    counted, told = _counted(connection, reads=ok)
    problem = f", {result}" if result.startswith("PROBLEM") else ""
    ok = ok and counted.get("behind_seconds", 0) < LATE_SECONDS
    return Check("stream", ok, f"{state}{problem}, {told}", {**details, **counted})


def _counted(connection: Connection, *, reads: bool) -> tuple[dict[str, Any], str]:
    """Return how far usage is counted, by what the aggregator leaves in the table, and the same in words; unless it
    ``reads`` the stream, no one knows what waits there.
    """
    try:
        with connection.open_table() as table:
            state, now_ms = maintenance.run(table, maintenance.stream_state()), table.namespace_state.now()
    except ZAELimiterError as error:
        return {}, f"how far it has counted is not known: {' '.join(str(error).split())}"
    if state.until_ms is None or state.batch_ms is None:
        return {"counted_until": None}, "nothing counted yet"
    until = datetime.fromtimestamp(state.until_ms / 1000, UTC)
    behind, ago = state.behind_ms(now_ms) // 1000, max(0, now_ms - state.batch_ms) // 1000
    details = {
        "counted_until": iso(until),
        "behind_seconds": behind,
        "last_batch_seconds_ago": ago,
        "acquires_waiting": state.waiting,
    }
    is_within = state.until_ms % (1000 * MINUTE) == 0 and behind <= MINUTE + BATCH_SECONDS
    by = WITHIN if is_within else f"behind by {duration(behind)}"
    more = by if state.waiting else "not behind" if reads else "later calls are in no figure"
    return details, f"usage counted up to {until:%Y-%m-%d %H:%M:%S} UTC, {more}, last batch {duration(ago)} ago"


def _is_of_an_earlier_table(connection: Connection, stream: str) -> bool:
    """Whether the table was restored, or made anew, since its stream was given to the aggregator."""
    from botocore.exceptions import ClientError

    try:
        table = connection.client("dynamodb").describe_table(TableName=connection.name)["Table"]
    except ClientError:
        return False  # which the part of the table says
    has_stream = table.get("StreamSpecification", {}).get("StreamEnabled", False)
    return not has_stream or table.get("LatestStreamArn") != stream


def check_dead_letters(connection: Connection, stack: Stack) -> Check:
    """Return how many batches the aggregator could not process."""
    client, name = connection.client("sqs"), "ApproximateNumberOfMessages"
    url = stack.outputs.get("DeadLettersUrl")
    if url is None:
        return Check("dead letters", False, "the stack has no dead-letter queue", {})
    try:
        answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    except client.exceptions.QueueDoesNotExist:
        return Check("dead letters", False, "the dead-letter queue is gone", {})
    count = int(answer["Attributes"][name])
    message = f"{count} batches that the aggregator could not process" if count else "none"
    return Check("dead letters", not count, message, {"count": count})


def check_alarms(connection: Connection) -> Check:
    """Return which alarms of the stack ring; ``None`` where there are none, or the caller may not see them."""
    from botocore.exceptions import ClientError

    try:
        alarms = alarms_of(connection.client("cloudwatch"), connection.name)
    except ClientError as error:
        return Check(
            "alarms", None, f"unknown: allow cloudwatch:DescribeAlarms ({error.response['Error']['Code']})", {}
        )
    states = {each["AlarmName"]: each["StateValue"] for each in alarms}
    ringing = sorted(name for name, state in states.items() if state == "ALARM")
    if not states:
        return Check("alarms", None, "there are none", {})
    message = f"ringing: {', '.join(ringing)}: see {RUNBOOKS}" if ringing else f"none of {len(states)} rings"
    return Check("alarms", not ringing, message, {"alarms": states})


def alarms_of(client: Any, stack: str) -> list[dict[str, Any]]:
    """Return the alarms of a stack, by a client of CloudWatch; not those of another one whose name begins with its."""
    prefix = f"{stack}-"
    pages = client.get_paginator("describe_alarms").paginate(AlarmNamePrefix=prefix)
    own = tuple(prefix + logical_id for logical_id in template_alarms())
    return [alarm for page in pages for alarm in page["MetricAlarms"] if alarm["AlarmName"].startswith(own)]


def check_retention(options: StackOptions) -> Check:
    """Return how long the stack keeps what it writes. It is a choice, so it is never wrong."""
    days = {
        "audit_retention_days": options.audit_retention_days,
        "archive_days": options.archive_days if options.archive and options.aggregator else None,
        "usage_hourly_days": options.usage_hourly_days,
        "usage_daily_days": options.usage_daily_days,
    }
    archive = days["archive_days"]
    archived = "" if archive is None else f", then archived {_kept(archive)}"
    usage = f"hours {_kept(options.usage_hourly_days)}, days {_kept(options.usage_daily_days)}"
    told = f"audit events {_kept(options.audit_retention_days)}{archived}; usage of {usage}"
    return Check("retention", True, f"{told}; the last {APPLIES_KEPT} applies", {**days, "applies": APPLIES_KEPT})


def _kept(days: int) -> str:
    return counted(days, "day") if days else "for ever"


def check_latency(table: SyncRepository) -> Check:
    """Return how long a read takes."""
    taken = record.read_seconds(table, PINGS)
    if taken is None:
        return Check("latency", False, "the table does not answer a read", {})
    ms = 1000 * median(taken)
    return Check("latency", True, f"{ms:.1f} ms for a read, median of {PINGS}", {"median_ms": round(ms, 3)})
