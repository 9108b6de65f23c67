from importlib.metadata import entry_points

from support.provisioner.provisions import EVERY_LEVEL, NAMESPACE
from zae_limiter.stores import SyncMemoryStore, SyncStore
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


def test_what_only_reads_refuses_to_write() -> None:
    (failure,) = ask("read", SyncMemoryStore(), Request.of("apply", EVERY_LEVEL)).errors
    assert failure.code == "read_only"


def test_messages_name_the_table_as_the_caller_does() -> None:
    (failure,) = ask("read", SyncMemoryStore(), Request("state", NAMESPACE)).errors
    assert "there is no namespace tenant-alpha in sqlite:////srv/limits.db: " in failure.message
