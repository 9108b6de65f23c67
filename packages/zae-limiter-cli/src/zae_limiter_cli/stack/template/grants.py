"""The permissions of each Lambda and of each kind of application, as statements."""

from collections.abc import Iterable, Sequence
from typing import Final

from zae_limiter.maintenance import INDEXES, REGISTRY, pk_audit, pk_bucket, pk_call, pk_entity, pk_system

from .language import Value, allow, attribute, document, ref, split, text, when
from .table import STREAM_ARN, TABLE_ARN, index_arn

# A transaction is allowed by what it is made of. Tests hold these together with what the code really calls.
PROVISIONER_INDEXES: Final = ("GSI3", "GSI4")
VPC_CALLS: Final = (
    "AssignPrivateIpAddresses",
    "CreateNetworkInterface",
    "DeleteNetworkInterface",
    "DescribeNetworkInterfaces",
    "DescribeSubnets",
    "UnassignPrivateIpAddresses",
)
STREAM_CALLS: Final = ("DescribeStream", "GetRecords", "GetShardIterator")

READ_ITEMS: Final = ("BatchGetItem", "GetItem")
WRITE_BUCKETS: Final = ("PutItem", "UpdateItem")
WRITE: Final = ("BatchWriteItem", "DeleteItem", *WRITE_BUCKETS)
REMOVE: Final = ("BatchWriteItem", "DeleteItem")

# The principal's tag that says which namespace it belongs to, by its id.
NAMESPACE_TAG: Final = "zael-namespace-id"
OWN_NAMESPACE: Final = f"${{aws:PrincipalTag/{NAMESPACE_TAG}}}"
EVERY_NAMESPACE: Final = "*"
LEADING_KEYS: Final = "dynamodb:LeadingKeys"
ALERT_SOURCE: Final = "zae-limiter"  # of the aggregator's events
ADMIN_INDEX: Final = "GSI4"  # its key is the namespace, which no pattern of leading keys can tell from another's


def on_table(calls: Sequence[str], *, keys: Sequence[str] = ()) -> Value:
    """Return permission for calls on the table; with ``keys``, only on partitions whose key is like one of them."""
    return allow(_dynamodb(calls), TABLE_ARN, _leading(keys))


def on_indexes(names: Iterable[str]) -> Value:
    """Return permission for queries on indexes."""
    return _querying([index_arn(name) for name in names])


def acquiring(namespace: str) -> list[Value]:
    """Return permission to read limits and take tokens: to write buckets, and the keys of calls that are retried."""
    return [
        on_table(READ_ITEMS, keys=_readable(namespace)),
        on_table(WRITE_BUCKETS, keys=[_buckets(namespace), _calls(namespace)]),
    ]


def reading(namespace: str) -> list[Value]:
    """Return permission to read everything."""
    indexes = [name for name in INDEXES if namespace == EVERY_NAMESPACE or name != ADMIN_INDEX]
    queried = [TABLE_ARN, *map(index_arn, indexes)]  # never the registry, which lists the other namespaces
    return [on_table(READ_ITEMS, keys=_readable(namespace)), _querying(queried, keys=_own(namespace))]


def everything(namespace: str) -> list[Value]:
    """Return permission to read and write everything."""
    return [*reading(namespace), *_writing(namespace)]


def provisioning() -> list[Value]:
    """Return the permissions of the provisioner on the table."""
    return [on_table(READ_ITEMS), _listing(), *_writing(EVERY_NAMESPACE), on_indexes(PROVISIONER_INDEXES)]


def planning() -> list[Value]:
    """Return the permissions of the planner on the table: it reads what the provisioner would write."""
    return [on_table(READ_ITEMS), on_indexes([ADMIN_INDEX])]


def aggregating() -> list[Value]:
    """Return the permissions of the aggregator on the table: buckets, and the usage of entities."""
    written = [_buckets(EVERY_NAMESPACE), f"{pk_entity(EVERY_NAMESPACE, '')}*"]
    merging = on_table(["DeleteItem"], keys=[_buckets(EVERY_NAMESPACE)])  # of shards: another one has what they had
    return [on_table(["BatchGetItem"]), _listing(), on_table(WRITE_BUCKETS, keys=written), merging]


def purging() -> list[Value]:
    """Return permission to remove deleted namespaces with their audit events, which no other policy allows."""
    return [
        on_table((*READ_ITEMS, *REMOVE)),
        on_indexes([ADMIN_INDEX]),
        on_table(["PutItem"], keys=[pk_system(REGISTRY)]),
    ]


def of_others(statement: Value) -> list[Value]:
    """Return a statement of a resource's policy for the principals of other accounts: of a list, of an organization."""
    member = {"StringEquals": {"aws:PrincipalOrgID": ref("TrustedOrganization")}}
    of_organization = {**statement, "Condition": {**statement.get("Condition", {}), **member}}
    return [
        when("TrustsAccounts", {**statement, "Principal": {"AWS": split("TrustedAccounts")}}),
        when("TrustsOrganization", {**of_organization, "Principal": {"AWS": "*"}}),
    ]


def in_vpc(functions: Value) -> list[Value]:
    """Return permission for Lambda to connect functions to a VPC in the name of their roles; the code of the functions
    may not use it.
    """
    by_code = {"ArnLike": {"lambda:SourceFunctionArn": functions}}
    return [
        allow([f"ec2:{call}" for call in VPC_CALLS], "*"),
        {"Effect": "Deny", "Action": "ec2:*", "Resource": "*", "Condition": by_code},
    ]


def with_key(calls: Sequence[str], *services: str) -> Value:
    """Return permission to use the customer's key by way of services."""
    ways = [text(f"{service}.${{AWS::Region}}.${{AWS::URLSuffix}}") for service in services]
    by_way = {"StringEquals": {"kms:ViaService": ways[0] if len(ways) == 1 else ways}}
    return allow([f"kms:{call}" for call in calls], ref("KmsKeyArn"), by_way)


def reading_stream() -> list[Value]:
    """Return the permissions of an event source mapping, which acts for its function and also sends dead letters."""
    return [
        allow(_dynamodb(STREAM_CALLS), STREAM_ARN),
        allow(_dynamodb(["ListStreams"]), text("${Table.Arn}/stream/*")),
        allow(["sqs:SendMessage"], attribute("DeadLetters", "Arn")),
    ]


def telling() -> Value:
    """Return permission to put events of our source, and of no other, on the bus for alerts."""
    source = "events:source"  # a request has a list of them; a condition on all holds for an empty list, too
    of_ours = {"ForAllValues:StringEquals": {source: ALERT_SOURCE}, "Null": {source: "false"}}
    return allow(["events:PutEvents"], ref("AlertBusArn"), of_ours)


def over_tls(service: str, arns: Value) -> Value:
    """Return the policy of a bucket or a queue that refuses every request without TLS."""
    plain_text = {"Bool": {"aws:SecureTransport": "false"}}
    denied = {"Effect": "Deny", "Principal": "*", "Action": f"{service}:*", "Resource": arns, "Condition": plain_text}
    return document([denied])


def logging_to(group: str) -> Value:
    """Return permission to write the log of a function."""
    return allow(["logs:CreateLogStream", "logs:PutLogEvents"], attribute(group, "Arn"))


def _writing(namespace: str) -> list[Value]:
    """Return permission to write every record; to add audit events, never to update or remove one. IAM cannot tell a
    new item from an old one.
    """
    events = f"{pk_audit(EVERY_NAMESPACE, '')}*"
    no_event = {"ForAllValues:StringNotLike": {LEADING_KEYS: [events]}}
    others = {**(_leading(_own(namespace)) or {}), **no_event}
    return [
        allow(_dynamodb(WRITE), TABLE_ARN, others),
        on_table(["PutItem"], keys=[f"{pk_audit(namespace, '')}*"]),
    ]


def _listing() -> Value:
    """Return permission to list the registry, which shows whether the table is another product's."""
    return _querying([TABLE_ARN], keys=[pk_system(REGISTRY)])


def _querying(arns: Sequence[Value], *, keys: Sequence[str] = ()) -> Value:
    return allow(_dynamodb(["Query"]), arns, _leading(keys))


def _dynamodb(calls: Sequence[str]) -> list[str]:
    return [f"dynamodb:{call}" for call in calls]


def _leading(keys: Sequence[str]) -> Value:
    return {"ForAllValues:StringLike": {LEADING_KEYS: list(keys)}} if keys else None


def _readable(namespace: str) -> list[str]:
    """Return all partitions of the namespace, and the registry, where its name is looked up by key."""
    return [] if namespace == EVERY_NAMESPACE else [f"{namespace}/*", pk_system(REGISTRY)]


def _own(namespace: str) -> list[str]:
    return [] if namespace == EVERY_NAMESPACE else [f"{namespace}/*"]


def _calls(namespace: str) -> str:
    return f"{pk_call(namespace, '', '', '').removesuffix('##')}*"


def _buckets(namespace: str) -> str:
    return f"{pk_bucket(namespace, '', '', 0).removesuffix('##0')}*"
