"""What was applied, and back to it, by the command line."""

import json
import re

import pytest
from attrs import evolve

from support.cli.limits_stack import PLANNER, PROVISIONER, Stack
from support.provisioner.provisions import rpm
from zae_limiter.maintenance import APPLIES_KEPT
from zae_limiter.operations.values import Put, Query
from zae_limiter_cli.commands.limits import status
from zae_limiter_manifest import compress, load
from zae_limiter_provisioner import actions

FIRST = "namespace: tenant-alpha\nresources:\n  gpt-4:\n    limits:\n      rpm: {capacity: 500}\n"
SECOND = FIRST.replace("500", "600")
OTHER = FIRST.replace("500", "700")


@pytest.fixture
def applied(stack: Stack) -> Stack:
    """Two applies, serials 2 and 4."""
    stack.ok("apply", "--yes", "--principal", "ann", "--source", "9f3c2e1", "-f", stack.write(FIRST))
    stack.ok("apply", "--yes", "--principal", "bob", "-f", stack.write(SECOND))
    stack.asked.clear()
    stack.paths.clear()
    return stack


def test_the_history_lists_who_applied_what_with_the_last_apply_first(applied: Stack) -> None:
    *_, head, last, first = applied.ok("status", "-N", "tenant-alpha").splitlines()
    assert head.split() == ["SERIAL", "AT", "BY", "FROM", "CREATED", "UPDATED", "DELETED", "OUTCOME"]
    assert re.fullmatch(r"4 +\S+Z +bob +- +0 +1 +0 +applied", last)
    assert re.fullmatch(r"2 +\S+Z +ann +9f3c2e1 +1 +0 +0 +applied", first)
    assert applied.paths == [PLANNER, PLANNER]


def test_the_history_in_json_has_what_the_table_has(applied: Stack) -> None:
    document = json.loads(applied.ok("status", "-N", "tenant-alpha", "-o", "json"))
    assert (document["kind"], document["namespace"], len(document["applies"])) == ("state", "tenant-alpha", 2)
    assert document["applies"][1] == {
        "serial": 2,
        "at": document["applies"][1]["at"],
        "owner": "cli",
        "manifest_hash": load(FIRST).canonical_hash(),
        "principal": "ann",
        "source": "9f3c2e1",
        "created": 1,
        "updated": 0,
        "deleted": 0,
        "failed": 0,
        "left": 0,
        "targets": [],
        "ended": True,
        "outcome": "applied",
    }


def test_a_namespace_without_applies_says_so(stack: Stack) -> None:
    stack.world.repository().set_resource_defaults("by-hand", rpm(1))
    told = stack.ok("status", "-N", "tenant-alpha")
    assert ("never applied" in told, "SERIAL" in told) == (True, False)
    assert json.loads(stack.ok("status", "-N", "tenant-alpha", "-o", "json"))["applies"] == []


def test_a_history_that_is_cut_says_so(applied: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert status.KEPT == APPLIES_KEPT
    monkeypatch.setattr(status, "KEPT", 2)
    done = applied.run("status", "-N", "tenant-alpha")
    assert (done.exit_code, done.stderr) == (0, "Earlier applies are not kept: these are the last 2.\n")


def test_one_apply_can_be_shown_alone(applied: Stack) -> None:
    head, row = applied.ok("status", "2", "-N", "tenant-alpha").splitlines()
    assert (head.split()[0], row.split()[0], row.split()[2]) == ("SERIAL", "2", "ann")
    (entry,) = json.loads(applied.ok("status", "2", "-N", "tenant-alpha", "-o", "json"))["applies"]
    assert (entry["serial"], entry["outcome"]) == (2, "applied")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--manifest"], "pass SERIAL, and no --follow"),
        (["2", "--follow"], "pass SERIAL, and no --follow"),
        (["--out", "x"], "pass SERIAL --manifest, too"),
    ],
    ids=str,
)
def test_what_is_about_one_apply_needs_its_serial(applied: Stack, words: list[str], told: str) -> None:
    assert told in applied.error("status", "-N", "tenant-alpha", *words)
    assert applied.paths == []


def test_an_earlier_manifest_can_be_shown_saved_and_planned(applied: Stack) -> None:
    shown = applied.ok("status", "--manifest", "-N", "tenant-alpha", "2")
    assert re.match(r"# 2 · \S+Z · ann · 9f3c2e1\nnamespace: tenant-alpha\n", shown)
    assert load(shown) == load(FIRST)
    file = str(applied.directory / "old.yaml")
    assert applied.ok("status", "--manifest", "-N", "tenant-alpha", "2", "--out", file) == ""
    assert "rpm: capacity 600 -> 500" in applied.ok("plan", "-f", file)


def test_a_rollback_plans_and_applies_the_manifest_of_an_earlier_apply(applied: Stack) -> None:
    told = applied.ok("rollback", "-N", "tenant-alpha", "2", "--yes", "--principal", "eve")
    assert "rpm: capacity 600 -> 500" in told
    assert told.endswith("Applied: 0 created, 1 updated, 0 deleted.\n")
    assert applied.paths == [PLANNER, PROVISIONER, PROVISIONER]
    assert applied.world.live() == load(FIRST)
    line = applied.ok("status", "-N", "tenant-alpha").splitlines()[-3]
    assert re.fullmatch(r"6 +\S+ +eve +rollback to 2 +0 +1 +0 +applied", line)


@pytest.mark.usefixtures("on_a_terminal")
def test_a_rollback_asks_first(applied: Stack) -> None:
    done = applied.run("rollback", "-N", "tenant-alpha", "2", input="n\n")
    assert done.exit_code == 1
    assert "rpm: capacity 600 -> 500" in done.stdout
    assert applied.world.live() == load(SECOND)


def test_a_rollback_that_somebody_overtakes_changes_nothing_and_does_not_plan_again(applied: Stack) -> None:
    def overtake(event: dict[str, object]) -> None:
        if event["action"] == "plan":
            applied.before = lambda _: None
            applied.world.apply(load(OTHER))

    applied.before = overtake
    done = applied.run("rollback", "-N", "tenant-alpha", "2", "--yes")
    assert done.exit_code == 1
    assert "somebody has applied since" in done.stderr
    assert applied.world.live() == load(OTHER)


def test_a_rollback_that_deletes_much_needs_permission_like_any_apply(applied: Stack) -> None:
    many = "".join(f"  r-{number}: {{limits: {{rpm: {{capacity: 1}}}}}}\n" for number in range(20))
    applied.ok("apply", "--yes", "-f", applied.write(SECOND + many))
    assert "pass --allow-deletes" in applied.run("rollback", "-N", "tenant-alpha", "4", "--yes").stderr
    applied.ok("rollback", "-N", "tenant-alpha", "4", "--yes", "--allow-deletes")
    assert applied.world.live() == load(SECOND)


def test_an_apply_of_targets_is_nothing_to_go_back_to(applied: Stack) -> None:
    applied.ok("apply", "--yes", "-f", applied.write(OTHER), "--target", "resource gpt-4")
    told = applied.error("rollback", "-N", "tenant-alpha", "6", "--yes")
    assert told.startswith(
        "tenant-alpha: the apply 6 was for its targets alone (resource gpt-4): choose another serial"
    )
    assert "applied, 1 target" in applied.ok("status", "-N", "tenant-alpha")


@pytest.mark.parametrize("command", ["status", "rollback"])
def test_a_serial_that_is_not_kept_is_refused(applied: Stack, command: str) -> None:
    told = applied.error(command, "-N", "tenant-alpha", "3")
    assert told == "tenant-alpha: there is no apply 3 in the history of tenant-alpha: `limits status` lists all\n"
    assert "0 is not in the range" in applied.error(command, "-N", "tenant-alpha", "0")


@pytest.mark.parametrize("command", [["status"], ["rollback", "--yes"]])
def test_a_manifest_of_another_namespace_in_the_history_of_one_changes_neither(
    applied: Stack, command: list[str]
) -> None:
    victim = FIRST.replace("tenant-alpha", "victim")
    applied.ok("apply", "--yes", "-f", applied.write(victim))
    forged = load(victim.replace("500", "1000000"))
    kept = Query(f"{applied.world.repository('tenant-alpha').namespace_id}/APPLIES#")
    for item in applied.world.memory.execute(kept).items:
        if item["SK"].startswith("#MANIFEST#000000000002#"):
            applied.world.memory.execute(Put({**item, "content": compress(forged)}))
        if item["SK"].startswith("#APPLY#000000000002"):
            applied.world.memory.execute(Put({**item, "manifest_hash": forged.canonical_hash()}))
    told = "tenant-alpha: the manifest of the apply 2 is of the namespace victim: its items were changed"
    assert applied.error(*command, "-N", "tenant-alpha", "2") == f"{told}; choose another serial\n"
    assert applied.world.ask("export", "victim").manifest == load(victim)


def test_a_planner_of_an_earlier_release_that_returns_another_namespace_is_not_believed(
    applied: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = applied.world.ask("show", "tenant-alpha", serial=2)
    forged = load(FIRST.replace("tenant-alpha", "victim"))
    monkeypatch.setattr(actions, "answer_show", lambda *_: evolve(answer, manifest=forged))
    told = "tenant-alpha: the manifest of the apply 2 is of the namespace victim: its items were changed"
    assert told in applied.error("rollback", "-N", "tenant-alpha", "2", "--yes")


def test_targets_are_planned_saved_and_applied_alone(stack: Stack) -> None:
    file = stack.write(FIRST + "  gpt-5:\n    limits:\n      rpm: {capacity: 1}\n")
    saved = str(stack.directory / "alpha.plan")
    assert "Plan: 1 to create" in stack.ok("plan", "-f", file, "--target", "*5", "--out", saved)
    told = stack.error("apply", saved, "--target", "x")
    assert told == "a saved plan has the targets that it was made with: leave out --target\n"
    stack.ok("apply", "--yes", saved)
    assert list(stack.world.live().resources) == ["gpt-5"]
    assert stack.error("plan", "-f", file, "--target", "").startswith("targets must be 1 to 100 printable characters")


@pytest.mark.parametrize("command", [("plan",), ("apply", "--yes")])
def test_a_target_that_fits_nothing_is_named(stack: Stack, command: tuple[str, ...]) -> None:
    file = stack.write(FIRST)
    done = stack.run(*command, "-f", file, "--target", "resource gtp-*", "--target", "*gpt-4")
    assert done.exit_code == 0
    assert "--target 'resource gtp-*': no declared item and no change fits it; check it against" in done.stderr
    assert "'*gpt-4'" not in done.stderr
