"""Delete the managed policies of a stack with it: moto creates them and leaves them behind."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs

from .wsgi import Application, Environ, Refused, body_of, query, scope_of

_KIND: Final = "AWS::IAM::ManagedPolicy"


def going(moto: Application, environ: Environ) -> list[str]:
    """Return the policies of the stack that a request deletes; none if it deletes none."""
    form = parse_qs(body_of(environ).decode())
    if form.get("Action") != ["DeleteStack"]:
        return []
    region, _ = scope_of(environ)
    asked = {"StackName": form["StackName"][0]}
    try:
        told = query(moto, "cloudformation", "DescribeStackResources", asked, region=region)
    except Refused:  # there is no such stack: moto says so itself
        return []
    found = told.iterfind(".//{*}StackResources/{*}member")
    return [each.findtext("{*}PhysicalResourceId", "") for each in found if each.findtext("{*}ResourceType") == _KIND]


def delete(moto: Application, policies: Iterable[str], *, region: str) -> None:
    """Delete policies that are still there."""
    for arn in policies:
        with suppress(Refused):
            query(moto, "iam", "DeletePolicy", {"PolicyArn": arn}, region=region)
