import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from threading import Barrier

import pytest

from support.provisioner.provisions import EVERY_LEVEL, NAMESPACE, entities, manifest
from zae_limiter.stores import SyncMemoryStore, SyncSQLiteStore, SyncStore
from zae_limiter_manifest import Answer, Request


def ask(name: str, store: SyncStore, request: Request) -> Answer:
    """Ask as the command line does: by the entry point."""
    (entry,) = entry_points(group="zae_limiter.provisioner", name=name)
    answer: Answer = entry.load()(store, "sqlite:////srv/limits.db", request)
    return answer


def test_a_process_with_a_store_plans_and_applies_without_a_lambda() -> None:
    store = SyncMemoryStore()
    planned = ask("read", store, Request.of("plan", EVERY_LEVEL))
    applied = ask("perform", store, Request.of("apply", EVERY_LEVEL))
    assert (planned.status, applied.status) == ("planned", "applied")
    assert planned.plan
    assert applied.plan
    assert planned.plan.changes == applied.plan.changes
    assert (again := ask("read", store, Request.of("plan", EVERY_LEVEL)).plan)
    assert again.changes == ()


def test_an_apply_that_registers_its_namespace_warns_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert ask("perform", SyncMemoryStore(), Request.of("apply", EVERY_LEVEL)).status == "applied"
    told = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert told == [(logging.INFO, "registered the new namespace tenant-alpha")]


def test_what_only_reads_refuses_to_write() -> None:
    (failure,) = ask("read", SyncMemoryStore(), Request.of("apply", EVERY_LEVEL)).errors
    assert failure.code == "read_only"


def test_messages_name_the_table_as_the_caller_does() -> None:
    (failure,) = ask("read", SyncMemoryStore(), Request("state", NAMESPACE)).errors
    assert "there is no namespace tenant-alpha in sqlite:////srv/limits.db: " in failure.message


def test_two_operators_and_a_rollback_at_once_each_win_whole_or_change_nothing(tmp_path: Path) -> None:
    def do(request: Request) -> Answer:
        with closing(SyncSQLiteStore(tmp_path / "limits.db")) as store:
            name = "perform" if request.action == "apply" else "read"
            return ask(name, store, request)

    files = {name: manifest(entities=entities(30, capacity)) for name, capacity in (("old", 1), ("ann", 2), ("bob", 3))}
    assert do(Request.of("apply", files["old"], principal="old")).status == "applied"
    assert do(Request.of("apply", manifest(entities=entities(30, 4)), principal="last")).status == "applied"
    kept = do(Request("show", NAMESPACE, serial=2)).manifest
    assert kept == files["old"]

    def operate(name: str) -> Answer:
        plan = do(Request.of("plan", files[name])).plan
        assert plan
        start.wait()
        return do(
            Request.of(
                "apply",
                files[name],
                expected_serial=plan.serial,
                expected_plan=plan.changes_hash(),
                principal=name,
                lock_timeout=20,
            )
        )

    start = Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        done = dict(zip(files, pool.map(operate, files), strict=True))
    won = [name for name, answer in done.items() if answer.status == "applied"]
    assert len(won) == 1
    assert {failure.code for answer in done.values() for failure in answer.errors} <= {"stale", "locked"}
    assert do(Request("export", NAMESPACE)).manifest == files[won[0]]
    history = do(Request("history", NAMESPACE)).history
    assert history
    assert [entry.principal for entry in history] == [won[0], "last", "old"]
    assert {entry.outcome for entry in history} == {"applied"}
    assert do(Request("state", NAMESPACE)).state.lock is None  # type: ignore[union-attr]
