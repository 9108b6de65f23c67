"""Aliases of functions whose code keeps to a namespace, and of functions whose code does not."""

import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from support.cli.account import Account
from zae_limiter_cli.main import main
from zae_limiter_cli.stack.code import function_name
from zae_limiter_cli.stack.delegations import KINDS, Delegation

pytestmark = pytest.mark.slow

KEEPS = """
kept = {}

def handler(event, context):
    alias = context.invoked_function_arn.split(":")[7:]
    if event["action"] in ("bind", "bounds", "unbind"):
        beyond = [{"code": "beyond_bounds", "message": "is 9", "path": "system.limits.rpm"}]
        if event["action"] == "unbind":
            kept.clear()
        if event["action"] == "bind":
            kept.update(bounds=event["bounds"], beyond=beyond)
        return {"status": "applied", "namespace": event["namespace"], "serial": None, "errors": [], **kept}
    return {"errors": [] if alias == ["ns-" + event["namespace"]] else [{"code": "not_delegated"}]}
"""
OLD = """
def handler(event, context):
    if event["action"] == "state":
        return {"errors": [{"code": "not_delegated"}]}
    errors = [{"code": "unknown_action", "message": "there is no action"}]
    return {"status": "failed", "namespace": event["namespace"], "serial": None, "errors": errors}
"""
SERVES_ALL = "def handler(event, context): return {'errors': []}"


def stack_of(account: Account, *sources: str) -> str:
    name = f"stack-{uuid.uuid4().hex[:8]}"
    for kind, source in zip(KINDS, sources, strict=True):
        account.function(source, name=function_name(name, kind))
    return name


@pytest.fixture
def run(account: Account) -> Callable[..., Result]:
    def run(*words: str) -> Result:
        return CliRunner().invoke(main, ["delegation", *words, "--endpoint-url", account.aws.url])

    return run


def test_functions_that_keep_to_a_namespace_get_an_alias_each(account: Account, run: Callable[..., Result]) -> None:
    name = stack_of(account, KEEPS, KEEPS)
    assert run("list", "-n", name).stdout == "No namespace is delegated.\n"
    assert run("add", "a", "-n", name).stdout == (
        f"a: the alias ns-a of {name}-limits-planner and {name}-limits-provisioner serves it alone.\n"
        f"`zae-limiter delegation list --policy a --name {name}` prints the policy to attach.\n"
    )
    assert run("add", "a", "-n", name).exit_code == 0  # again
    listed = run("list", "-n", name).stdout.splitlines()
    assert [each.split() for each in listed[1:]] == [["a", "ns-a", "planner,", "provisioner"]]
    arns = [f"arn:aws:lambda:us-east-1:123456789012:function:{name}-limits-{kind}:ns-a" for kind in KINDS]
    for options, allowed in (((), arns), (("--plan-only",), arns[:1])):
        assert json.loads(run("list", "--policy", "a", *options, "-n", name).stdout) == {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": allowed}],
        }


def test_bounds_are_set_before_the_aliases_are_there_and_go_with_them(
    account: Account, run: Callable[..., Result], tmp_path: Path
) -> None:
    name, file = stack_of(account, KEEPS, KEEPS), tmp_path / "bounds.yaml"
    file.write_text("limits: {rpm: 5}")
    assert run("add", "a", "-n", name, "--bounds", str(file)).exit_code == 1
    assert json.loads(run("list", "-n", name, "-o", "json").stdout)["items"] == []
    file.write_text("limits: {rpm: 5/min}")
    done = run("add", "a", "-n", name, "--bounds", str(file))
    assert (done.exit_code, done.stdout.splitlines()[1]) == (0, f"a: its bounds are those of {file}.")
    assert " ".join(done.stderr.split()) == (
        "Warning: a: the limits that it has now are beyond the bounds of its delegation at 1 place, first "
        "system.limits.rpm: is 9"
    )
    asked = partial(account.client("lambda").invoke, FunctionName=function_name(name, "provisioner"))
    payload = json.dumps({"action": "bounds", "namespace": "a"})
    assert json.loads(asked(Payload=payload)["Payload"].read())["bounds"] == {"limits": {"rpm": "5/min"}}
    assert run("add", "a", "-n", name).exit_code == 0  # which changes no bounds
    assert "bounds" in json.loads(asked(Payload=payload)["Payload"].read())
    assert run("add", "a", "-n", name, "--bounds", str(file), "--unbounded").exit_code == 1
    for words in (("add", "--unbounded"), ("add", "--bounds", str(file)), ("remove",)):
        assert run(*words, "a", "-n", name).exit_code == 0
    assert "bounds" not in json.loads(asked(Payload=payload)["Payload"].read())


def test_functions_of_an_older_release_take_no_bounds(
    account: Account, run: Callable[..., Result], tmp_path: Path
) -> None:
    name, file = stack_of(account, OLD, OLD), tmp_path / "bounds.yaml"
    file.write_text("limits: {rpm: 5/min}")
    done = run("add", "a", "-n", name, "--bounds", str(file))
    assert done.stderr == (
        f"Error: the functions of {name} know no bounds: `zae-limiter upgrade --name {name}` brings code that does\n"
    )
    assert json.loads(run("list", "-n", name, "-o", "json").stdout)["items"] == []
    for words in (("add",), ("add", "--unbounded"), ("remove",)):
        assert run(*words, "a", "-n", name).exit_code == 0


@pytest.mark.parametrize("sources", [(SERVES_ALL, KEEPS), (KEEPS, SERVES_ALL)])
def test_code_that_serves_every_namespace_is_not_delegated(
    account: Account, run: Callable[..., Result], sources: tuple[str, str]
) -> None:
    name = stack_of(account, *sources)
    done = run("add", "a", "-n", name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "does not keep to one namespace, so nothing is delegated: `zae-limiter upgrade " in done.stderr
    assert json.loads(run("list", "-n", name, "-o", "json").stdout)["items"] == []


def test_other_aliases_are_no_delegations_and_stay(account: Account, run: Callable[..., Result]) -> None:
    name = stack_of(account, KEEPS, KEEPS)
    planner = function_name(name, "planner")
    for alias in ("live", "ns-7"):
        account.client("lambda").create_alias(FunctionName=planner, Name=alias, FunctionVersion="$LATEST")
    assert json.loads(run("list", "-n", name, "-o", "json").stdout)["items"] == []


@pytest.mark.parametrize("command", ["add", "list --policy", "remove"])
def test_a_stack_or_a_name_that_cannot_be_is_an_error_with_a_way_out(run: Callable[..., Result], command: str) -> None:
    done = run(*command.split(), "a", "-n", "no-such")
    assert (done.exit_code, done.stdout) == (1, "")
    way_out = "has `zae-limiter deploy --name no-such` created one here?"
    assert done.stderr == f"Error: there is no function no-such-limits-planner: {way_out}\n"
    done = run(*command.split(), "7", "-n", "no-such")
    assert done.stderr.startswith("Error: namespace '7' must be a letter, then ")


def test_a_delegation_without_a_function_says_so_in_json() -> None:
    told = Delegation("a", "ns-a", {"planner": "arn"}).as_json()
    assert told == {"namespace": "a", "alias": "ns-a", "planner": "arn", "provisioner": None}
