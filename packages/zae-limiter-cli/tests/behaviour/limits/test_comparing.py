"""`limits diff --with`: the live limits of two stacks, files or namespaces side by side."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from zae_limiter_cli.connection import Connection
from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.limits.comparing import Side, side_of
from zae_limiter_cli.main import main

HERE = """
namespace: default
system: {limits: {rpm: 10/min}}
resources:
  gpt-4: {limits: {rpm: 25/min, tpm: 10k/min}}
  same: {limits: {rpm: 1/min}}
"""
THERE = """
namespace: {namespace}
resources:
  gpt-4: {{limits: {{rpm: 50/min, tpm: 10k/min}}}}
  same: {{limits: {{rpm: 1/min}}}}
entities:
  acme: {{resources: {{gpt-4: {{limits: {{rpm: 5/min}}}}}}}}
"""


def run(*args: str) -> Result:
    return CliRunner(env={"ZAEL_PRINCIPAL": "ann"}).invoke(main, ["limits", *args])


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two files; the first has another namespace with the limits of the second, too."""
    urls = f"sqlite:///{tmp_path / 'a.db'}", f"sqlite:///{tmp_path / 'b.db'}"
    for url, text in (
        (urls[0], HERE),
        (urls[1], THERE.format(namespace="default")),
        (urls[0], THERE.format(namespace="tenant-b")),
    ):
        manifest = tmp_path / "limits.yaml"
        manifest.write_text(text, encoding="utf-8")
        done = run("apply", "--yes", "-f", str(manifest), "--store", url)
        assert done.exit_code == 0, done.output
    return urls


@pytest.mark.parametrize("namespace", ["", "/tenant-b"])
def test_what_differs_is_shown_from_here_to_there(files: tuple[str, str], namespace: str) -> None:
    here, there = files
    done = run("diff", "--store", here, "--with", namespace or there)
    head, *lines = done.stdout.splitlines()
    assert (done.exit_code, done.stderr) == (0, "")
    assert head.endswith(": 1 different, 1 only there (+), 1 only here (-).")
    assert lines == [
        "  - system",
        "      - rpm: 10/min",
        "  ~ resource gpt-4",
        "      ~ rpm: capacity 25 -> 50",
        "  + entity acme/gpt-4",
        "      + rpm: 5/min",
    ]


def test_programs_get_the_changes_and_a_code(files: tuple[str, str]) -> None:
    done = run("diff", "--store", files[0], "--with", files[1], "-o", "json", "--exit-code")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["kind"]) == (2, "comparison")
    assert (found["different"], found["only_there"], found["only_here"]) == (1, 1, 1)
    assert [each["action"] for each in found["changes"]] == ["delete", "update", "create"]
    assert found["to"] == f"{files[1]}/default"


def test_the_same_limits_have_no_difference_whoever_applied_them(files: tuple[str, str]) -> None:
    done = run("diff", "--store", files[0], "-N", "tenant-b", "--with", f"{files[1]}", "--exit-code")
    assert "there is no namespace tenant-b" in done.stderr
    done = run("diff", "--store", files[1], "--with", f"{files[0]}", "-e", "acme")
    assert "entity acme/gpt-4" in done.stdout
    assert "resource gpt-4" not in done.stdout


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "nothing to compare with: pass -f FILE, or --with PLACE"),
        (["--with", "other", "-f", "limits.yaml"], "--with compares live limits: pass no -f"),
        (["--with", "other/"], "--with 'other/': must be a stack"),
        (["--with", "@"], "--with '@': must be a stack"),
        (["--with", ""], "--with '': must be a stack"),
        (["--with", "a b"], "stack name 'a b': may have"),
        (["--with", "my-app"], "--with 'my-app': is the same namespace of the same place"),
        (["--with", "/default"], "--with '/default': is the same namespace of the same place"),
        (["--with", "sqlite:limits.db"], "--with 'sqlite:limits.db': "),
    ],
)
def test_a_mistake_is_one_line_before_any_request(args: list[str], told: str) -> None:
    done = run("diff", "-n", "my-app", *args)
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, told in line) == (1, True), line


def test_a_place_is_a_stack_a_region_and_a_namespace_or_some_of_them() -> None:
    here = Side(Connection("my-app", "eu-west-1", "ops"), "default")
    labels = {
        "staging": "staging@eu-west-1/default",
        "@us-east-1": "my-app@us-east-1/default",
        "staging@us-east-1/tenant-b": "staging@us-east-1/tenant-b",
        "/tenant-b": "my-app@eu-west-1/tenant-b",
    }
    assert {text: side_of(text, here).label for text in labels} == labels
    assert side_of("staging", here).connection.profile == "ops"
    file = Side(Connection.of_store("sqlite:///limits.db", source="--store"), "default")
    assert side_of("staging/a", file).connection.file is None
    assert side_of("/a", file).connection == file.connection
    with pytest.raises(CommandError, match="must be a stack"):
        side_of("@us-east-1", file)
