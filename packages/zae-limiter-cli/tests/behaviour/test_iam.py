"""What each principal of a stack can do at all: every action that AWS knows, on what is the stack's and what is not."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pytest

from support.cli.granted import OPTIONS, properties
from support.cli.iam import Request, is_allowed
from support.cli.principals import ARNS, ITEMS, OWN, ROLES, ROWS, TAGS, arned, principals, requests

pytestmark = pytest.mark.slow

Decided = frozenset[tuple[str, str]]

EVERYTHING: Final = OPTIONS["what adds statements"]
READ, WRITE = ("GetItem", "BatchGetItem"), ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem")
EVENTS: Final = frozenset(label for label in ITEMS if "event" in label)
OWN_ITEMS: Final = frozenset(label for label in ITEMS if label.startswith("own") and "other's" not in label)
BUCKETS: Final = frozenset(label for label in ITEMS if label.endswith("bucket"))
ENTITIES: Final = frozenset(label for label in ITEMS if label.endswith("entity"))
OWN_ROWS: Final = frozenset(label for label in ROWS if label.startswith("own") and "GSI4" not in label)
OF_GSI3: Final = frozenset(label for label in ROWS if "GSI3" in label)
OF_GSI4: Final = frozenset(label for label in ROWS if "GSI4" in label)


def on(targets: Iterable[str], *actions: str) -> Decided:
    return frozenset((action, target) for action in actions for target in targets)


def log_of(function: str) -> Decided:
    return on([f"log of my-app-{function}"], "logs:CreateLogStream", "logs:PutLogEvents")


WRITTEN: Final = on(ITEMS.keys() - EVENTS, *WRITE) | on(EVENTS - {"own entity and event"}, "PutItem")
READABLE: Final = on(ITEMS, *READ) | on(ITEMS.keys() | ROWS.keys(), "Query")
OWN_READABLE: Final = on(OWN_ITEMS | {"registry"}, *READ) | on(OWN_ITEMS | OWN_ROWS, "Query")
TRACES: Final = on(["account"], "xray:PutTelemetryRecords", "xray:PutTraceSegments")
KEY_OF_TABLE: Final = on(["key by way of dynamodb"], "kms:Decrypt")
MAY: Final[Mapping[str, Decided]] = {
    "AcquirePolicy": KEY_OF_TABLE | on(ITEMS, *READ) | on(BUCKETS, "PutItem", "UpdateItem"),
    "AcquireOwnPolicy": KEY_OF_TABLE
    | on(OWN_ITEMS | {"registry"}, *READ)
    | on({"own bucket"}, "PutItem", "UpdateItem"),
    "ReadPolicy": KEY_OF_TABLE | READABLE,
    "ReadOwnPolicy": KEY_OF_TABLE | OWN_READABLE,
    "FullPolicy": KEY_OF_TABLE | READABLE | WRITTEN,
    "FullOwnPolicy": KEY_OF_TABLE | OWN_READABLE | {each for each in WRITTEN if each[1] in OWN_ITEMS},
    "PurgePolicy": KEY_OF_TABLE
    | on(ITEMS, *READ, "DeleteItem", "BatchWriteItem")
    | on(OF_GSI4, "Query")
    | on(["registry"], "PutItem"),
    "InvokePlannerPolicy": on(["my-app-limits-planner"], "lambda:InvokeFunction"),
    "InvokeProvisionerPolicy": on(["my-app-limits-planner", "my-app-limits-provisioner"], "lambda:InvokeFunction"),
    "delegation": on(["ns-tenant-alpha of planner", "ns-tenant-alpha of provisioner"], "lambda:InvokeFunction"),
    "delegation to plan": on(["ns-tenant-alpha of planner"], "lambda:InvokeFunction"),
    "Provisioner": KEY_OF_TABLE
    | on(ITEMS, *READ)
    | on(OF_GSI3 | OF_GSI4 | {"registry"}, "Query")
    | WRITTEN
    | log_of("limits-provisioner")
    | TRACES,
    "Planner": KEY_OF_TABLE | on(ITEMS, *READ) | on(OF_GSI4, "Query") | log_of("limits-planner") | TRACES,
    "Aggregator": KEY_OF_TABLE
    | on(["key by way of sqs"], "kms:Decrypt", "kms:GenerateDataKey")
    | on(["key by way of s3"], "kms:GenerateDataKey")
    | on(ITEMS, "BatchGetItem")
    | on(["registry"], "Query")
    | on(BUCKETS | ENTITIES, "PutItem", "UpdateItem")
    | on(["stream"], "DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
    | on(["archived event"], "s3:PutObject")
    | on(["dead letters"], "sqs:SendMessage")
    | on(["bus"], "events:PutEvents")
    | log_of("aggregator")
    | TRACES,
}


def decided(principal: str, tags: Mapping[str, tuple[str, ...]] = TAGS) -> Decided:
    policies = principals(EVERYTHING)[principal]
    made = ((action, label, tagged(request, tags)) for action, label, request in requests())
    return frozenset((action, label) for action, label, request in made if is_allowed(policies, request))


def tagged(request: Request, tags: Mapping[str, tuple[str, ...]]) -> Request:
    """Return the request of a principal that has these tags."""
    return replace(request, context={**{key: request.context[key] for key in request.context.keys() - TAGS}, **tags})


def test_each_principal_of_the_stack_is_here() -> None:
    assert principals(EVERYTHING).keys() == MAY.keys()


@pytest.mark.parametrize("principal", MAY)
def test_a_principal_can_do_what_it_is_for_and_nothing_else(principal: str) -> None:
    assert decided(principal) == MAY[principal]


@pytest.mark.parametrize("principal", ["AcquireOwnPolicy", "ReadOwnPolicy", "FullOwnPolicy"])
@pytest.mark.parametrize("tag", [None, "", OWN[:-1], f"{OWN}/BUCKET"], ids=["none", "empty", "part", "more"])
def test_whoever_belongs_to_no_namespace_reads_the_registry_by_key_and_nothing_else(
    principal: str, tag: str | None
) -> None:
    tags = {} if tag is None else dict.fromkeys(TAGS, (tag,))
    assert decided(principal, tags) == KEY_OF_TABLE | on(["registry"], *READ)


@pytest.mark.parametrize(
    ("policy", "action", "arn"),
    [
        ("ArchivePolicy", "s3:PutObject", f"{ARNS['ArchiveBucket']}/audit/x"),
        ("ArchivePolicy", "s3:ListBucket", ARNS["ArchiveBucket"]),
        ("DeadLettersPolicy", "sqs:SendMessage", ARNS["DeadLetters"]),
    ],
)
def test_archive_and_dead_letters_refuse_who_may_do_everything_without_tls(policy: str, action: str, arn: str) -> None:
    admin = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    of_resource = arned(properties(EVERYTHING)[policy]["PolicyDocument"])
    by_tls = {
        secure: is_allowed([admin], Request(action, arn, {"aws:SecureTransport": (secure,)}), resource=of_resource)
        for secure in ("true", "false")
    }
    assert by_tls == {"true": True, "false": False}


def test_a_role_of_a_lambda_is_for_lambda_and_one_of_an_application_for_the_account() -> None:
    resources = properties(EVERYTHING.changed(app_roles=True))
    trusted = {
        name: each["AssumeRolePolicyDocument"]["Statement"] for name, each in resources.items() if "Role" in name
    }
    assert {name: [each["Principal"] for each in statements] for name, statements in trusted.items()} == {
        **{f"{name}Role": [{"Service": "lambda.amazonaws.com"}] for name in ROLES},
        **{
            f"{use}Role": [{"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}}]
            for use in ("Acquire", "Full", "Read")
        },
    }
