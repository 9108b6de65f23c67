"""`limits export --out` writes a first file: what is live, which no apply of it changes, or examples."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.cli.limits_stack import Stack
from zae_limiter import Limit
from zae_limiter_manifest import LimitsManifest, json_schema, load

GOLD = [Limit.per_minute("rpm", 1_000), Limit.per_minute("tpm", 100_000, burst=200_000)]
FREE = [Limit.per_minute("rpm", 10)]


def written(stack: Stack, *args: str) -> str:
    """What `--out` says beside the file; a pipe gets none of it."""
    done = stack.run(*args)
    assert (done.exit_code, done.stdout) == (0, "")
    return done.stderr


@pytest.fixture
def live(stack: Stack) -> Stack:
    """Limits that somebody has set by hand: three entities with those of gold, two with those of free, one alone."""
    repository = stack.world.repository()
    repository.create_entity("org")
    repository.create_entity("acme", parent_id="org", cascade=True)
    repository.set_system_defaults([Limit.per_minute("rpm", 5)])
    for entity in ("acme", "borg", "corp"):
        repository.set_limits(entity, GOLD, "gpt-4")
    for entity in ("y", "n"):  # words that some readers of YAML take for true and false
        repository.set_limits(entity, FREE)
    repository.set_limits("org", [Limit.per_minute("rpm", 5_000)])
    repository.set_limits("alone", [Limit.per_minute("rpm", 7)])
    repository.set_tier_limits("silver", [Limit.per_minute("rpm", 50)])
    repository.create_entity("tiered", tier="silver")
    return stack


def test_entities_with_the_same_limits_share_a_part_of_the_first_file(live: Stack) -> None:
    file = live.directory / "first.yaml"
    told = written(live, "export", "-N", "tenant-alpha", "--out", str(file))
    assert told.splitlines() == [
        f"{live.directory}/zae-limiter.schema.json: the schema with which editors check the file",
        f"{file}: 12 items of tenant-alpha; 5 entities share 2 parts",
        f"Next: zae-limiter limits plan --name my-app -f {file}",
    ]
    text = file.read_text(encoding="utf-8")
    assert text.count("rpm: 1k/min") == text.count("rpm: 10/min") == 1
    assert re.findall(r"^x-.*", text, re.MULTILINE) == ["x-tier-1: &tier-1", "x-tier-2: &tier-2"]
    assert "  acme:\n    parent: org\n    cascade: true\n    resources: *tier-1\n" in text
    assert "  alone:\n    resources:\n      _default_:\n" in text
    assert "  tiered:\n    tier: silver\n" in text
    assert load(text) == load(live.ok("export", "-N", "tenant-alpha"))


def test_an_apply_of_the_first_file_adopts_all_and_changes_no_limit(live: Stack) -> None:
    file = str(live.directory / "first.yaml")
    written(live, "export", "-N", "tenant-alpha", "--out", file)
    before = live.ok("export", "-N", "tenant-alpha")
    live.ok("apply", "--yes", "-f", file)
    assert live.ok("export", "-N", "tenant-alpha") == before
    written(live, "export", "-N", "tenant-alpha", "--out", file, "--yes")
    live.ok("plan", "-f", file, "--exit-code")
    live.ok("fmt", "-f", file, "--check")


def test_a_part_becomes_a_tier_as_its_comment_says(live: Stack) -> None:
    file = live.directory / "first.yaml"
    written(live, "export", "-N", "tenant-alpha", "--out", str(file))
    live.ok("apply", "--yes", "-f", str(file))
    text = file.read_text(encoding="utf-8")
    part = re.search(r"^x-tier-1: &tier-1\n((?:  .*\n)+)", text, re.MULTILINE)
    assert part is not None
    gold = "tiers:\n  gold:\n    resources:\n" + re.sub("^", "    ", part[1], flags=re.MULTILINE).rstrip(" ")
    text = text.replace(part[0], "").replace("resources: *tier-1", "tier: gold").replace("tiers:\n", gold, 1)
    file.write_text(text, encoding="utf-8")
    live.ok("apply", "--yes", "-f", str(file), "--allow-deletes")
    assert live.world.repository().get_limits("acme", "gpt-4") == []
    live.ok("plan", "-f", str(file), "--exit-code")


@pytest.mark.parametrize("registered", [True, False])
def test_where_there_is_nothing_the_first_file_has_examples(stack: Stack, *, registered: bool) -> None:
    if registered:
        stack.world.repository()
    file = stack.directory / "first.yaml"
    told = written(stack, "export", "-N", "tenant-alpha", "--out", str(file))
    assert "the namespace has no limits" in told if registered else "which an apply registers" in told
    text = file.read_text(encoding="utf-8")
    assert load(text) == LimitsManifest("tenant-alpha")
    stack.ok("plan", "-f", str(file), "--exit-code")
    every_example = re.sub(r"^# ((?:system|resources|tiers|entities):| )", r"\1", text, flags=re.MULTILINE)
    assert {str(at) for at, _ in load(every_example).declared()} == {
        "system", "resource gpt-4", "tier gold/_default_", "entity acme", "entity acme-key-1",
    }  # fmt: skip


def test_the_first_file_names_the_schema_with_which_editors_check_it(live: Stack) -> None:
    (live.directory / "teams").mkdir()
    first, second = live.directory / "first.yaml", live.directory / "teams" / "second.yaml"
    written(live, "export", "-N", "tenant-alpha", "--out", str(first))
    schema = live.directory / "zae-limiter.schema.json"
    assert json.loads(schema.read_text()) == json_schema()
    assert first.read_text().startswith("# yaml-language-server: $schema=zae-limiter.schema.json\n# The limits of")
    schema.write_text("{}")
    told = written(live, "export", "-N", "tenant-alpha", "--out", str(second))
    assert second.read_text().startswith("# yaml-language-server: $schema=../zae-limiter.schema.json\n")
    assert "schema" not in told
    assert schema.read_text() == "{}"


def test_a_file_that_is_there_is_asked_about_before_any_request(stack: Stack) -> None:
    file = stack.write("mine")
    assert "There is no terminal" in stack.error("export", "-N", "tenant-alpha", "--out", file)
    assert (Path(file).read_text(encoding="utf-8"), stack.actions()) == ("mine", [])
    written(stack, "export", "-N", "tenant-alpha", "--out", file, "--yes")
    assert load(Path(file).read_text(encoding="utf-8")).namespace == "tenant-alpha"


def test_a_namespace_that_no_name_may_be_writes_no_file(stack: Stack) -> None:
    file = stack.directory / "first.yaml"
    assert "namespace" in stack.error("export", "-N", "../tenant", "--out", str(file))
    assert not file.exists()


def test_an_override_is_left_out_and_said(live: Stack) -> None:
    until = datetime.fromtimestamp(live.world.repository().namespace_state.now() / 1000, UTC) + timedelta(hours=2)
    live.world.repository().set_limits("alone", FREE, override_until=until)
    done = live.run("export", "-N", "tenant-alpha", "--out", str(live.directory / "first.yaml"))
    assert done.exit_code == 0
    assert "left out: entity alone/_default_, an override until" in done.stderr
