"""A walk over every command that a file can answer, from an empty directory to an empty file: each one's JSON."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from zae_limiter import SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

MANIFEST = """
namespace: there
tiers: {gold: {resources: {gpt-4: {limits: {rpm: 100/min}}}}}
system: {limits: {rpm: 10/min}}
entities: {acme: {}, key-1: {parent: acme, tier: gold}}
"""
URL = "sqlite:///limits.db"
STEPS = """
limits validate -f limits.yaml
limits plan -f limits.yaml
limits apply -f limits.yaml -y
limits diff -f limits.yaml
limits status
limits rollback 2 -y
namespace list
namespace list there
system set-defaults -l rpm:20 -y
system show
resource set-defaults gpt-4 -l rpm:30
resource show gpt-4
resource show
tier set-limits silver -l rpm:40 -r gpt-4
tier show silver
tier show
entity create key-2 --parent acme
entity show key-2
entity update key-2 --entity-name two
entity update key-2 --no-parent
entity tree acme --depth 1
entity tree key-1 --above
entity set-limits key-2 -l rpm:50
entity show key-2 -r gpt-4
entity list
entity tree
disable key-2 -y
enable key-2
lift key-1 -r gpt-4 --by 2 --for 1h
lift key-1 --end -y
switch key-2 --bypass
switch key-2 -r gpt-4
why key-1 -r gpt-4
entity list --buckets
entity show key-1
bucket credit key-1 -r gpt-4 -t rpm:1
bucket invalidate -r gpt-4 -y
bucket reset key-1 -r gpt-4 -y
usage list -e key-1
usage list -e key-1 --total
usage export
usage near
usage top
top --once
audit list
doctor
entity delete-limits key-2 -y
tier delete-limits silver -r gpt-4 -y
resource delete-defaults gpt-4 -y
system delete-defaults -y
entity delete key-2 -y
namespace register other
namespace delete other -y
namespace list --deleted
"""
REFUSED = """
limits stop
limits unlock abc -y
namespace recover abcdefghijk
namespace purge abcdefghijk -y
namespace trace there
usage cost
"""  # what has nothing to do in this file says so, and where to go on


def documented() -> Iterator[str]:
    """The commands that a file can answer and that have JSON."""
    context = click.Context(main)

    def below(command: click.Command, context: click.Context, *path: str) -> Iterator[str]:
        if not isinstance(command, click.Group):
            if {"store", "form"} <= {each.name for each in command.params}:
                yield " ".join(path)
            return
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from below(child, click.Context(child, parent=context, info_name=name), *path, name)

    return below(main, context)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, value in {"STORE": URL, "NAMESPACE": "there", "PRINCIPAL": "ann"}.items():
        monkeypatch.setenv(f"ZAEL_{name}", value)
    monkeypatch.delenv("ZAEL_STACK", raising=False)
    Path("limits.yaml").write_text(MANIFEST)
    return tmp_path / "limits.db"


def run(step: str) -> Result:
    return CliRunner().invoke(main, [*step.split(), "-o", "json"])


def use() -> None:
    with SyncRepository.open() as repository, SyncRateLimiter(repository).acquire("key-1", "gpt-4", {"rpm": 1}):
        pass


def test_no_command_is_left_out() -> None:
    steps = [*STEPS.strip().splitlines(), *REFUSED.strip().splitlines()]
    assert [
        path for path in documented() if not any(step.startswith(f"{path} ") or step == path for step in steps)
    ] == []


@pytest.mark.slow
def test_each_command_prints_one_document_and_nothing_else(file: Path) -> None:
    for step in STEPS.strip().splitlines():
        done = run(step)
        assert done.exit_code == 0, (step, done.output, done.exception)
        document: Any = opened(done.stdout)
        assert isinstance(document, (dict, list)), step
        if step == "limits status":
            use()
    for step in REFUSED.strip().splitlines():
        done = run(step)
        (line,) = done.stderr.splitlines()
        assert (done.exit_code, done.stdout, line[:7]) == (1, "", "Error: "), (step, done.output)
    assert file.exists()


@pytest.mark.slow
def test_without_the_file_each_one_that_only_looks_says_in_a_line_how_to_get_it(file: Path) -> None:
    made = ("limits plan", "limits apply", "limits validate", "namespace register")
    for step in [*STEPS.strip().splitlines(), *REFUSED.strip().splitlines()]:
        if step.startswith((*made, "limits diff", "doctor", "usage cost", "namespace trace")):
            continue
        done = run(step)
        (line,) = done.stderr.splitlines()
        assert (done.exit_code, done.stdout) == (1, ""), (step, done.output)
        told = "Error: there is no file limits.db: check --store; "
        assert (line[: len(told)], "`zae-limiter " in line) == (told, True), step
        assert not file.exists(), step
