"""Tiers of entities in a file: planned, applied, exported; in several files."""

import json
from pathlib import Path

from support.cli.limits_stack import Stack

GOLD = """namespace: a
tiers: {gold: {resources: {gpt-4: {limits: {rpm: 100/min}}}}}
entities: {acme: {tier: gold}, tiny: {tier: gold}}
"""


def test_a_change_of_a_tier_says_how_many_it_reaches_in_every_form(stack: Stack) -> None:
    stack.ok("apply", "-y", "-f", stack.write(GOLD))
    file = stack.write(GOLD.replace("100/min", "50/min"))
    text = stack.ok("plan", "-f", file)
    assert "  ~ tier gold/gpt-4 (reaches 2 entities)\n      ~ rpm: capacity 100 -> 50\n" in text
    assert "(reaches 2 entities)" in stack.ok("plan", "-f", file, "-o", "markdown")
    (change,) = json.loads(stack.ok("plan", "-f", file, "-o", "json"))["namespaces"][0]["changes"]
    assert (change["level"], change["entity"], change["tier"], change["reaches"]) == ("tier", None, "gold", 2)
    assert "~ tier gold/gpt-4" in stack.ok("apply", "-y", "-f", file)


def test_an_export_is_applied_without_a_change(stack: Stack) -> None:
    stack.ok("apply", "-y", "-f", stack.write(GOLD))
    exported = stack.ok("export", "-N", "a")
    assert "tier: gold" in exported
    assert "No changes." in stack.ok("plan", "-f", stack.write(exported))


def test_tiers_and_their_entities_may_be_in_two_files(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "limits"
    folder.mkdir()
    head, tiers, entities = GOLD.splitlines()
    (folder / "tiers.yaml").write_text(f"{head}\n{tiers}\n")
    (folder / "entities.yaml").write_text(f"{head}\n{entities}\n")
    assert "tier gold/gpt-4 (reaches 2 entities)" in stack.ok("plan", "-f", str(folder))
