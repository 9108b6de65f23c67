"""Show the changes that `deploy`, `upgrade` and `delete` would make. A change set is created and removed again; nothing
else changes.
"""

from collections.abc import Iterator
from typing import Any, Final, TypedDict

from zae_limiter.values.versions import record_of_this_release, record_over

from ..connection import Connection
from . import cloudformation, record
from .code import find_function, function_name
from .deploy import Plan, build_artifacts

BUCKET: Final = "AWS::S3::Bucket"


class Change(TypedDict):
    """One thing that would change: ``action`` is ``+``, ``~``, ``-``, or ``-/+`` for one that is replaced."""

    action: str
    what: str
    kind: str
    details: str


def preview(client: Any, plan: Plan, connection: Connection) -> list[Change]:
    """Return everything that `deploy` would change, the stack's resources first."""
    return [*_resources(client, connection.name, plan), *beside(connection, plan)]


def removal(client: Any, stack: cloudformation.Stack, bucket: str | None) -> list[Change]:
    """Return what `delete` would remove: the stack's resources, and the archive's ``bucket``."""
    pages = client.get_paginator("list_stack_resources").paginate(StackName=stack.name)
    there = [each for page in pages for each in page["StackResourceSummaries"]]
    gone = [(each["LogicalResourceId"], each["ResourceType"]) for each in there if not _is_archive(each, stack)]
    gone += [(bucket, BUCKET)] if bucket else []
    return [{"action": "-", "what": what, "kind": kind, "details": ""} for what, kind in gone]


def _is_archive(resource: dict[str, Any], stack: cloudformation.Stack) -> bool:
    """Return whether it is the bucket that CloudFormation leaves."""
    return resource["ResourceType"] == BUCKET and resource.get("PhysicalResourceId") == stack.archive_bucket


def _resources(client: Any, name: str, plan: Plan) -> Iterator[Change]:
    if plan.stack is None:
        for what, resource in plan.template["Resources"].items():
            yield {"action": "+", "what": what, "kind": resource["Type"], "details": ""}
    elif not plan.equal:
        for told in cloudformation.preview(client, name, plan.source, plan.tags):
            change = _change(told)
            if change["action"] == "-" and change["kind"] == BUCKET:
                change["details"] = f"bucket {plan.bucket_left} stays, outside the stack"
            yield change


def _change(told: dict[str, Any]) -> Change:
    action = {"Add": "+", "Remove": "-"}.get(told["Action"], "~")
    if told.get("Replacement") == "True":
        action = "-/+"
    targets = (each.get("Target", {}) for each in told.get("Details", ()))
    named = {target.get("Name") or target.get("Attribute", "") for target in targets}
    return {
        "action": action,
        "what": told["LogicalResourceId"],
        "kind": told["ResourceType"],
        "details": ", ".join(sorted(named)),
    }


def beside(connection: Connection, plan: Plan) -> Iterator[Change]:
    """Yield the changes outside CloudFormation: code and the version record."""
    client = connection.client("lambda")
    for artifact in build_artifacts(plan.options):
        name = function_name(connection.name, artifact.name)
        function = None if plan.stack is None else find_function(client, name)
        if function is None or function.code_sha256 != artifact.code_sha256:
            action = "~" if function and function.version else "+"
            yield {"action": action, "what": name, "kind": "code", "details": artifact.version}
    with connection.open_table() as table:
        before = None if plan.stack is None else record.read_record(table)
    ours = record_over(before) if before else record_of_this_release()
    if before != ours:
        action, told = "~" if before else "+", f"schema {ours.schema_version}, core {ours.core_version}"
        yield {"action": action, "what": connection.name, "kind": "version record", "details": told}
