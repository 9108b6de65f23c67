"""What roles and policies of the template allow, and the provisioner at work.

Lives here: how a test reads a template. Never: an expectation.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from support.cli.calls import Call, RecordingStore
from support.cli.iam import listed
from zae_limiter_cli.stack.options import StackOptions
from zae_limiter_cli.stack.template.build import plain
from zae_limiter_manifest import LimitsManifest, Request
from zae_limiter_provisioner.actions import perform
from zae_limiter_provisioner.table import Table

MANIFEST = {
    "namespace": "tenant-alpha",
    "system": {"on_unavailable": "allow", "limits": {"rpm": {"capacity": 100}}},
    "resources": {"gpt-4": {"limits": {"rpm": {"capacity": 10}}}},
    "entities": {
        "key-abc": {"resources": {"gpt-4": {"limits": {"rpm": {"capacity": 5}}}}},
        "key-def": {"resources": {"_default_": {"limits": {"rpm": {"capacity": 5}}}}},
    },
}
KEY = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
BUS = "arn:aws:events:us-east-1:123456789012:event-bus/default"
ACCOUNTS = ("111122223333", "444455556666")
ORGANIZATION = "o-a1b2c3d4e5"
REGION = {
    "AWS::Region": "us-east-1",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::Partition": "aws",
    "AWS::AccountId": "123456789012",
}
NAMES = {"Table": "my-app", "ArchiveBucket": "archive", "DeadLetters": "dead-letters"}

OPTIONS = {
    "defaults": StackOptions(),
    "what adds statements": StackOptions(
        kms_key_arn=KEY,
        tracing=True,
        alert_bus_arn=BUS,
        app_roles=True,
        trusted_accounts=",".join(ACCOUNTS),
        subnet_ids="subnet-0a1b2c3d",
        security_group_ids="sg-0a1b2c3d",
    ),
}


def properties(options: StackOptions) -> dict[str, Any]:
    """The properties of each resource of a stack."""
    return {name: each["Properties"] for name, each in plain("my-app", options)["Resources"].items()}


def statements(document: Mapping[str, Any], names: Mapping[str, str] = NAMES) -> list[dict[str, Any]]:
    """Return the statements of a policy, with names in place of what CloudFormation would fill in."""
    filled: list[dict[str, Any]] = _filled(document["Statement"], names)
    return filled


def _filled(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case {"Fn::GetAtt": ["Table", "StreamArn"]}:
            return f"{names['Table']}/stream/label"
        case {"Fn::GetAtt": [name, _]}:
            return names.get(name, name)
        case {"Fn::Sub": str(text)}:
            for name, instead in {**names, **REGION}.items():
                text = text.replace(f"${{{name}.Arn}}", instead).replace(f"${{{name}}}", instead)
            return text
        case {"Fn::Sub": _} | {"Ref": _}:
            raise ValueError(f"nothing to fill in for {value}")
        case dict():
            return {key: _filled(part, names) for key, part in value.items()}
        case list():
            return [_filled(each, names) for each in value]
    return value


def role_documents(resources: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the policies of a Lambda's role."""
    return [each["PolicyDocument"] for each in resources[f"{name}Role"]["Policies"]]


def role_statements(resources: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the statements of all of them."""
    return [each for document in role_documents(resources, name) for each in statements(document)]


def tells_alerts(resources: Mapping[str, Any]) -> bool:
    """Return whether the aggregator has a bus for alerts."""
    return "ZAEL_ALERT_BUS_ARN" in resources["AggregatorFunction"]["Environment"]["Variables"]


def idle(granted: Iterable[Mapping[str, Any]], calls: Iterable[Call]) -> list[tuple[str, str]]:
    """What may be done to the table and its indexes, and never is."""
    made = {(call.action, call.resource) for call in calls}
    pairs = [(action, name) for each in granted for action in each["Action"] for name in listed(each["Resource"])]
    return [pair for pair in pairs if pair not in made and pair[1].split("/index/")[0] == "my-app"]


@cache
def the_provisioner_at_work() -> frozenset[Call]:
    """What the provisioner asks of the table for an apply of everything, of as much again, of nothing, and the rest."""
    store = RecordingStore("my-app")
    table = Table(store, "my-app")
    limits = MANIFEST["resources"]
    many = {f"key-{number:05d}-{'x' * 200}": {"resources": limits} for number in range(2_000)}
    for levels in ({**MANIFEST, "entities": many}, MANIFEST, {"namespace": "tenant-alpha"}):
        wanted = LimitsManifest.from_dict(levels)
        for action in ("plan", "apply", "apply"):
            assert perform(table, Request.of(action, wanted), None).errors == ()
    for request in (Request("export", "tenant-alpha"), Request("state", "tenant-alpha")):
        perform(table, request, None)
    return frozenset(store.calls)
