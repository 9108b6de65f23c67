"""`zae-limiter copy`: what it shows and asks, what it refuses, what it leaves behind."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.tables import Table, making
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

RPM = Limit.per_minute("rpm", 60)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No write arrives late."""
    monkeypatch.setattr("zae_limiter.flows.records.registry.SETTLE_SECONDS", 0)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A file with the namespaces `default` and `prod`."""
    path = tmp_path / "limits.db"
    for name in ("default", "prod"):
        with SyncRateLimiter(SyncRepository.sqlite(path, name)) as limiter:
            limiter.set_resource_defaults("gpt-4", [RPM])
            with limiter.acquire("key-1", "gpt-4", {"rpm": 20}):
                pass
    return f"sqlite:///{path}"


@pytest.fixture
def stack(aws: str) -> Any:
    with making() as table:
        yield table


def run(*args: str, **more: Any) -> Result:
    return CliRunner().invoke(main, ["copy", *args], **more)


def succeed(*args: str) -> str:
    done = run(*args)
    assert done.exit_code == 0, done.output
    return done.stdout


def fail(*args: str) -> str:
    """What a command that fails says: one line."""
    done = run(*args)
    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("Error: ")
    return done.stderr.removeprefix("Error: ").rstrip("\n")


def tokens(name: str, *, stack: str = "my-app") -> int:
    with SyncRateLimiter(SyncRepository.open(name, stack=stack, register=False)) as limiter:
        return limiter.available("key-1", "gpt-4")["rpm"]


def test_it_shows_the_cost_asks_and_copies(file: str, stack: Table, on_a_terminal: None) -> None:
    done = run("--from", file, "--to", "my-app", input="y\n")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "default  5 items  14 write units",
        "prod     5 items  14 write units",
        "Copied to my-app: default, prod, 10 items.",
    ]
    question = f"Copy 2 namespaces with 10 items from {file} to my-app for 28 write units?"
    assert question in done.stderr
    assert 40 <= tokens("default") < 60
    assert 40 <= tokens("prod") < 60


def test_a_no_copies_nothing_and_neither_does_a_dry_run(file: str, stack: Table, on_a_terminal: None) -> None:
    assert run("--from", file, "--to", "my-app", input="n\n").exit_code == 1
    assert succeed("--from", file, "--to", "my-app", "--dry-run", "-N", "prod") == "prod  5 items  14 write units\n"
    assert [each.name for each in stack.repository.list_namespaces()] == ["default"]


def test_a_no_and_a_dry_run_leave_no_file_where_there_was_none(file: str, tmp_path: Path, on_a_terminal: None) -> None:
    there = sorted(tmp_path.iterdir())
    new = f"sqlite:///{tmp_path / 'new.db'}"
    assert "prod" in succeed("--from", file, "--to", new, "--dry-run")
    assert run("--from", file, "--to", new, input="n\n").exit_code == 1
    assert "--from and --to are both" in fail("--from", new, "--to", new, "--dry-run")
    assert sorted(tmp_path.iterdir()) == there
    assert "Copied to" in succeed("--from", file, "--to", new, "--yes")
    assert "copied before" in succeed("--from", file, "--to", new, "--dry-run")


def test_where_nobody_can_answer_it_wants_to_be_told(file: str, stack: Table) -> None:
    assert fail("--from", file, "--to", "my-app").endswith("There is no terminal to answer on: pass --yes to confirm")


def test_a_second_copy_copies_nothing(file: str, stack: Table) -> None:
    first = opened(succeed("--from", file, "--to", "my-app", "-N", "prod", "--yes", "-o", "json"))
    (prod,) = first["namespaces"]
    found = stack.repository.get_namespace("prod")
    assert found is not None
    assert (prod["namespace"], prod["items"], prod["copied_before"]) == ("prod", 5, False)
    assert prod["new_id"] == found.namespace_id
    assert (
        succeed("--from", file, "--to", "my-app", "-N", "prod", "--yes") == "Nothing to copy: all of it is in my-app.\n"
    )
    assert succeed("--from", file, "--to", "my-app", "--dry-run").splitlines()[1] == (
        "prod     5 items  copied before, stays as it is"
    )


def test_a_setting_of_the_environment_does_not_redirect_it(
    file: str, stack: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZAEL_STORE", file)
    succeed("--from", file, "--to", "my-app", "--yes")
    monkeypatch.delenv("ZAEL_STORE")
    assert 40 <= tokens("default") < 60


def test_from_a_stack_to_a_file(stack: Table, tmp_path: Path) -> None:
    stack.repository.set_system_defaults([RPM])
    other = tmp_path / "other.db"
    told = succeed("--from", "my-app", "--to", f"sqlite:///{other}", "--yes")
    assert told == f"Copied to sqlite:///{other}: default, 2 items.\n"
    with SyncRepository.sqlite(other, register=False) as copied:
        assert copied.get_system_defaults() == ([RPM], None)


def test_from_file_to_file_to_stack_to_stack(file: str, stack: Table, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path / 'other.db'}"
    with making("second"):
        for source, target in ((file, other), (other, "my-app"), ("my-app", "second")):
            told = succeed("--from", source, "--to", target, "--yes")
            assert told == f"Copied to {target}: default, prod, 10 items.\n"
        assert 40 <= tokens("prod", stack="second") < 60
        with SyncRepository.open("prod", stack="second", register=False) as copied:
            assert copied.get_resource_defaults("gpt-4") == [RPM]
            (hour,) = copied.get_usage_snapshots(entity_id="key-1", window="hourly").snapshots
            assert hour.consumed == {"rpm": 20}


def test_mistakes_are_told_in_one_line(file: str, stack: Table, tmp_path: Path) -> None:
    missing = tmp_path / "limits.bd"
    assert fail("--from", f"sqlite:///{missing}", "--to", "my-app") == (f"--from: there is no file {missing}")
    assert not missing.exists()
    assert fail("--from", file, "--to", "my-app", "-N", "prdo") == "there is no namespace 'prdo' to copy from"
    assert fail("--from", "mysql://x", "--to", "my-app").startswith("--from 'mysql://x': must be sqlite:///file.db")
    assert fail("--from", file, "--to", file) == f"--from and --to are both {file}"
    assert fail("--from", file, "--to", "elsewhere").startswith("there is no table 'elsewhere'")
    stack.repository.set_system_defaults([RPM])
    assert "the target has 'default', and it is not empty" in fail("--from", file, "--to", "my-app", "--yes")
