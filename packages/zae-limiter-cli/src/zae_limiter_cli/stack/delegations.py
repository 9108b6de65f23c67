"""Delegate namespaces: aliases of the planner and the provisioner that serve one namespace each."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from zae_limiter_manifest.delegation import alias_of, namespace_of

from ..connection import Connection
from ..errors import CommandError
from .code import function_name

Kind = Literal["planner", "provisioner"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
LATEST: Final = "$LATEST"  # which `upgrade` replaces: an alias of a version would serve old code for ever


@dataclass(frozen=True, slots=True)
class Delegation:
    """A namespace, the name of its aliases, and the ARN of each, by the kind of function."""

    namespace: str
    alias: str
    arns: Mapping[Kind, str]

    def as_json(self) -> dict[str, Any]:
        """Return the delegation in plain values."""
        return {"namespace": self.namespace, "alias": self.alias, **{kind: self.arns.get(kind) for kind in KINDS}}

    def policy(self, kinds: Iterable[Kind]) -> dict[str, Any]:
        """Return the IAM policy that allows to invoke the aliases of these functions, and nothing else."""
        resources = [self.arns[kind] for kind in kinds]
        statement = {"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": resources}
        return {"Version": "2012-10-17", "Statement": [statement]}


def add(connection: Connection, namespace: str) -> Delegation:
    """Make the aliases of a namespace, or point them at the code that `upgrade` replaces. Raises ``CommandError`` if
    the stack's code would serve other namespaces by them; then they are gone again.
    """
    wanted = find(connection, namespace)
    made = Delegation(namespace, wanted.alias, {kind: _put(connection, kind, wanted) for kind in KINDS})
    for kind in KINDS:
        if not _refuses_others(connection, kind, made):
            remove(connection, namespace)
            raise CommandError(
                f"{function_name(connection.name, kind)} does not keep to one namespace, so nothing is delegated: "
                f"`zae-limiter upgrade --name {connection.name}` brings code that does"
            )
    return made


def find(connection: Connection, namespace: str) -> Delegation:
    """Return the delegation of a namespace, without ARNs if there is none. Raises ``CommandError`` if there can be
    none.
    """
    try:
        alias = alias_of(namespace)
    except ValueError as error:
        raise CommandError(str(error)) from error
    return next((each for each in find_all(connection) if each.alias == alias), Delegation(namespace, alias, {}))


def find_all(connection: Connection) -> list[Delegation]:
    """Return all delegations of a stack, by namespace."""
    found: dict[str, dict[Kind, str]] = {}
    client = connection.client("lambda")
    for kind in KINDS:
        name = function_name(connection.name, kind)
        try:
            aliases = [*client.get_paginator("list_aliases").paginate(FunctionName=name).search("Aliases")]
        except client.exceptions.ResourceNotFoundException:
            way_out = f"has `zae-limiter deploy --name {connection.name}` created one here?"
            raise CommandError(f"there is no function {name}: {way_out}") from None
        for each in aliases:
            found.setdefault(each["Name"], {})[kind] = each["AliasArn"]
    made = [Delegation(namespace, alias, arns) for alias, arns in found.items() if (namespace := _served(alias))]
    return sorted(made, key=lambda each: each.namespace)


def remove(connection: Connection, namespace: str) -> Delegation:
    """Delete the aliases of a namespace; return those that there were."""
    gone, client = find(connection, namespace), connection.client("lambda")
    for kind in gone.arns:
        client.delete_alias(FunctionName=function_name(connection.name, kind), Name=gone.alias)
    return gone


def _served(alias: str) -> str | None:
    with suppress(ValueError):
        return namespace_of(alias)
    return None


def _put(connection: Connection, kind: Kind, wanted: Delegation) -> str:
    client = connection.client("lambda")
    put = client.update_alias if kind in wanted.arns else client.create_alias
    name = function_name(connection.name, kind)
    return str(put(FunctionName=name, Name=wanted.alias, FunctionVersion=LATEST)["AliasArn"])


def _refuses_others(connection: Connection, kind: Kind, made: Delegation) -> bool:
    """Ask by the alias about another namespace, which need not exist."""
    other = f"{made.namespace[:1]}-other" if made.namespace != f"{made.namespace[:1]}-other" else "another"
    answer = connection.client("lambda", read_seconds=60).invoke(
        FunctionName=made.arns[kind], Payload=json.dumps({"action": "state", "namespace": other}).encode()
    )
    told = json.loads(answer["Payload"].read())
    errors = told.get("errors", ()) if isinstance(told, dict) else ()
    return [each.get("code") for each in errors] == ["not_delegated"]
