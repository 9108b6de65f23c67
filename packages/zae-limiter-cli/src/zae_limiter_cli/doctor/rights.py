"""Check what the caller may do, command by command; nothing is written to find out.

IAM is asked where the caller may ask it (`iam:SimulatePrincipalPolicy`). Otherwise reads that find nothing show what
the caller may read; what it may write or invoke stays unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..connection import Connection
from .caller import Caller, client
from .findings import Finding, refused

TABLE, OF_INDEXES, PLANNER, PROVISIONER, ANY = "table", "indexes", "planner", "provisioner", "*"

READ: Final = ("GetItem", "BatchGetItem")
DENIED: Final = frozenset(("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"))


@dataclass(frozen=True, slots=True)
class Need:
    """What some commands need: actions on each kind of resource, and the policy of the stack that has them."""

    what: str
    actions: Mapping[str, Sequence[str]]
    policy: str


def _dynamodb(*calls: str) -> tuple[str, ...]:
    return tuple(f"dynamodb:{call}" for call in calls)


NEEDS: Final = (
    Need("acquire, in applications", {TABLE: _dynamodb(*READ, "PutItem", "UpdateItem")}, "AcquirePolicy"),
    Need(
        "why, usage, audit, and each show and list",
        {TABLE: _dynamodb(*READ, "Query"), OF_INDEXES: _dynamodb("Query")},
        "ReadPolicy",
    ),
    Need(
        "block, lift, and all that changes system, resource, entity, bucket",
        {
            TABLE: _dynamodb(*READ, "Query", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"),
            OF_INDEXES: _dynamodb("Query"),
        },
        "FullPolicy",
    ),
    Need("limits plan, diff, export, state", {PLANNER: ("lambda:InvokeFunction",)}, "InvokePlannerPolicy"),
    Need("limits apply, unlock", {PROVISIONER: ("lambda:InvokeFunction",)}, "InvokeProvisionerPolicy"),
    Need(
        "status, check, doctor",
        {
            TABLE: _dynamodb("DescribeTable"),
            ANY: (
                "dynamodb:DescribeLimits",
                "cloudwatch:GetMetricData",
                "cloudformation:DescribeStacks",
                "cloudformation:GetTemplate",
                "lambda:GetFunction",
                "lambda:ListEventSourceMappings",
                "sqs:GetQueueAttributes",
                "cloudwatch:DescribeAlarms",
                "sns:ListSubscriptionsByTopic",
            ),
        },
        "",
    ),
    Need(
        "deploy, upgrade, delete",
        {
            ANY: (
                "cloudformation:CreateChangeSet",
                "cloudformation:ExecuteChangeSet",
                "cloudformation:DeleteStack",
                "lambda:UpdateFunctionCode",
            )
        },
        "",
    ),
)


def check_rights(connection: Connection, caller: Caller) -> list[Finding]:
    """Return a finding for each need."""
    if caller.arn.endswith(":root"):
        return [Finding(_name(need), "ok", "the account's root may do everything") for need in NEEDS]
    arns = _arns(connection, caller.account)
    source = _policy_source(connection, caller.arn)
    iam = client(connection, "iam")
    found = []
    for need in NEEDS:
        try:
            denied = _denied(iam, source, need, arns) if source else None
        except Exception as error:
            if refused(error) is None and not _is_unparsed(error):
                raise
            denied, source = None, None  # who may not ask once may not ask again
        found.append(_by_reading(connection, need) if denied is None else _told(need, denied, caller.arn))
    return found


def _denied(iam: Any, source: str, need: Need, arns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the actions that IAM would refuse."""
    denied = []
    for kind, actions in need.actions.items():
        answer = iam.simulate_principal_policy(
            PolicySourceArn=source, ActionNames=list(actions), ResourceArns=list(arns[kind])
        )
        results = answer["EvaluationResults"]
        denied += [each["EvalActionName"] for each in results if each["EvalDecision"] != "allowed"]
    return sorted({*denied})


def _told(need: Need, denied: Sequence[str], arn: str) -> Finding:
    details = {"denied": list(denied), "asked": "iam:SimulatePrincipalPolicy"}
    if not denied:
        return Finding(_name(need), "ok", "allowed, as IAM says", details=details)
    fix = f"attach {need.policy} of the stack" if need.policy else f"allow it in a policy of {arn}"
    return Finding(_name(need), "warn", f"IAM refuses {', '.join(denied)}", f"if you need it: {fix}", details)


def _by_reading(connection: Connection, need: Need) -> Finding:
    """Return what reads that find nothing show: that one of them is refused, or that what writes is unknown."""
    actions = [action for actions in need.actions.values() for action in actions]
    probes = {action: PROBES[action] for action in actions if action in PROBES}
    denied = sorted(action for action, probe in probes.items() if _is_denied(connection, probe))
    details = {"denied": denied, "asked": "reads"}
    if denied:
        fix = f"if you need it: attach {need.policy} of the stack" if need.policy else "if you need it: allow it"
        return Finding(_name(need), "warn", f"AWS refuses {', '.join(denied)}", fix, details)
    unknown = [action for action in actions if action not in probes and action not in SHOWN_ELSEWHERE]
    if not unknown:
        return Finding(_name(need), "ok", "allowed, as reads show", details=details)
    so_far = "its reads are allowed, " if probes else ""
    told = f"{so_far}{', '.join(unknown)} cannot be tried without a change"
    return Finding(_name(need), "unknown", told, "allow iam:SimulatePrincipalPolicy to have IAM asked", details)


def _is_denied(connection: Connection, probe: Callable[[Connection], object]) -> bool:
    try:
        probe(connection)
    except Exception as error:
        if refused(error) is None and not _is_unparsed(error):
            raise
        return refused(error) in DENIED
    return False


def _is_unparsed(error: Exception) -> bool:
    """Whether an emulator answered in no format of AWS: it does not know the request."""
    from botocore.parsers import ResponseParserError

    return isinstance(error, ResponseParserError)


SHOWN_ELSEWHERE: Final = (  # by `throughput`, `dead letters`, `alarms`
    *("dynamodb:DescribeLimits", "cloudwatch:GetMetricData"),
    *("sqs:GetQueueAttributes", "sns:ListSubscriptionsByTopic"),
)
NO_KEY: Final = {"PK": {"S": "_/DOCTOR#"}, "SK": {"S": "#NOTHING"}}


def _query(connection: Connection, index: str | None = None) -> None:
    attribute = "PK" if index is None else f"{index}PK"
    client(connection, "dynamodb").query(
        TableName=connection.name,
        **({} if index is None else {"IndexName": index}),
        KeyConditionExpression="#k = :k",
        ExpressionAttributeNames={"#k": attribute},
        ExpressionAttributeValues={":k": NO_KEY["PK"]},
        Limit=1,
    )


PROBES: Final[Mapping[str, Callable[[Connection], object]]] = {
    "dynamodb:GetItem": lambda it: client(it, "dynamodb").get_item(TableName=it.name, Key=NO_KEY),
    "dynamodb:BatchGetItem": lambda it: client(it, "dynamodb").batch_get_item(
        RequestItems={it.name: {"Keys": [NO_KEY]}}
    ),
    "dynamodb:Query": _query,
    "dynamodb:DescribeTable": lambda it: client(it, "dynamodb").describe_table(TableName=it.name),
    "cloudformation:DescribeStacks": lambda it: client(it, "cloudformation").describe_stacks(StackName=it.name),
    "cloudformation:GetTemplate": lambda it: client(it, "cloudformation").get_template(StackName=it.name),
    "lambda:GetFunction": lambda it: client(it, "lambda").get_function(FunctionName=f"{it.name}-aggregator"),
    "lambda:ListEventSourceMappings": lambda it: client(it, "lambda").list_event_source_mappings(
        FunctionName=f"{it.name}-aggregator"
    ),
    "cloudwatch:DescribeAlarms": lambda it: client(it, "cloudwatch").describe_alarms(AlarmNamePrefix=it.name),
}


def _arns(connection: Connection, account: str) -> dict[str, list[str]]:
    from zae_limiter.maintenance import INDEXES

    region = connection.session.region_name
    partition = connection.session.get_partition_for_region(region)
    table = f"arn:{partition}:dynamodb:{region}:{account}:table/{connection.name}"
    function = f"arn:{partition}:lambda:{region}:{account}:function:{connection.name}-limits-"
    return {
        TABLE: [table],
        OF_INDEXES: [f"{table}/index/{name}" for name in INDEXES],
        PLANNER: [f"{function}planner"],
        PROVISIONER: [f"{function}provisioner"],
        ANY: ["*"],
    }


def _policy_source(connection: Connection, arn: str) -> str | None:
    """Return the ARN of the user or role whose policies IAM simulates; ``None`` for any other principal.

    The ARN of a session has the role's name without its path, which IAM knows.
    """
    if ":assumed-role/" not in arn:
        return arn if ":user/" in arn else None
    name = arn.split("/")[1]
    try:
        found: str = client(connection, "iam").get_role(RoleName=name)["Role"]["Arn"]
    except Exception as error:
        if refused(error) is None and not _is_unparsed(error):
            raise
        partition, account = arn.split(":")[1], arn.split(":")[4]
        return f"arn:{partition}:iam::{account}:role/{name}"
    return found


def _name(need: Need) -> str:
    return f"rights: {need.what}"
