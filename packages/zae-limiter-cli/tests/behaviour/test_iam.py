"""What each principal of a stack can do at all: every action that AWS knows, on what is the stack's and what is not."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import pytest

from support.cli.granted import ACCOUNTS, OPTIONS, ORGANIZATION, properties
from support.cli.iam import Request, is_allowed, is_allowed_across
from support.cli.principals import ARNS, ITEMS, OWN, ROLES, ROWS, TAGS, arned, principals, requests
from zae_limiter_cli.stack.options import StackOptions

pytestmark = pytest.mark.slow

Decided = frozenset[tuple[str, str]]

EVERYTHING: Final = OPTIONS["what adds statements"]
READ, WRITE = ("GetItem", "BatchGetItem"), ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem")
EVENTS: Final = frozenset(label for label in ITEMS if "event" in label)
OWN_ITEMS: Final = frozenset(label for label in ITEMS if label.startswith("own") and "other's" not in label)
BUCKETS: Final = frozenset(label for label in ITEMS if label.endswith("bucket"))
CALLS: Final = frozenset(label for label in ITEMS if label.endswith("call"))
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
IN_VPC: Final = on(
    ["account"],
    *(f"ec2:{verb}PrivateIpAddresses" for verb in ("Assign", "Unassign")),
    *(f"ec2:{verb}NetworkInterface" for verb in ("Create", "Delete")),
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
)
OF_A_LAMBDA: Final = TRACES | on(["key by way of lambda"], "kms:Decrypt")
KEY_OF_TABLE: Final = on(["key by way of dynamodb"], "kms:Decrypt")
MAY: Final[Mapping[str, Decided]] = {
    "AcquirePolicy": KEY_OF_TABLE | on(ITEMS, *READ) | on(BUCKETS | CALLS, "PutItem", "UpdateItem"),
    "AcquireOwnPolicy": KEY_OF_TABLE
    | on(OWN_ITEMS | {"registry"}, *READ)
    | on({"own bucket", "own call"}, "PutItem", "UpdateItem"),
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
    "VpcPolicy": IN_VPC,
    "delegation": on(["ns-tenant-alpha of planner", "ns-tenant-alpha of provisioner"], "lambda:InvokeFunction"),
    "delegation to plan": on(["ns-tenant-alpha of planner"], "lambda:InvokeFunction"),
    "Provisioner": KEY_OF_TABLE
    | on(ITEMS, *READ)
    | on(OF_GSI3 | OF_GSI4 | {"registry"}, "Query")
    | WRITTEN
    | log_of("limits-provisioner")
    | OF_A_LAMBDA,
    "Planner": KEY_OF_TABLE | on(ITEMS, *READ) | on(OF_GSI4, "Query") | log_of("limits-planner") | OF_A_LAMBDA,
    "Aggregator": KEY_OF_TABLE
    | on(["key by way of sqs"], "kms:Decrypt", "kms:GenerateDataKey")
    | on(["key by way of s3"], "kms:GenerateDataKey")
    | on(ITEMS, "BatchGetItem")
    | on(["registry"], "Query")
    | on(BUCKETS | ENTITIES, "PutItem", "UpdateItem")
    | on(BUCKETS, "DeleteItem")
    | on(["stream"], "DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
    | on(["archived event"], "s3:PutObject")
    | on(["dead letters"], "sqs:SendMessage")
    | on(["bus"], "events:PutEvents")
    | log_of("aggregator")
    | OF_A_LAMBDA,
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


BY_ORGANIZATION: Final = replace(EVERYTHING, trusted_accounts="", trusted_organization=ORGANIZATION)


def test_a_role_of_a_lambda_is_for_lambda_and_that_of_an_application_for_accounts_that_are_trusted() -> None:
    account = {"AWS": {"Fn::Sub": "arn:${AWS::Partition}:iam::${AWS::AccountId}:root"}}
    member = {"StringEquals": {"aws:PrincipalOrgID": ORGANIZATION}}
    for options, others in (
        (EVERYTHING, [({"AWS": [*ACCOUNTS]}, None)]),
        (BY_ORGANIZATION, [({"AWS": "*"}, member)]),
        (replace(EVERYTHING, trusted_accounts=""), []),
    ):
        trusted = {
            name: each["AssumeRolePolicyDocument"]["Statement"]
            for name, each in properties(options).items()
            if "Role" in name
        }
        found = {
            name: [(each["Principal"], each.get("Condition")) for each in statements]
            for name, statements in trusted.items()
        }
        assert found == {
            **{f"{name}Role": [({"Service": "lambda.amazonaws.com"}, None)] for name in ROLES},
            "AcquireRole": [(account, None), *others],
            "FullRole": [(account, None)],
            "ReadRole": [(account, None)],
        }


@pytest.mark.parametrize(
    ("options", "who", "may"),
    [
        (EVERYTHING, {"aws:PrincipalAccount": (ACCOUNTS[1],)}, True),
        (EVERYTHING, {"aws:PrincipalAccount": ("999900001111",), "aws:PrincipalOrgID": (ORGANIZATION,)}, False),
        (BY_ORGANIZATION, {"aws:PrincipalAccount": ("999900001111",), "aws:PrincipalOrgID": (ORGANIZATION,)}, True),
        (BY_ORGANIZATION, {"aws:PrincipalAccount": (ACCOUNTS[1],), "aws:PrincipalOrgID": ("o-zzzzzzzzzz",)}, False),
        (BY_ORGANIZATION, {"aws:PrincipalAccount": (ACCOUNTS[1],)}, False),
    ],
    ids=["of the list", "not of the list", "of the organization", "of another one", "of none"],
)
def test_whoever_is_trusted_elsewhere_may_acquire_and_nothing_else(
    options: StackOptions, who: Mapping[str, tuple[str, ...]], *, may: bool
) -> None:
    """Even an administrator of the other account."""
    policy = arned(properties(options)["Table"]["ResourcePolicy"]["PolicyDocument"])
    admin = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    found = frozenset(
        (action, label)
        for action, label, request in requests()
        if is_allowed_across([admin], replace(request, context={**request.context, **who}), policy)
    )
    assert found == (MAY["AcquirePolicy"] - KEY_OF_TABLE if may else frozenset())


def test_a_table_without_trusted_accounts_has_no_policy() -> None:
    assert "ResourcePolicy" not in properties(OPTIONS["defaults"])["Table"]


def test_a_lambda_in_a_vpc_is_connected_by_its_role_whose_code_makes_no_network_interface() -> None:
    resources = properties(EVERYTHING)
    for name, function in zip(ROLES, ("aggregator", "limits-provisioner", "limits-planner"), strict=True):
        assert resources[f"{name}Role"]["ManagedPolicyArns"] == [{"Ref": "VpcPolicy"}]
        arn = f"arn:aws:lambda:us-east-1:123456789012:function:my-app-{function}"
        for source, may in (({}, True), ({"lambda:SourceFunctionArn": (arn,)}, False)):
            request = Request("ec2:CreateNetworkInterface", "*", source)
            assert is_allowed(principals(EVERYTHING)["VpcPolicy"], request) is may
    assert "VpcPolicy" not in properties(OPTIONS["defaults"])
