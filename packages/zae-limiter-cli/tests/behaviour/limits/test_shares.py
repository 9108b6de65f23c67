"""`--share`: a region's share of each limit, over plan, apply, a saved plan, diff, rollback and a template."""

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.cli.limits_stack import Stack
from support.provisioner.provisions import World
from zae_limiter_cli.main import main

PAGE = Path(__file__).parents[5] / "docs/operate/regions.md"

WHOLE = "namespace: a\nresources: {gpt-4: {limits: {rpm: 100/min burst 200}}}\n"
LARGER = WHOLE.replace("100/min", "110/min")


def share_of(stack: Stack) -> str | None:
    share: str | None = json.loads(stack.ok("status", "-N", "a", "-o", "json"))["state"].get("share")
    return share


def test_a_plan_shows_the_share_and_an_apply_records_it(stack: Stack) -> None:
    file = stack.write(WHOLE)
    told = stack.ok("plan", "-f", file, "--share", "60%")
    assert "      + rpm: 60/min burst 120\n" in told
    assert "Share of this region: 100% -> 60% of each limit.\n" in told
    assert "Share of this region: 100% -> 60%" in stack.ok("plan", "-f", file, "--share", "60%", "-o", "markdown")
    stack.ok("apply", "-y", "-f", file, "--share", "60%")
    assert "  share    60% of each limit\n" in stack.ok("status", "-N", "a")
    assert stack.ok("plan", "-f", file) == "Namespace a\nNo changes.\nShare of this region: 60% of each limit.\n"


def test_an_apply_without_a_share_keeps_the_recorded_one(stack: Stack) -> None:
    stack.ok("apply", "-y", "-f", stack.write(WHOLE), "--share", "60%")
    assert "      ~ rpm: capacity 60 -> 66\n" in stack.ok("apply", "-y", "-f", stack.write(LARGER))
    assert share_of(stack) == "60%"
    assert "Share of this region: 60% of each limit." in stack.ok("diff", "-f", stack.write(WHOLE))
    assert "Share of this region: 60% -> 100%" in stack.ok("diff", "-f", stack.write(WHOLE), "--share", "100%")


def test_a_rollback_keeps_the_share_of_now(stack: Stack) -> None:
    stack.ok("apply", "-y", "-f", stack.write(WHOLE), "--share", "60%")
    serial = json.loads(stack.ok("status", "-N", "a", "-o", "json"))["applies"][0]["serial"]
    stack.ok("apply", "-y", "-f", stack.write(LARGER), "--share", "50%")
    assert "capacity 55 -> 50" in stack.ok("rollback", "-y", "-N", "a", str(serial))
    assert share_of(stack) == "50%"


def test_a_saved_plan_has_its_share(stack: Stack) -> None:
    file, saved = stack.write(WHOLE), str(stack.directory / "a.plan")
    stack.ok("apply", "-y", "-f", file, "--share", "60%")
    for share, recorded in (("40%", "40%"), ("100%", None)):
        stack.ok("plan", "-f", file, "--share", share, "--out", saved)
        assert stack.error("apply", "-y", saved, "--share", "70%").startswith("a saved plan has the share")
        stack.ok("apply", "-y", saved)
        assert share_of(stack) == recorded


def test_a_share_alone_is_a_change_that_the_hash_has_and_the_exit_code(stack: Stack) -> None:
    file = stack.write("namespace: a\nresources: {gpt-4: {limits: {rpm: 0/min}}}\n")
    stack.ok("apply", "-y", "-f", file)
    hashes = {
        json.loads(stack.ok("plan", "-f", file, "-o", "json", *more))["hash"] for more in ((), ("--share", "50%"))
    }
    assert len(hashes) == 2
    stack.ok("plan", "-f", file, "--share", "50%", "--exit-code", code=2)


def test_a_text_that_is_no_share_and_a_limit_that_is_too_small_are_one_error(stack: Stack) -> None:
    file = stack.write("namespace: a\nresources: {jobs: {limits: {run: 1 concurrent}}}\n")
    assert stack.error("plan", "-f", file, "--share", "60") == (
        'a share is 0.01% to 100%, such as 60% or 33.33%, not "60"\n'
    )
    assert stack.asked == []
    told = stack.error("apply", "-y", "-f", file, "--share", "60%")
    assert told.startswith(
        "a: 60% is less than one token of resource jobs: run (1 concurrent): raise it, or declare it"
    )


def test_an_export_says_that_it_is_a_share(stack: Stack) -> None:
    stack.ok("apply", "-y", "-f", stack.write(WHOLE), "--share", "60%")
    done = stack.run("export", "-N", "a")
    assert "rpm: 60/min burst 120" in done.stdout
    assert done.stderr.startswith("a: these limits are the share of this region, 60% of those that were applied: ")


def test_a_template_has_the_share_as_its_parameter(stack: Stack) -> None:
    told = stack.ok("cfn-template", "-f", stack.write(WHOLE), "--share", "60.0%")
    assert "Parameters:\n  Share:\n    Type: String\n    Default: '60%'\n" in told
    assert "      Share:\n        Ref: Share\n" in told
    assert "Share" not in stack.ok("cfn-template", "-f", stack.write(WHOLE))


def test_the_page_gives_two_regions_their_shares_and_moves_them(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/operate/regions.md, block by block; each region has a table of its own."""
    monkeypatch.chdir(stack.directory)
    stack.write(WHOLE.replace("namespace: a", "namespace: tenant-alpha"), "limits.yaml")
    worlds = {"eu-central-1": World(), "us-east-1": World()}
    page = PAGE.read_text(encoding="utf-8")
    told = []
    for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            _, *words = shlex.split(line)
            if words[:2] == ["limits", "shares"]:
                continue  # which reads tables: test_proposed_shares
            region = words[words.index("--region") + 1] if "--region" in words else "us-east-1"
            stack.world = worlds[region]
            done = CliRunner().invoke(main, [*words, "--endpoint-url", stack.url])
            assert (done.exit_code, done.stderr) == (0, ""), (line, done.output)
            told.append(done.stdout)
    (plan,) = re.findall(r"```text\n(Namespace.*?)```", page, re.DOTALL)
    assert told[0].startswith(plan)
    for world in worlds.values():
        state = world.ask("state", "tenant-alpha").state
        assert state
        assert state.share == "50%"
