"""What `limits apply` may do without an answer, what it says with `--quiet`, and which plan it is allowed to apply."""

import json

import pytest

from support.cli.limits_stack import Stack
from support.provisioner.provisions import limits, manifest
from zae_limiter_manifest import dump, load

ALPHA = dump(manifest("tenant-alpha", resources={"gpt-4": limits(500)}))
BETA = dump(manifest("tenant-beta", resources={"gpt-4": limits(1)}))
EMPTY = "namespace: tenant-alpha\n"


def hash_of_plan(stack: Stack, *files: str) -> str:
    return stack.ok("plan", *files).splitlines()[-1].removeprefix("Hash: ")


def test_quiet_prints_the_result_alone(stack: Stack) -> None:
    told = stack.ok("apply", "--yes", "-q", "-f", stack.write(ALPHA))
    assert told == "Namespace tenant-alpha\nApplied: 1 created, 0 updated, 0 deleted.\n"


@pytest.mark.usefixtures("on_a_terminal")
def test_quiet_still_shows_what_is_asked_about(stack: Stack) -> None:
    done = stack.run("apply", "-q", "-f", stack.write(ALPHA), input="n\n")
    assert (done.exit_code, "+ resource gpt-4" in done.stdout) == (1, True)


def test_programs_find_the_refusal_of_deletes_in_their_document(stack: Stack) -> None:
    stack.ok("apply", "--yes", "-f", stack.write(ALPHA))
    both = ("-f", stack.write(EMPTY), "-f", stack.write(BETA, "beta.yaml"))
    stack.actions()
    done = stack.run("apply", "--yes", "-o", "json", *both)
    document = json.loads(done.stdout)
    (alpha,) = document["namespaces"]
    assert (done.exit_code, document["kind"], alpha["namespace"]) == (1, "applied", "tenant-alpha")
    assert (alpha["status"], alpha["errors"][0]["code"], alpha["changes"]) == ("failed", "guarded", [])
    assert done.stderr == f"Error: tenant-alpha: {alpha['errors'][0]['message']}\n"
    assert stack.actions() == ["plan", "plan"]


def test_programs_find_the_refusal_of_a_plan_in_their_document(stack: Stack) -> None:
    stack.world.repository().delete_namespace("tenant-alpha")
    done = stack.run("apply", "--yes", "-o", "json", "-f", stack.write(ALPHA))
    (alpha,) = json.loads(done.stdout)["namespaces"]
    assert (done.exit_code, alpha["status"], stack.actions()) == (1, "failed", ["plan"])


def test_the_plan_with_the_expected_hash_is_applied(stack: Stack) -> None:
    file = stack.write(ALPHA)
    expected = hash_of_plan(stack, "-f", file)
    assert json.loads(stack.ok("plan", "-f", file, "-o", "json"))["hash"] == expected
    assert stack.ok("plan", "-f", file, "-o", "markdown").endswith(f"\n\nPlan hash: `{expected}`\n")
    stack.ok("apply", "--yes", "-f", file, "--expect-hash", expected)
    assert stack.world.live() == load(ALPHA)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_plan_with_another_hash_is_refused(stack: Stack, form: str) -> None:
    expected = hash_of_plan(stack, "-f", stack.write(ALPHA))
    other = stack.write(ALPHA.replace("500", "501"))
    found = hash_of_plan(stack, "-f", other)
    stack.actions()
    refused = stack.run("apply", "--yes", "-f", other, "--expect-hash", expected, "-o", form)
    assert (refused.exit_code, stack.actions()) == (1, ["plan"])
    told = f'the hash of the plan is {found}, not "{expected}" as expected: look at the plan, then pass its hash'
    assert refused.stderr == f"Error: tenant-alpha: {told}\n"
    assert bool(refused.stdout) == (form == "json")


def test_the_hash_of_several_namespaces_is_one(stack: Stack) -> None:
    alpha, beta = ("-f", stack.write(ALPHA)), ("-f", stack.write(BETA, "beta.yaml"))
    expected = hash_of_plan(stack, *alpha, *beta)
    assert expected == hash_of_plan(stack, *beta, *alpha)
    assert len({expected, hash_of_plan(stack, *alpha), hash_of_plan(stack, *beta)}) == 3
    assert stack.run("apply", "--yes", *alpha, "--expect-hash", expected).exit_code == 1
    stack.ok("apply", "--yes", *alpha, *beta, "--expect-hash", expected)


def test_a_saved_plan_has_the_hash_that_was_printed(stack: Stack) -> None:
    out = str(stack.directory / "alpha.plan")
    expected = hash_of_plan(stack, "-f", stack.write(ALPHA), "--out", out)
    refused = stack.run("apply", "--yes", out, "--expect-hash", "")
    assert (refused.exit_code, 'not "" as expected' in refused.stderr) == (1, True)
    stack.ok("apply", "--yes", out, "--expect-hash", expected)


def test_an_apply_with_an_expected_hash_that_is_overtaken_is_refused(stack: Stack) -> None:
    expected = hash_of_plan(stack, "-f", stack.write(ALPHA))

    def overtake(event: dict[str, object]) -> None:
        if event["action"] == "plan":
            stack.before = lambda _: None
            stack.world.apply(load(BETA.replace("beta", "alpha")))

    stack.before = overtake
    stack.actions()
    refused = stack.run("apply", "--yes", "-f", stack.write(ALPHA), "--expect-hash", expected)
    assert (refused.exit_code, stack.actions()) == (1, ["plan", "apply"])
    assert stack.world.live() == load(BETA.replace("beta", "alpha"))
