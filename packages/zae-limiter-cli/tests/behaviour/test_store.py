"""The commands on a file of SQLite in place of a stack."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.limits_stack import Stack, serving
from zae_limiter import SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_cli.main import main
from zae_limiter_provisioner import handler

MANIFEST = """
namespace: tenant-alpha
system: {on_unavailable: allow, limits: {rpm: {capacity: 100}}}
resources: {gpt-4: {limits: {rpm: {capacity: 10}}}}
"""
MORE = f"{MANIFEST}entities: {{key-a: {{resources: {{gpt-4: {{limits: {{rpm: {{capacity: 20}}}}}}}}}}}}\n"
URL = "sqlite:///limits.db"
PROGRAM = [sys.executable, "-c", "from zae_limiter_cli.main import main; main()"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with two manifests; the environment names a file, the namespace and the author."""
    for name in ("ZAEL_STACK", "ZAEL_SOURCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZAEL_STORE", URL)
    monkeypatch.setenv("ZAEL_NAMESPACE", "tenant-alpha")
    monkeypatch.setenv("ZAEL_PRINCIPAL", "ann")
    monkeypatch.chdir(tmp_path)
    Path("limits.yaml").write_text(MANIFEST)
    Path("more.yaml").write_text(MORE)
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def ok(*args: str, code: int = 0) -> str:
    done = run(*args)
    assert (done.exit_code, done.stderr) == (code, ""), (args, done.output, done.exception)
    return done.stdout


def document(*args: str) -> Any:
    return opened(ok(*args, "-o", "json"))


def error(*args: str) -> str:
    """The one line of a command that does nothing."""
    done = run(*args)
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, done.stdout, line[:7]) == (1, "", "Error: "), (args, done.output)
    return line[7:]


def start(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_first_apply_of_a_process_writes_no_line_for_programmers(folder: Path) -> None:
    said, problem = start("limits", "apply", "-f", "limits.yaml", "--yes").communicate()
    assert "Applied: 2 created" in said
    assert problem == ""  # where lines of the log go that nobody configured


def test_limits_of_a_file_are_planned_applied_used_and_looked_at(folder: Path) -> None:
    assert "Plan: 2 to create" in ok("limits", "plan", "-f", "limits.yaml", "--exit-code", code=2)
    assert not Path("limits.db").exists()
    assert "Applied: 2 created" in ok("limits", "apply", "-f", "limits.yaml", "--yes")
    assert "No changes." in ok("limits", "plan", "-f", "limits.yaml", "--exit-code")
    assert "No drift." in ok("limits", "diff", "-f", "limits.yaml", "--exit-code")
    with SyncRepository.open() as repository, SyncRateLimiter(repository).acquire("key-a", "gpt-4", {"rpm": 4}):
        pass
    (bucket,) = document("entity", "show", "key-a")["buckets"]
    assert (bucket["limits"]["rpm"]["consumed"], bucket["limits"]["rpm"]["burst"]) == (4, 10)
    (used, *_) = document("usage", "list", "--entity", "key-a")
    assert (used["resource"], used["consumed"]) == ("gpt-4", {"rpm": 4})
    (event,) = document("audit", "list", "--resource", "gpt-4")
    assert (event["action"], event["principal"]) == ("limits_set", "provisioner (claimed: ann)")
    assert document("limits", "status")["state"]["owner"] == "cli"
    assert ok("limits", "export").startswith("namespace: tenant-alpha\n")


def test_a_change_by_hand_is_drift(folder: Path) -> None:
    ok("limits", "apply", "-f", "limits.yaml", "--yes")
    assert (
        "its next `limits apply` restores what the file says"
        in run("resource", "set-defaults", "gpt-4", "-l", "rpm:3").stderr
    )
    told = ok("limits", "diff", "-f", "limits.yaml", "--exit-code", code=2)
    assert "resource gpt-4 (changed out of band)\n      rpm: capacity is 3, declared 10" in told


@pytest.fixture
def stack(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """A stack, whose functions are asked over HTTP."""
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "us-east-1")
    with serving(folder) as stack:
        monkeypatch.setattr(handler, "table_of_environment", stack.world.table)
        monkeypatch.setattr(handler, "log_as_json", lambda *_, **__: None)
        monkeypatch.setattr(handler.logger, "disabled", True)  # another package's tests may have it write to stdout
        yield stack


def test_a_file_answers_what_the_functions_of_a_stack_answer(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("few.yaml").write_text("namespace: tenant-alpha\n")
    conversation = [
        ["export"],
        ["plan", "-f", "more.yaml", "--exit-code"],
        ["apply", "-f", "more.yaml", "--yes", "-o", "json"],
        ["apply", "-f", "more.yaml", "--yes"],
        ["diff", "-f", "limits.yaml", "-o", "json"],
        ["apply", "-f", "few.yaml", "--yes"],  # which deletes all
        ["apply", "-f", "limits.yaml", "--yes", "--expect-hash", "another"],
        ["apply", "-f", "few.yaml", "--yes", "--allow-deletes"],
        ["unlock", "abc", "--yes"],
        ["export", "-N", "nobody"],
    ]
    monkeypatch.delenv("ZAEL_STORE")
    of_stack = [stack.run(*words) for words in conversation]
    ok("namespace", "register", "other", "--store", URL)
    of_file = [run("limits", *words, "--store", URL) for words in conversation]

    def told(each: Result, table: str) -> tuple[int, str, str]:
        return each.exit_code, each.stdout, each.stderr.replace(table, "TABLE")

    place = f"sqlite:///{Path('limits.db').absolute()}"
    assert [told(each, place) for each in of_file] == [told(each, "stack") for each in of_stack]
    assert {each.exit_code for each in of_file} == {0, 1, 2}


def test_a_saved_plan_is_for_its_file_from_wherever_it_is_applied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ok("limits", "plan", "-f", "limits.yaml", "--out", "plan.json")
    place = f"sqlite:///{folder}/limits.db"
    assert error("limits", "apply", "plan.json", "--yes", "--store", "sqlite:///other.db") == (
        f"plan.json: this plan is for the file {place}: pass --store {place}"
    )
    monkeypatch.chdir("/")
    assert "Applied: 2 created" in ok("limits", "apply", f"{folder}/plan.json", "--yes", "--store", place)
    assert (folder / "limits.db").exists()


@pytest.mark.parametrize(
    "args",
    [
        ("usage", "list", "--entity", "key-a"),
        ("audit", "list", "--system"),
        ("system", "set-defaults", "-l", "rpm:1"),
        ("entity", "show", "key-a"),
        ("namespace", "list"),
        ("limits", "status"),
        ("limits", "export"),
        ("limits", "unlock", "abc", "--yes"),
    ],
    ids=" ".join,
)
def test_a_command_that_looks_for_something_makes_no_file(folder: Path, args: tuple[str, ...]) -> None:
    assert error(*args).startswith("there is no file limits.db: check --store; ")
    assert not Path("limits.db").exists()


@pytest.mark.parametrize("args", [("limits", "plan", "-f", "limits.yaml"), ("entity", "show", "key-a")], ids=" ".join)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("folder", "folder is a folder: name a file in it"),
        ("text.db", "text.db: it is not an SQLite database: name another file (file is not a database)"),
        ("other.db", "other.db is the database of another program: name another file"),
        ("gone/limits.db", "gone"),
    ],
)
def test_what_is_no_file_of_ours_is_one_line_with_a_way_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], name: str, told: str
) -> None:
    Path("folder").mkdir()
    Path("text.db").write_text("this is a text, and no database\n" * 100)
    with sqlite3.connect("other.db") as other:
        other.execute("CREATE TABLE theirs (a)")
    other.close()
    monkeypatch.setenv("ZAEL_STORE", f"sqlite:///{name}")
    assert told in error(*args)
    assert not Path("gone").exists()


def test_namespaces_of_a_file_come_and_go(folder: Path) -> None:
    ok("namespace", "register", "tenant-alpha")
    (made,) = document("namespace", "list")
    ok("namespace", "delete", "tenant-alpha", "--yes")
    assert "was deleted" in error("entity", "list")
    ok("namespace", "recover", "--", made["namespace_id"])
    ok("entity", "list")
    ok("namespace", "delete", "tenant-alpha", "--yes")
    ok("namespace", "purge", "--yes", "--", made["namespace_id"])
    assert document("namespace", "list", "--deleted") == []


@pytest.mark.long
@pytest.mark.slow
def test_processes_that_apply_at_once_apply_once(folder: Path) -> None:
    words = ["limits", "apply", "-f", "limits.yaml", "--yes", "--lock-timeout", "60"]
    for process in [start(*words) for _ in range(4)]:
        told = process.communicate(timeout=120)
        assert process.returncode == 0, told
    assert len(document("audit", "list", "--resource", "gpt-4")) == 1
    assert document("limits", "status")["state"]["lock"] is None


@pytest.mark.long
@pytest.mark.slow
def test_an_apply_that_is_interrupted_frees_its_lock_and_the_next_one_does_the_rest(folder: Path) -> None:
    count = 2_000
    keys = "".join(
        f"  key-{number}: {{resources: {{gpt-4: {{limits: {{rpm: {{capacity: 5}}}}}}}}}}\n" for number in range(count)
    )
    Path("many.yaml").write_text(f"{MANIFEST}entities:\n{keys}")
    ok("namespace", "register", "tenant-alpha")
    process = start("limits", "apply", "-f", "many.yaml", "--yes", "--quiet")
    with SyncRepository.open() as repository:
        while process.poll() is None and SyncMaintenance(repository).get_provisioner_state().lock is None:
            pass
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
        assert (process.returncode, told) == (
            1,
            "Error: tenant-alpha: stopped in the middle: run the command again, which makes the rest of the changes\n",
        )
        assert SyncMaintenance(repository).get_provisioner_state().lock is None
    assert "Applied: " in ok("limits", "apply", "-f", "many.yaml", "--yes", "--quiet")
    assert document("limits", "plan", "-f", "many.yaml")["namespaces"][0]["changes"] == []
