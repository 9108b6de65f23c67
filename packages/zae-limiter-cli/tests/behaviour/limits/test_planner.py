"""Which function a command invokes: the planner only reads, and what it has planned is what the provisioner applies."""

import json

import pytest

from support.cli.limits_stack import PLANNER, PROVISIONER, Stack
from support.provisioner.provisions import limits, manifest
from zae_limiter_manifest import dump, load

ALPHA = dump(manifest("tenant-alpha", resources={"gpt-4": limits(500)}))
MISSING, FORBIDDEN = 404, 403
WHY = {
    MISSING: "there is no function my-app-limits-planner",
    FORBIDDEN: "you may not invoke my-app-limits-planner",
}


@pytest.fixture
def applied(stack: Stack) -> str:
    """A file whose limits were applied."""
    file = stack.write(ALPHA)
    stack.ok("apply", "--yes", "-f", file)
    stack.paths.clear()
    return file


def test_commands_that_read_invoke_the_planner_alone(stack: Stack, applied: str) -> None:
    stack.refused[PROVISIONER] = FORBIDDEN
    stack.ok("plan", "-f", applied)
    stack.ok("diff", "-f", applied)
    stack.ok("export", "-N", "tenant-alpha")
    stack.ok("status", "-N", "tenant-alpha")
    assert stack.paths == [PLANNER] * 5


def test_commands_that_write_invoke_the_provisioner_alone(stack: Stack) -> None:
    stack.refused[PLANNER] = FORBIDDEN
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    assert "no apply holds the lock" in stack.error("unlock", "--yes", "-N", "tenant-alpha", "0123456789abcdef")
    assert stack.paths == [PROVISIONER] * 3


def test_a_plan_of_the_planner_has_the_hash_that_the_provisioner_expects(stack: Stack) -> None:
    file = stack.write(ALPHA)
    planned = json.loads(stack.ok("plan", "-f", file, "-o", "json"))
    stack.refused[PLANNER] = MISSING
    assert json.loads(stack.run("plan", "-f", file, "-o", "json").stdout) == planned
    stack.ok("apply", "--yes", "-f", file, "--expect-hash", planned["hash"])
    assert stack.world.live() == load(ALPHA)


def test_a_plan_that_the_planner_made_is_applied_as_it_was_saved(stack: Stack) -> None:
    saved = str(stack.directory / "alpha.plan")
    stack.ok("plan", "-f", stack.write(ALPHA), "--out", saved)
    assert stack.ok("apply", "--yes", saved).endswith("Applied: 1 created, 0 updated, 0 deleted.\n")
    assert stack.paths == [PLANNER, PROVISIONER]


@pytest.mark.parametrize("status", WHY)
def test_where_the_planner_is_out_of_reach_the_provisioner_answers_and_that_is_said(
    stack: Stack, applied: str, status: int
) -> None:
    planned = stack.ok("plan", "-f", applied)
    stack.refused[PLANNER] = status
    done = stack.run("plan", "-f", applied)
    assert (done.exit_code, done.stdout) == (0, planned)
    assert done.stderr == f"tenant-alpha: the provisioner answered, because {WHY[status]}\n"
    assert stack.run("status", "-N", "tenant-alpha").exit_code == 0


@pytest.mark.parametrize("status", WHY)
@pytest.mark.parametrize("other", [MISSING, FORBIDDEN])
def test_where_both_are_out_of_reach_the_error_is_about_the_planner(stack: Stack, status: int, other: int) -> None:
    stack.refused = {PLANNER: status, PROVISIONER: other}
    way_out = {
        MISSING: "has `zae-limiter deploy --name my-app` created one here?",
        FORBIDDEN: "by a test; the stack's InvokePlannerPolicy allows it, and so does "
        "`zae-limiter delegation list --policy tenant-alpha --plan-only` for this namespace alone",
    }
    assert stack.error("plan", "-f", stack.write(ALPHA)) == f"{WHY[status]}: {way_out[status]}\n"


def test_who_may_not_invoke_the_provisioner_is_told_which_policy_allows_it(stack: Stack) -> None:
    stack.refused[PROVISIONER] = FORBIDDEN
    assert stack.error("apply", "--yes", "-f", stack.write(ALPHA)) == (
        "you may not invoke my-app-limits-provisioner: by a test; the stack's InvokeProvisionerPolicy allows it, and "
        "so does `zae-limiter delegation list --policy tenant-alpha` for this namespace alone\n"
    )
    assert stack.world.items() == []


OURS, OTHERS = "?Qualifier=ns-tenant-alpha", "?Qualifier=ns-tenant-beta"


@pytest.fixture
def delegated(stack: Stack) -> Stack:
    """A stack of which the caller may invoke the aliases of tenant-alpha alone."""
    stack.aliases = {"ns-tenant-alpha", "ns-tenant-beta"}
    functions = (PLANNER, PROVISIONER)
    stack.refused = {f"{each}{alias}": FORBIDDEN for each in functions for alias in ("", OTHERS)}
    return stack


def test_who_may_invoke_the_aliases_of_one_namespace_plans_and_applies_it_with_the_same_commands(
    delegated: Stack,
) -> None:
    file = delegated.write(ALPHA)
    delegated.ok("plan", "-f", file)
    delegated.ok("apply", "--yes", "-f", file)
    delegated.ok("diff", "-f", file)
    assert "by alias ns-tenant-alpha" in delegated.ok("status", "-N", "tenant-alpha", "-o", "json")
    assert delegated.world.live() == load(ALPHA)
    assert delegated.paths[:2] == [PLANNER, f"{PLANNER}{OURS}"]
    assert f"{PROVISIONER}{OURS}" in delegated.paths


@pytest.mark.parametrize("command", [("plan",), ("apply", "--yes")])
def test_who_may_invoke_the_aliases_of_one_namespace_gets_nowhere_with_another(
    delegated: Stack, command: tuple[str, ...]
) -> None:
    beta = delegated.write(ALPHA.replace("tenant-alpha", "tenant-beta"))
    assert delegated.error(*command, "-f", beta).startswith("you may not invoke my-app-limits-p")
    assert delegated.world.items() == []


def test_who_may_only_plan_one_namespace_cannot_apply_it(delegated: Stack) -> None:
    delegated.refused[f"{PROVISIONER}{OURS}"] = FORBIDDEN
    file = delegated.write(ALPHA)
    delegated.ok("plan", "-f", file)
    assert delegated.error("apply", "--yes", "-f", file) == (
        "you may not invoke my-app-limits-provisioner: by a test; the stack's InvokeProvisionerPolicy allows it, and "
        "so does `zae-limiter delegation list --policy tenant-alpha` for this namespace alone\n"
    )
    assert delegated.world.items() == []
