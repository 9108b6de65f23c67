from typing import Any

import pytest

from support.cli.by_hand import document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit
from zae_limiter.flows import pages
from zae_limiter.flows.records import registry
from zae_limiter.maintenance import SyncMaintenance, VersionRecord
from zae_limiter_cli import progress
from zae_limiter_cli.commands.namespace import lifecycle


def test_a_namespace_is_registered_once_listed_and_shown(table: Table) -> None:
    made = document("namespace", "register", "prod")
    assert document("namespace", "register", "prod") == made
    assert (made["name"], made["deleted_at"]) == ("prod", None)
    assert document("namespace", "list", "prod") == made
    assert [each["name"] for each in document("namespace", "list")] == ["default", "prod"]
    assert told("namespace", "list")[2] == ["prod", made["namespace_id"], made["created_at"], "-"]
    assert told("namespace", "list", "prod") == [
        ["namespace", "prod"],
        ["id", made["namespace_id"]],
        ["created", made["created_at"]],
    ]


def test_a_deleted_namespace_comes_back_with_all_that_is_in_it(table: Table) -> None:
    repository = table.repository.namespace("prod")
    repository.set_system_defaults([Limit.per_minute("rpm", 1)])
    way_back = f"zae-limiter namespace recover {repository.namespace_id}"
    assert refused("namespace", "delete", "prod").startswith("Delete the namespace prod? There is no terminal")
    done = run("namespace", "delete", "prod", "--yes")
    assert done.stdout == f"Namespace prod deleted; `{way_back}` recovers it.\n"
    assert refused("namespace", "list", "prod") == f"the namespace 'prod' was deleted: `{way_back}` recovers it"
    assert [each["namespace_id"] for each in document("namespace", "list", "--deleted")] == [repository.namespace_id]
    assert told("namespace", "recover", repository.namespace_id)[0] == ["namespace", "prod"]
    assert repository.get_system_defaults() == ([Limit.per_minute("rpm", 1)], None)
    assert run("namespace", "list", "--deleted").stdout == "No namespace can be recovered or purged.\n"


def test_json_of_a_deletion_has_the_id_that_brings_it_back(table: Table) -> None:
    namespace_id = table.repository.namespace("prod").namespace_id
    deleted = document("namespace", "delete", "prod", "-y")
    assert (deleted["namespace_id"], deleted["action"]) == (namespace_id, "deleted")
    assert deleted["deleted_at"] is not None


def purgeable(table: Table, limits: int) -> str:
    """The id of a deleted namespace with limits in it; each has an audit event."""
    repository = table.repository.namespace("prod")
    repository.set_many_limits({(f"key-{number}", "r"): [Limit.per_minute("rpm", 1)] for number in range(limits)})
    return table.repository.delete_namespace("prod").namespace_id


def test_purge_removes_a_deleted_namespace_when_told_yes(table: Table) -> None:
    namespace_id = purgeable(table, 2)
    assert refused("namespace", "purge", "--", namespace_id).startswith(f"Purge the namespace {namespace_id} and all ")
    assert document("namespace", "purge", "-y", "--", namespace_id) == {
        "namespace_id": namespace_id,
        "items": 4,
        "action": "purged",
    }
    assert document("namespace", "list", "--deleted") == []


@pytest.mark.parametrize(("more", "lines"), [([], ["20 items removed", "40 items removed"]), (["--quiet"], [])])
def test_purge_tells_how_far_it_is(table: Table, monkeypatch: Any, more: list[str], lines: list[str]) -> None:
    monkeypatch.setattr(progress, "ITEMS_BETWEEN_LINES", 10)
    monkeypatch.setattr(pages, "WRITES_PER_BATCH", 5)  # four batches at once: a wave of 20
    monkeypatch.setattr(registry, "SETTLE_SECONDS", 0)  # the index of moto does not lag
    namespace_id = purgeable(table, 22)
    done = run("namespace", "purge", "-y", *more, "--", namespace_id)
    assert done.stdout == f"Namespace {namespace_id} purged, items removed: 44.\n"
    assert done.stderr.splitlines() == lines


def test_ctrl_c_in_a_purge_says_how_the_rest_is_removed(table: Table, monkeypatch: Any) -> None:
    monkeypatch.setattr(progress, "ITEMS_BETWEEN_LINES", 10)
    monkeypatch.setattr(pages, "WRITES_PER_BATCH", 5)
    monkeypatch.setattr(registry, "SETTLE_SECONDS", 0)
    namespace_id = purgeable(table, 22)

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as interrupted:
        interrupted.setattr(lifecycle, "reporter", lambda **_: stop)
        told = f"stopped in the middle: run `zae-limiter namespace purge --name my-app -- {namespace_id}` again, "
        assert refused("namespace", "purge", "-y", "--", namespace_id) == f"{told}which removes the rest"
    assert document("namespace", "purge", "-y", "-q", "--", namespace_id)["items"] < 44


def test_namespaces_can_be_looked_after_where_default_was_deleted(table: Table) -> None:
    table.repository.delete_namespace("default")
    assert run("namespace", "list").stdout == (
        "No namespace is in use: `zae-limiter namespace register` creates one.\n"
    )
    assert document("namespace", "register", "prod")["name"] == "prod"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["list", "nowhere"], "there is no namespace 'nowhere': `zae-limiter namespace list` lists the namespaces"),
        (["delete", "nowhere", "-y"], "there is no namespace 'nowhere'"),
        (["register", "a b"], "namespace 'a b': must be 1 to 64 characters"),
        (
            ["recover", "gone"],
            "there is no namespace with the id 'gone': `zae-limiter namespace list --deleted` lists the ids",
        ),
        (["purge", "gone", "-y"], "there is no namespace with the id 'gone'"),
        (["recover", "a b"], "namespace_id 'a b': must be 1 to 64 ASCII letters"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_one_line(table: Table, args: list[str], problem: str) -> None:
    assert refused("namespace", *args).startswith(problem)


def test_one_in_use_is_neither_recovered_nor_purged(table: Table) -> None:
    namespace_id = table.repository.namespace_id
    assert refused("namespace", "recover", "--", namespace_id) == f"namespace {namespace_id!r}: it is not deleted"
    assert refused("namespace", "purge", "-y", "--", namespace_id).endswith("it is in use: delete it first")


def test_a_stack_that_needs_a_newer_release_is_left_alone(table: Table) -> None:
    SyncMaintenance(table.repository).set_version_record(VersionRecord(1, "99.0.0", "99.0.0"))
    assert refused("namespace", "register", "prod").startswith("stack 'my-app' needs zae-limiter-core 99.0.0 or newer")


def test_a_table_that_is_not_there_is_one_line(aws: str) -> None:
    assert refused("namespace", "list").startswith("there is no table 'my-app'")
