"""Name roles and policies by the formats that operators give."""

from typing import Final

from ...errors import CommandError
from .language import Resource, Resources, Value, text, when

LONGEST: Final = {"RoleName": 64, "ManagedPolicyName": 128}


def role_name(name: str) -> Resource:
    """Return the property that names a role; none if CloudFormation shall find a name, which no other region has."""
    return {"RoleName": _formed("Role", name)}


def policy_name(name: str) -> Resource:
    """Return the property that names a managed policy; none if CloudFormation shall find a name."""
    return {"ManagedPolicyName": _formed("Policy", name)}


def check_lengths(resources: Resources) -> None:
    """Raise ``CommandError`` if IAM takes no name of such a length; only a stack's own name tells."""
    for each in resources.values():
        for kind, longest in LONGEST.items():
            name = each["Properties"].get(kind, "")
            if len(name) > longest:
                option = "--role-name-format" if kind == "RoleName" else "--policy-name-format"
                raise CommandError(f"{option}: {name!r} has {len(name)} characters, and IAM takes {longest} at most")


def _formed(kind: str, name: str) -> Value:
    named = text(f"${{{kind}NamePrefix}}${{AWS::StackName}}-{name}${{{kind}NameSuffix}}")
    return when(f"Names{kind}", named)
