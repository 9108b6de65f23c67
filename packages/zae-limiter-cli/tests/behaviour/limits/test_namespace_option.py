"""`-N` of `limits plan`, `apply` and `diff`: of several manifests the one of this namespace, and no other."""

import json

import pytest
from click.testing import CliRunner

from support.cli.limits_stack import PLANNER, Stack
from support.provisioner.provisions import limits, manifest
from zae_limiter_cli.main import main
from zae_limiter_manifest import LimitsManifest, dump, load

ALPHA = dump(manifest("tenant-alpha", resources={"gpt-4": limits(500)}))
BETA = dump(manifest("tenant-beta", resources={"gpt-4": limits(1)}))


def both(stack: Stack) -> tuple[str, ...]:
    return ("-f", stack.write(ALPHA), "-f", stack.write(BETA, "beta.yaml"))


@pytest.mark.parametrize("command", ["plan", "diff", "apply"])
@pytest.mark.parametrize("option", ["-N", "--namespace"])
def test_of_several_manifests_the_one_of_the_namespace_is_taken(stack: Stack, command: str, option: str) -> None:
    more = ["--yes"] if command == "apply" else []
    told = json.loads(stack.ok(command, *more, *both(stack), option, "tenant-beta", "-o", "json"))
    assert [each["namespace"] for each in told["namespaces"]] == ["tenant-beta"]
    assert {each["namespace"] for each in stack.asked} == {"tenant-beta"}
    assert stack.world.ask("export", "tenant-alpha").status == "failed"


@pytest.mark.parametrize("command", ["plan", "diff", "apply"])
def test_a_manifest_of_another_namespace_is_refused_and_nothing_is_asked(stack: Stack, command: str) -> None:
    more = ["--yes"] if command == "apply" else []
    told = stack.error(command, *more, "-f", stack.write(ALPHA), "-N", "tenant-beta")
    way_out = "pass a file of tenant-beta, or leave --namespace out"
    assert told == f"--namespace tenant-beta: the files declare tenant-alpha: {way_out}\n"
    told = stack.error(command, *more, *both(stack), "-N", "tenant-gamma")
    assert told.startswith("--namespace tenant-gamma: the files declare tenant-alpha, tenant-beta: ")
    assert stack.asked == []


def test_a_saved_plan_of_another_namespace_is_refused(stack: Stack) -> None:
    saved = str(stack.directory / "alpha.plan")
    stack.ok("plan", *both(stack), "-N", "tenant-alpha", "--out", saved)
    stack.actions()
    told = stack.error("apply", "--yes", saved, "-N", "tenant-beta")
    assert told == f"{saved}: this plan is for the namespace tenant-alpha, not tenant-beta\n"
    assert stack.asked == []
    stack.ok("apply", "--yes", saved, "-N", "tenant-alpha")
    assert stack.world.live() == load(ALPHA)


def test_the_namespace_of_the_environment_chooses_nothing(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_NAMESPACE", "tenant-gamma")
    told = json.loads(stack.ok("plan", *both(stack), "-o", "json"))
    assert [each["namespace"] for each in told["namespaces"]] == ["tenant-alpha", "tenant-beta"]


def test_a_mistake_in_any_file_is_still_a_mistake(stack: Stack) -> None:
    wrong = stack.write("namespace: tenant-beta\nresource: {}\n", "beta.yaml")
    assert stack.error("plan", "-f", stack.write(ALPHA), "-f", wrong, "-N", "tenant-alpha").startswith(f"{wrong}:2:1: ")


def test_the_stack_and_the_region_may_stand_before_the_group(stack: Stack) -> None:
    args = ["--name", "my-app", "--region", "us-east-1", "--endpoint-url", stack.url, "limits", "plan"]
    done = CliRunner().invoke(main, [*args, "-f", stack.write(ALPHA), "--exit-code"])
    assert (done.exit_code, stack.paths) == (2, [PLANNER])


def test_an_empty_manifest_is_chosen_like_any_other(stack: Stack) -> None:
    stack.world.apply(load(ALPHA))
    stack.ok("apply", "--yes", "--allow-deletes", "-f", stack.write("namespace: tenant-alpha\n"), "-N", "tenant-alpha")
    assert stack.world.live() == LimitsManifest("tenant-alpha")


@pytest.mark.parametrize(
    "command",
    [
        ("export",),
        ("status",),
        ("unlock", "--yes", "lock"),
        ("status", "--follow"),
        ("stop",),
        ("status", "2"),
        ("rollback", "2"),
        ("export", "--out", "limits.yaml"),
    ],
    ids=" ".join,
)
def test_a_name_that_no_namespace_may_have_is_one_line_and_nothing_is_asked(
    stack: Stack, command: tuple[str, ...]
) -> None:
    told = stack.error(*command, "-N", "no name")
    assert told.startswith('namespace "no name" must be a letter')
    assert told.count("\n") == 1
    assert stack.asked == []
