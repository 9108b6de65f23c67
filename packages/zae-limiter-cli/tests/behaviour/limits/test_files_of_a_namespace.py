"""A namespace in several files, and files in order."""

from pathlib import Path

from support.cli.limits_stack import Stack
from zae_limiter_manifest import load

FIRST = "namespace: tenant-alpha\nresources:\n  z: {limits: {rpm: 5/min}}\n  gpt-4: {limits: {rpm: 5/min}}\n"
SECOND = "entities:\n  key-1: {parent: acme, cascade: false}\n  acme: {}\nnamespace: tenant-alpha\n"
ORDERED = "namespace: tenant-alpha\nentities:\n  acme: {}\n  key-1: {parent: acme, cascade: false}\n"


def written(stack: Stack) -> Path:
    below = stack.directory / "limits" / "tenants"
    below.mkdir(parents=True)
    (below.parent / "a.yaml").write_text(FIRST)
    (below / "b.yml").write_text(SECOND)
    return below.parent


def test_a_directory_is_applied_as_one_manifest(stack: Stack) -> None:
    directory = str(written(stack))
    assert "tenant-alpha: valid, 4 items, " in stack.ok("validate", "-f", directory)
    assert stack.ok("apply", "--yes", "-f", directory).endswith("Applied: 4 created, 0 updated, 0 deleted.\n")
    assert stack.world.live() == load(FIRST + SECOND.replace("namespace: tenant-alpha\n", ""))
    assert stack.ok("plan", "-f", directory).startswith("Namespace tenant-alpha\nNo changes.\n")


def test_a_conflict_names_both_files_and_nothing_is_sent(stack: Stack) -> None:
    directory = written(stack)
    (directory / "c.yaml").write_text("namespace: tenant-alpha\nentities:\n  acme: {name: ACME}\n")
    told = stack.error("apply", "--yes", "-f", str(directory))
    named = f'{directory}/tenants/b.yml:3:3: entities.acme: "acme" is declared in {directory}/c.yaml:3 too'
    assert named in told
    assert stack.paths == []


def test_fmt_writes_what_is_out_of_order_alone(stack: Stack) -> None:
    directory = written(stack)
    ready = directory / "ready.yaml"
    ready.write_text("namespace: beta\n")
    second = directory / "tenants" / "b.yml"
    second.chmod(0o640)
    before = ready.stat().st_mtime_ns
    expected = f"{directory}/a.yaml\n{second}\n"
    assert stack.ok("fmt", "--check", "-f", str(directory), code=2) == expected
    assert second.read_text() == SECOND
    assert stack.ok("fmt", "-f", str(directory)) == expected
    assert (second.read_text(), second.stat().st_mode & 0o777) == (ORDERED, 0o640)
    assert ready.stat().st_mtime_ns == before
    assert stack.ok("fmt", "--check", "-f", str(directory)) == ""
    assert sorted(each.name for each in directory.iterdir()) == ["a.yaml", "ready.yaml", "tenants"]


def test_fmt_names_the_schema_that_lies_near_once(stack: Stack) -> None:
    directory = written(stack)
    (directory / "zae-limiter.schema.json").write_text(stack.ok("schema"))
    named, other = directory / "named.yaml", "# yaml-language-server: $schema=other.json\nnamespace: beta\n"
    named.write_text(f"# Ours\n{other}")
    assert f"{directory}/a.yaml" in stack.ok("fmt", "-f", str(directory))
    assert (directory / "a.yaml").read_text().startswith("# yaml-language-server: $schema=zae-limiter.schema.json\n")
    second = (directory / "tenants" / "b.yml").read_text()
    assert second == f"# yaml-language-server: $schema=../zae-limiter.schema.json\n{ORDERED}"
    assert named.read_text() == f"# Ours\n{other}"
    assert stack.ok("fmt", "--check", "-f", str(directory)) == ""


def test_fmt_writes_nothing_while_a_file_has_a_mistake(stack: Stack) -> None:
    directory = written(stack)
    (directory / "tenants" / "c.yaml").write_text("a: [\n")
    assert "tenants/c.yaml:" in stack.error("fmt", "-f", str(directory))
    (directory / "tenants" / "c.yaml").write_bytes(b"a: \xff\n")
    assert "c.yaml:1:4: (document): not UTF-8 text: the byte 0xff" in stack.error("fmt", "-f", str(directory))
    assert (directory / "a.yaml").read_text() == FIRST
