"""What lives here: a delegated namespace, by aliases of functions that run.
What never does: what the functions refuse in detail (the provisioner's own tests), or what IAM decides (test_iam).
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.integration.declared import changed, named
from support.integration.names import own_name
from support.integration.targets import Target
from zae_limiter import Limit, SyncRepository
from zae_limiter_cli.main import main
from zae_limiter_manifest import StackProperties, render_template
from zae_limiter_manifest.delegation import alias_of

pytestmark = pytest.mark.needs("lambda", "custom-resource")


def delegation(target: Target, *words: str) -> str:
    endpoint = ["--endpoint-url", target.services_url] if target.services_url else []
    done = CliRunner().invoke(main, ["delegation", *words, "-n", str(target.stack), *endpoint])
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def namespace(target: Target) -> Iterator[str]:
    name = own_name()
    delegation(target, "add", name)
    yield name
    delegation(target, "remove", name)


@pytest.fixture
def arns(target: Target, namespace: str) -> list[str]:
    (statement,) = json.loads(delegation(target, "list", "--policy", namespace))["Statement"]
    assert statement["Action"] == "lambda:InvokeFunction"
    return list(statement["Resource"])


def test_what_the_policy_allows_serves_one_namespace(target: Target, namespace: str, arns: list[str]) -> None:
    wanted, other = named(namespace, changed(500)), named(f"{namespace}-b", changed(500))
    planner, provisioner = arns
    assert planner.endswith(f":{target.stack}-limits-planner:{alias_of(namespace)}")
    with closing(target.client("lambda")) as client:

        def ask(function: str, action: str, manifest: Any) -> dict[str, Any]:
            payload = json.dumps({"action": action, "manifest": manifest.to_dict(), "principal": "alice"})
            return dict(json.loads(client.invoke(FunctionName=function, Payload=payload)["Payload"].read()))

        assert ask(planner, "plan", wanted)["status"] == "planned"
        assert ask(planner, "apply", wanted)["errors"][0]["code"] == "read_only"
        assert ask(provisioner, "apply", wanted)["status"] == "applied"
        for function, action in ((planner, "plan"), (provisioner, "plan"), (provisioner, "apply")):
            (error,) = ask(function, action, other)["errors"]
            assert error["code"] == "not_delegated"
            assert f"{namespace} alone, not {namespace}-b" in error["message"]
    with SyncRepository.open(namespace, stack=target.stack, endpoint_url=target.endpoint_url) as repository:
        assert repository.get_limits("user-123", "gpt-4") == [Limit.per_minute("rpm", 500)]


def test_what_comes_by_the_alias_keeps_the_bounds(
    target: Target, namespace: str, arns: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "bounds.yaml"
    file.write_text("limits: {rpm: 10k/min}")
    delegation(target, "add", namespace, "--bounds", str(file))
    with closing(target.client("lambda")) as client:
        for function, action in ((arns[0], "plan"), (arns[1], "apply")):
            for rpm, codes in ((10_001, ["beyond_bounds"]), (500, [])):
                wanted = {"action": action, "manifest": named(namespace, changed(rpm)).to_dict()}
                told = json.loads(client.invoke(FunctionName=function, Payload=json.dumps(wanted))["Payload"].read())
                assert [each["code"] for each in told["errors"]] == codes
        forged = json.dumps({"action": "unbind", "namespace": namespace})
        told = json.loads(client.invoke(FunctionName=arns[1], Payload=forged)["Payload"].read())
        assert told["errors"][0]["code"] == "not_delegated"
    delegation(target, "add", namespace)  # which leaves them as they are
    assert delegation(target, "list", "--bounds-of", namespace) == 'limits:\n  rpm: "10k/min"\n'


def test_a_stack_may_own_a_namespace_by_its_alias(target: Target, namespace: str, arns: list[str]) -> None:
    planner, provisioner = arns
    del planner
    template = render_template(StackProperties(named(namespace, changed(500))), str(target.stack), delegated=True)
    assert f"- {alias_of(namespace)}\n" in template
    assert provisioner.endswith(f"-limits-provisioner:{alias_of(namespace)}")
    with closing(target.client("cloudformation")) as client:
        client.create_stack(StackName=namespace, TemplateBody=template)
        client.get_waiter("stack_create_complete").wait(StackName=namespace, WaiterConfig={"Delay": 1})
        client.delete_stack(StackName=namespace)
        client.get_waiter("stack_delete_complete").wait(StackName=namespace, WaiterConfig={"Delay": 1})


def test_delegations_are_listed_added_again_and_removed(target: Target, namespace: str) -> None:
    found = json.loads(delegation(target, "list", "-o", "json"))["items"]
    assert [each["alias"] for each in found if each["namespace"] == namespace] == [alias_of(namespace)]
    added = json.loads(delegation(target, "add", namespace, "-o", "json"))
    assert {name: each for name, each in added.items() if name not in ("schema_version", "kind")} in found
    assert delegation(target, "remove", namespace).startswith(f"{namespace}: not delegated any more: the alias ns-")
    assert delegation(target, "remove", namespace) == f"{namespace}: was not delegated.\n"


def test_a_namespace_that_is_not_delegated_has_no_policy(target: Target) -> None:
    name, endpoint = own_name(), ["--endpoint-url", target.services_url] if target.services_url else []
    done = CliRunner().invoke(main, ["delegation", "list", "--policy", name, "-n", str(target.stack), *endpoint])
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"`zae-limiter delegation add {name} --name {target.stack}` makes it" in done.stderr
