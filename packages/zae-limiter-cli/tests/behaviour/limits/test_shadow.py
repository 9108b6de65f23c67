"""Shadow limits of a file: planned, applied, exported; a stack of an older release; a plan that was saved."""

import json
from dataclasses import replace
from typing import Any

import pytest

from support.cli.limits_stack import Stack
from zae_limiter_cli.limits.showing import OTHER_RELEASE
from zae_limiter_provisioner import handler

ENFORCED = "namespace: a\nresources: {gpt-4: {limits: {rpm: {capacity: 5}, tpm: {capacity: 9}}}}\n"
SHADOW = ENFORCED.replace("capacity: 5", "capacity: 5, shadow: true")
LEVEL = ENFORCED.replace("{limits:", "{shadow: true, limits:")
UNKNOWN = {"code": "invalid_manifest", "message": 'unknown key "shadow"', "path": "resources.gpt-4.limits.rpm.shadow"}


def test_a_plan_shows_the_mark_in_words_in_every_form(stack: Stack) -> None:
    stack.ok("apply", "-y", "-f", stack.write(SHADOW))
    file = stack.write(ENFORCED)
    assert "      ~ rpm: shadow -> enforced\n" in stack.ok("plan", "-f", file)
    assert "| `rpm` | `shadow -> enforced` |" in stack.ok("plan", "-f", file, "-o", "markdown")
    assert "      rpm: mode is shadow, declared enforced\n" in stack.ok("diff", "-f", file)
    (change,) = json.loads(stack.ok("plan", "-f", file, "-o", "json"))["namespaces"][0]["changes"]
    assert change["fields"] == [{"limit": "rpm", "field": "mode", "before": "shadow", "after": "enforced"}]
    assert (change["before"]["rpm"]["shadow"], change["limits"]["rpm"]) == (True, {"capacity": 5})
    assert "~ rpm: shadow -> enforced" in stack.ok("apply", "-y", "-f", file)


def test_an_export_is_applied_without_a_change(stack: Stack) -> None:
    stack.ok("apply", "-y", "-f", stack.write(LEVEL))
    exported = stack.ok("export", "-N", "a")
    assert exported.count("/min shadow") == 2
    assert "No changes." in stack.ok("plan", "-f", stack.write(exported))
    assert "No changes." in stack.ok("plan", "-f", stack.write(LEVEL))


def test_a_template_has_the_mark_on_each_limit(stack: Stack) -> None:
    assert stack.ok("cfn-template", "-f", stack.write(LEVEL)).count("Shadow: true") == 2


@pytest.mark.parametrize("command", [["plan"], ["diff"], ["apply", "-y"]])
def test_a_stack_of_an_older_release_is_named_as_such(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    def older(event: Any, _: Any) -> dict[str, Any]:
        return {"status": "failed", "namespace": "a", "serial": None, "errors": [UNKNOWN]}

    monkeypatch.setattr(handler, "on_event", older)
    monkeypatch.setattr(handler, "on_plan_event", older)
    told = stack.error(*command, "-f", stack.write(SHADOW))
    assert told.splitlines() == [
        'a: resources.gpt-4.limits.rpm.shadow: unknown key "shadow"',
        f"a: {OTHER_RELEASE}",
    ]


def test_a_saved_plan_is_refused_where_somebody_changed_a_mark_since(stack: Stack) -> None:
    saved = str(stack.directory / "a.plan")
    stack.ok("apply", "-y", "-f", stack.write(ENFORCED))
    stack.ok("plan", "-f", stack.write(SHADOW), "--out", saved)
    repository = stack.world.repository("a")
    by_hand = [replace(limit, shadow=limit.name == "tpm") for limit in repository.get_resource_defaults("gpt-4")]
    repository.set_resource_defaults("gpt-4", by_hand)
    done = stack.run("apply", "-y", saved)
    assert (done.exit_code, "limits have changed since, so the apply would differ" in done.stderr) == (1, True)
    assert repository.get_resource_defaults("gpt-4") == by_hand
