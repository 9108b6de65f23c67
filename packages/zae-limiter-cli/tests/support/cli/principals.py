"""The principals of a stack, and what each could ask of AWS: every action, on what is the stack's and on what is not.

Lives here: the policies with their ARNs, and the requests. Never: an expectation, a decision (iam).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from botocore.session import get_session

from support.cli.granted import BUS, KEY, properties, role_documents, statements
from support.cli.iam import Document, Request
from zae_limiter.maintenance import REGISTRY, audit_system, pk_audit, pk_bucket, pk_call, pk_entity, pk_system
from zae_limiter.schema.keys import gsi4_pk, pk_idempotency, pk_resource
from zae_limiter_cli.stack.code import function_name
from zae_limiter_cli.stack.delegations import KINDS, Delegation, Kind
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.grants import LEADING_KEYS, NAMESPACE_TAG

ROLES: Final = ("Aggregator", "Provisioner", "Planner")
OWN, OTHER, LOOKALIKE = "dTq0yW5cX8A", "Zk3_p-Yw1Qe", "dTq0yW5cX8A2"
TAGS: Final = {f"aws:PrincipalTag/{NAMESPACE_TAG}": (OWN,)}

HERE: Final = "us-east-1:123456789012"
TABLE, OTHER_TABLE = (f"arn:aws:dynamodb:{HERE}:table/{name}" for name in ("my-app", "my-app-2"))
LOGS, LAMBDA = f"arn:aws:logs:{HERE}:log-group:/aws/lambda", f"arn:aws:lambda:{HERE}:function"
FUNCTIONS: Final = {
    "Aggregator": "my-app-aggregator",
    "LimitsProvisioner": "my-app-limits-provisioner",
    "LimitsPlanner": "my-app-limits-planner",
}
ARNS: Final = {
    "Table": TABLE,
    "ArchiveBucket": "arn:aws:s3:::archive",
    "DeadLetters": f"arn:aws:sqs:{HERE}:dead-letters",
    **{f"{name}Function": f"{LAMBDA}:{function}" for name, function in FUNCTIONS.items()},
    **{f"{name.removeprefix('Limits')}Logs": f"{LOGS}/{function}:*" for name, function in FUNCTIONS.items()},
}


ALIASES: Final = ("ns-tenant-alpha", "ns-tenant-alpha2", "live", "$LATEST")


def aliased(alias: str) -> dict[Kind, str]:
    """Return an alias of the planner and of the provisioner, by the kind."""
    return {kind: f"{LAMBDA}:{function_name('my-app', kind)}:{alias}" for kind in KINDS}


DELEGATION: Final = Delegation("tenant-alpha", "ns-tenant-alpha", aliased("ns-tenant-alpha"))


class Target(NamedTuple):
    """What a request is for: an ARN, the partition keys that it names, the service by way of which it comes, and the
    source of its events.
    """

    arn: str
    keys: tuple[str, ...] = ()
    via: str = ""
    source: str = ""


PARTITIONS: Final = {
    f"{whose} {record}": pk
    for whose, ns in (("own", OWN), ("other's", OTHER), ("lookalike's", LOOKALIKE))
    for record, pk in {
        "bucket": pk_bucket(ns, "key-abc", "gpt-4", 0),
        "call": pk_call(ns, "key-abc", "gpt-4", 0),
        "key of a credit": pk_idempotency(ns, "key-abc"),
        "entity": pk_entity(ns, "key-abc"),
        "resource": pk_resource(ns, "gpt-4"),
        "system": pk_system(ns),
        "event": pk_audit(ns, "key-abc"),
        "event of the system": pk_audit(ns, audit_system()),
    }.items()
} | {"registry": pk_system(REGISTRY)}
ITEMS: Final = {
    **{label: Target(TABLE, (pk,)) for label, pk in PARTITIONS.items()},
    "own and other's bucket": Target(TABLE, (PARTITIONS["own bucket"], PARTITIONS["other's bucket"])),
    "own entity and event": Target(TABLE, (PARTITIONS["own entity"], PARTITIONS["own event"])),
}
ROWS: Final = {
    f"{whose} row of {index}": Target(f"{TABLE}/index/{index}", (gsi4_pk(ns) if index == "GSI4" else f"{ns}/ENTITY#e",))
    for index in ("GSI1", "GSI2", "GSI3", "GSI4")
    for whose, ns in (("own", OWN), ("other's", OTHER))
}
ELSEWHERE: Final = {
    f"{label} of {where}": Target(target.arn.replace(TABLE, arn), target.keys)
    for label, target in {"own bucket": ITEMS["own bucket"], "own row of GSI3": ROWS["own row of GSI3"]}.items()
    for where, arn in {
        "another table": OTHER_TABLE,
        "another region": TABLE.replace("us-east-1", "eu-west-1"),
        "another account": TABLE.replace("123456789012", "210987654321"),
    }.items()
}
WITHOUT_KEYS: Final = {
    "table": Target(TABLE),
    "stream": Target(f"{TABLE}/stream/label"),
    "another table": Target(OTHER_TABLE),
    "another stream": Target(f"{OTHER_TABLE}/stream/label"),
    "account": Target("*"),
}
OTHERS: Final[Mapping[str, Mapping[str, Target]]] = {
    "s3": {
        "archive": Target("arn:aws:s3:::archive"),
        "archived event": Target("arn:aws:s3:::archive/audit/x"),
        "another bucket": Target("arn:aws:s3:::archive-2"),
        "another object": Target("arn:aws:s3:::archive-2/audit/x"),
    },
    "sqs": {
        "dead letters": Target(ARNS["DeadLetters"]),
        "another queue": Target(f"{ARNS['DeadLetters']}-2"),
    },
    "events": {
        "bus": Target(BUS, source="zae-limiter"),
        "bus, as another source": Target(BUS, source="aws.ec2"),
        "bus, without a source": Target(BUS),
        "another bus": Target(f"{BUS}-2", source="zae-limiter"),
    },
    "lambda": {
        **{name: Target(f"{LAMBDA}:{name}") for name in FUNCTIONS.values()},
        "another function": Target(f"{LAMBDA}:my-app-2-limits-planner"),
        **{f"{alias} of {kind}": Target(arn) for alias in ALIASES for kind, arn in aliased(alias).items()},
    },
    "logs": {
        **{f"log of {name}": Target(f"{LOGS}/{name}:log-stream:x") for name in FUNCTIONS.values()},
        "another log": Target(f"{LOGS}/my-app-2-limits-planner:log-stream:x"),
    },
    "kms": {
        "key": Target(KEY),
        "another key": Target(f"{KEY[:-1]}1", via="dynamodb"),
        **{f"key by way of {service}": Target(KEY, via=service) for service in ("dynamodb", "s3", "sqs", "lambda")},
    },
    "xray": {},
    "ec2": {},
    "iam": {"role": Target("arn:aws:iam::123456789012:role/my-app-aggregator")},
    "sts": {"role": Target("arn:aws:iam::123456789012:role/my-app-aggregator")},
    "cloudformation": {"stack": Target(f"arn:aws:cloudformation:{HERE}:stack/my-app/0")},
}
OF_ITEMS: Final = ("Get", "BatchGet", "Put", "Update", "Delete", "BatchWrite", "ConditionCheck")
BY_KEY: Final = (
    *(f"{verb}Item" for verb in OF_ITEMS),
    "Query",
    *(f"PartiQL{verb}" for verb in ("Select", "Insert", "Update", "Delete")),
)
NO_OPERATION: Final = {  # actions of policies that no operation has the name of
    "s3": ("BypassGovernanceRetention", "DeleteObjectVersion", "GetObjectVersion", "ListBucket", "ListBucketVersions"),
    "lambda": ("InvokeFunction",),
    "kms": ("ReEncryptFrom", "ReEncryptTo"),
}


@cache
def principals(options: StackOptions) -> dict[str, list[Document]]:
    """Return the policies of each principal of a stack, by the name of its policy or its role."""
    resources = properties(options)
    managed = {name: [each["PolicyDocument"]] for name, each in resources.items() if "PolicyDocument" in each}
    used = {name: documents for name, documents in managed.items() if "Roles" not in resources[name]}
    roles = {name: role_documents(resources, name) for name in ROLES}
    every = {
        name: each for name, each in {**used, **roles}.items() if name not in {"ArchivePolicy", "DeadLettersPolicy"}
    }
    delegated: dict[str, list[Document]] = {
        "delegation": [DELEGATION.policy(KINDS)],
        "delegation to plan": [DELEGATION.policy(KINDS[:1])],
    }
    return {name: [arned(each) for each in documents] for name, documents in every.items()} | delegated


def arned(document: Mapping[str, Any]) -> Document:
    """Return a policy as IAM gets it."""
    return {"Version": document["Version"], "Statement": statements(document, ARNS)}


@cache
def requests() -> tuple[tuple[str, str, Request], ...]:
    """Return each action, the label of what it is for, and the request."""
    return tuple(_requests())


def _requests() -> Iterator[tuple[str, str, Request]]:
    for action in BY_KEY:
        for label, target in {**ITEMS, **ROWS, **ELSEWHERE}.items():
            yield action, label, _request("dynamodb", action, target)
    for action in sorted({*_operations("dynamodb"), *_operations("dynamodbstreams")} - {*BY_KEY}):
        for label, target in WITHOUT_KEYS.items():
            yield action, label, _request("dynamodb", action, target)
    for service, targets in OTHERS.items():
        for action in (*_operations(service), *NO_OPERATION.get(service, ())):
            for label, target in {**targets, "account": Target("*")}.items():
                yield f"{service}:{action}", label, _request(service, action, target)


def _operations(service: str) -> list[str]:
    return list(get_session().get_service_model(service).operation_names)


def _request(service: str, action: str, target: Target) -> Request:
    keys = {LEADING_KEYS: target.keys} if target.keys else {}
    via = {"kms:ViaService": (f"{target.via}.us-east-1.amazonaws.com",)} if target.via else {}
    source = {"events:source": (target.source,)} if target.source else {}
    return Request(f"{service}:{action}", target.arn, {**TAGS, **keys, **via, **source})
