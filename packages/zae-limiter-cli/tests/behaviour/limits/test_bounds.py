"""A team with bounds: what its commands say, what those of the platform say, and the lines of a file."""

import json

import pytest
from click.testing import CliRunner, Result

from support.cli.limits_stack import PLANNER, PROVISIONER, Stack
from zae_limiter_cli.main import main
from zae_limiter_manifest import Bounds, load

BOUNDS = "limits: {rpm: 1000/min}\nparents: [org-*]\n"
SHOWN = 'limits:\n  rpm: "1k/min"\nparents: ["org-*"]\n'
WITHIN = "namespace: tenant-alpha\nsystem:\n  limits:\n    rpm: 1000/min\n"
BEYOND = WITHIN.replace("1000", "2000")
OURS = "?Qualifier=ns-tenant-alpha"
FORBIDDEN = 403
PROBLEM = "system.limits.rpm: is 2k/min, above its bound, 1k/min"


def shown(stack: Stack, *words: str) -> Result:
    options = ["--bounds-of", "tenant-alpha", "-n", "my-app", "--endpoint-url", stack.url]
    return CliRunner().invoke(main, ["delegation", "list", *options, *words])


def as_team(stack: Stack) -> None:
    """From now on the caller may invoke the aliases of tenant-alpha alone."""
    stack.aliases = {"ns-tenant-alpha"}
    stack.refused = {PLANNER: FORBIDDEN, PROVISIONER: FORBIDDEN}


@pytest.fixture
def bound(stack: Stack) -> Stack:
    """A stack that has bounds for tenant-alpha."""
    assert stack.world.ask("bind", "tenant-alpha", bounds=Bounds.from_yaml(BOUNDS)).status == "applied"
    return stack


def test_bounds_are_shown_to_the_platform_and_the_team(bound: Stack) -> None:
    assert shown(bound).stdout == SHOWN
    told = json.loads(shown(bound, "-o", "json").stdout)
    assert told["bounds"] == {"limits": {"rpm": "1k/min"}, "parents": ["org-*"]}
    assert shown(bound, "--policy", "tenant-alpha").stderr == (
        "Error: --policy and --bounds-of exclude each other: pass one of them\n"
    )
    as_team(bound)
    assert shown(bound).stdout == SHOWN
    bound.world.ask("unbind", "tenant-alpha")
    assert shown(bound).stdout == "# tenant-alpha has no bounds\n"
    assert json.loads(shown(bound, "-o", "json").stdout)["bounds"] is None


@pytest.mark.parametrize("command", [("plan",), ("apply", "--yes")])
def test_a_team_is_told_where_its_file_is_beyond(bound: Stack, command: tuple[str, ...]) -> None:
    as_team(bound)
    before = bound.world.items()
    done = bound.run(*command, "-f", bound.write(BEYOND))
    assert (done.exit_code, done.stdout) == (1, "")
    way_out = "and `limits validate --bounds FILE` each line"
    assert done.stderr.splitlines() == [
        f"Error: tenant-alpha: {PROBLEM}",
        f"tenant-alpha: `zae-limiter delegation list --bounds-of tenant-alpha` shows them, {way_out}",
    ]
    assert bound.world.items() == before
    bound.ok(*command, "-f", bound.write(WITHIN))


def test_a_rollback_of_a_team_brings_nothing_back_that_is_beyond(bound: Stack) -> None:
    bound.ok("apply", "--yes", "-f", bound.write(BEYOND))
    bound.ok("apply", "--yes", "-f", bound.write(WITHIN))
    serial = json.loads(bound.ok("status", "-N", "tenant-alpha", "-o", "json"))["applies"][-1]["serial"]
    as_team(bound)
    done = bound.run("rollback", "-N", "tenant-alpha", str(serial), "--yes")
    assert done.exit_code == 1
    assert PROBLEM in done.stderr
    assert bound.world.live() == load(WITHIN)


def test_the_plan_of_the_platform_says_in_a_line_what_is_beyond(bound: Stack) -> None:
    done = bound.run("plan", "-f", bound.write(BEYOND))
    assert done.exit_code == 0
    assert " ".join(done.stderr.split()) == (
        f"Warning: tenant-alpha: the plan is beyond the bounds of its delegation at 1 place, first {PROBLEM}"
    )
    assert bound.run("plan", "-f", bound.write(WITHIN)).stderr == ""
    bound.ok("apply", "--yes", "-f", bound.write(BEYOND))


def test_validate_shows_the_lines_beyond_bounds_without_a_request(stack: Stack) -> None:
    file = stack.write(BOUNDS, "bounds.yaml")
    done = stack.run("validate", "-f", stack.write(BEYOND), "--bounds", file)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[:3] == [
        f"{stack.directory}/alpha.yaml:4:10: {PROBLEM}",
        "    4 |     rpm: 2000/min",
        "      |          ^",
    ]
    found = json.loads(stack.run("validate", "-f", stack.write(BEYOND), "--bounds", file, "-o", "json").stdout)
    assert [each["line"] for each in found["problems"]] == [4]
    assert stack.run("validate", "-f", stack.write(WITHIN), "--bounds", file).exit_code == 0
    assert stack.paths == []


def test_functions_of_an_older_release_have_no_bounds(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    from zae_limiter_provisioner import handler

    error = {"code": "unknown_action", "message": 'there is no action "bind"'}
    answer = {"status": "failed", "namespace": "tenant-alpha", "serial": None, "errors": [error]}
    monkeypatch.setattr(handler, "on_plan_event", lambda *_: answer)
    assert shown(stack).stderr == (
        "Error: the functions of my-app know no bounds: `zae-limiter upgrade --name my-app` brings code that does\n"
    )


def test_a_file_of_bounds_that_is_missing_is_named(stack: Stack) -> None:
    for done in (
        stack.run("validate", "-f", stack.write(WITHIN), "--bounds", "no-such.yaml"),
        CliRunner().invoke(main, ["delegation", "add", "tenant-alpha", "-n", "my-app", "--bounds", "no-such.yaml"]),
    ):
        assert done.exit_code == 1
        assert "no-such.yaml" in done.stderr
