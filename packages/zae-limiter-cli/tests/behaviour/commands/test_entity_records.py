from typing import Any
from unicodedata import normalize

import pytest

from support.cli.by_hand import document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit


def plain(**said: Any) -> dict[str, Any]:
    """A record without the time of its creation."""
    record: dict[str, Any] = {
        "entity_id": "key",
        "name": None,
        "parent_id": None,
        "cascade": False,
        "tier": None,
        "metadata": {},
        "version": 1,
    }
    record |= said
    return record | {"parent_ids": [parent for parent in [record["parent_id"]] if parent is not None]}


def below(entity_id: str) -> list[dict[str, Any]]:
    """The records of the children, without what is below them."""
    (root,) = document("entity", "tree", entity_id, "--depth", "1")
    assert all(each.pop("children") == [] for each in root["children"])
    found: list[dict[str, Any]] = root["children"]
    return found


def without_time(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != "created_at"}


def test_an_entity_is_made_shown_and_listed_under_its_parent(table: Table) -> None:
    run("entity", "create", "team")
    made = document("entity", "create", "key", "--entity-name", "A key", "--parent", "team", "--cascade", "-m", "a=b")
    assert without_time(made) == plain(name="A key", parent_id="team", cascade=True, metadata={"a": "b"})
    assert document("entity", "show", "key")["record"] == made
    assert below("team") == [made]
    assert told("entity", "tree", "team", "--depth", "1")[1:] == [["team", "no", "-"], ["└─", "key", "yes", "A", "key"]]


def test_an_entity_that_may_exist_is_made_once_and_shown_as_it_is(table: Table) -> None:
    made = document("entity", "create", "key", "--exist-ok", "--entity-name", "A key")
    assert document("entity", "create", "key", "--exist-ok", "--entity-name", "Another name") == made
    assert len(table.repository.get_audit_events("key").events) == 1


def test_people_see_a_line_for_each_field(table: Table) -> None:
    assert told("entity", "create", "key", "-m", "b=2", "-m", "a=1")[:5] == [
        ["entity", "key"],
        ["name", "-"],
        ["parent", "-"],
        ["cascade", "no"],
        ["metadata", "a=1,", "b=2"],
    ]


def test_an_update_changes_what_is_given_and_clears_what_is_to_go(table: Table) -> None:
    table.repository.create_entity("team")
    table.repository.create_entity("key", "A key", "team", cascade=True, metadata={"a": "b"})
    renamed = document("entity", "update", "key", "--entity-name", "B", "--metadata", "c=d")
    assert without_time(renamed) == plain(name="B", parent_id="team", cascade=True, metadata={"c": "d"}, version=2)
    alone = document("entity", "update", "key", "--no-entity-name", "--no-parent", "--no-cascade", "--no-metadata")
    assert without_time(alone) == plain(version=3)
    assert without_time(document("entity", "update", "key", "--parent", "team")) == plain(parent_id="team", version=4)


def test_delete_takes_limits_and_buckets_along_when_told_yes(table: Table) -> None:
    table.repository.create_entity("key")
    table.repository.set_limits("key", [Limit.per_minute("rpm", 1)])
    assert refused("entity", "delete", "key").startswith("Delete the entity key, its own limits and its buckets, in ")
    assert run("entity", "delete", "key", "--yes").stdout == "Entity key deleted.\n"
    assert table.repository.get_entity("key") is None
    assert table.repository.get_limits("key") == []
    table.repository.create_entity("key")
    assert document("entity", "delete", "key", "-y") == {"entity_id": "key", "action": "deleted"}


def test_who_changes_it_stands_in_the_audit_events(table: Table) -> None:
    run("entity", "create", "key")
    run("entity", "update", "key", "--entity-name", "B")
    run("entity", "delete", "key", "-y")
    events = table.repository.get_audit_events("key").events
    assert [(each.action, each.principal) for each in events] == [
        ("entity_deleted", "ann"),
        ("entity_updated", "ann"),
        ("entity_created", "ann"),
    ]


def test_a_parent_without_children_is_told_from_what_is_not_there(table: Table) -> None:
    table.repository.create_entity("team")
    assert below("team") == []
    assert refused("entity", "tree", "taem") == "there is no entity 'taem': check the id and --namespace"


@pytest.mark.long(keep=3)
@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["show", "nobody"], "there is no entity 'nobody': check the id and --namespace"),
        (["create", "team"], "entity 'team' exists already"),
        (["create", "key", "--parent", "nobody"], "there is no entity 'nobody': check the id and --namespace"),
        (["create", "key", "--cascade"], "--cascade: the entity needs a parent to consume from: pass --parent ID"),
        (["create", "a b"], "entity_id 'a b': must be 1 to 256 printable characters"),
        (["create", "key", "-m", "a"], "--metadata 'a': must be key=value"),
        (
            ["update", "team"],
            "nothing to change: pass --entity-name, --parent, --plan, --cascade, --metadata, or their --no-… forms",
        ),
        (["update", "team", "--parent", "x", "--no-parent"], "--parent and --no-parent contradict each other"),
        (["update", "team", "--entity-name", "x", "--no-entity-name"], "--entity-name and --no-entity-name contradict"),
        (["update", "team", "--parent", "team"], "parent_ids 'team': an entity cannot be its own parent"),
        (["update", "nobody", "--cascade"], "there is no entity 'nobody': check the id and --namespace"),
        (["delete", "nobody", "-y"], "there is no entity 'nobody': check the id and --namespace"),
        (["delete", "team", "-y"], "entity 'team' has children, 1: delete them first"),
        (["show", "team", "-N", "nowhere"], "there is no namespace 'nowhere'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_one_line(table: Table, args: list[str], problem: str) -> None:
    table.repository.create_entity("team")
    table.repository.create_entity("child", parent_id="team")
    assert refused("entity", *args).startswith(problem)


def test_an_update_of_a_version_that_is_no_more_is_refused(table: Table) -> None:
    table.repository.create_entity("team")
    changed = document("entity", "update", "team", "--entity-name", "Red", "--expect-version", "1")
    assert (changed["name"], changed["version"]) == ("Red", 2)
    update = ["update", "team", "--entity-name", "Blue", "--expect-version"]
    assert refused("entity", *update, "1") == "entity 'team' has version 2, not 1: read it again"
    assert refused("entity", *update, "0").startswith("Invalid value for '--expect-version': 0 is not in the range")
    assert document("entity", "show", "team")["record"] == changed


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("entity", ["auth0|123", "user+tag@x.com", "::1", "-x", "a/b#c", "日本", "e\u0301"])
def test_an_id_is_taken_as_it_is_and_shown_in_nfc(table: Table, entity: str) -> None:
    name = normalize("NFC", entity)
    run("entity", "create", "team|1")
    made = document("entity", "create", "--parent", "team|1", "--", entity)
    assert without_time(made) == plain(entity_id=name, parent_id="team|1")
    assert document("entity", "show", "--", entity)["record"] == made
    assert below("team|1") == [made]
    run("entity", "set-limits", "-l", "rpm:5", "-r", "/v1/chat", "--", entity)
    (listed,) = document("entity", "list", "-r", "/v1/chat")["entities"]
    assert (listed["entity_id"], listed["has_limits"]) == (name, True)
    assert told("entity", "list", "-r", "/v1/chat")[1][0] == name
    events = document("audit", "list", f"--entity={entity}")
    assert {event["entity_id"] for event in events} == {name}
    run("entity", "delete", "--yes", "--", entity)
    assert below("team|1") == []


def test_an_entity_has_several_parents_and_moves_with_all_that_is_below(table: Table) -> None:
    run("entity", "create", "org")
    for each in ("user", "team"):
        run("entity", "create", each, "--parent", "org", "--cascade")
    made = document("entity", "create", "key", "--parent", "user", "--parent", "team", "--cascade")
    assert (made["parent_id"], made["parent_ids"]) == ("user", ["user", "team"])
    assert ["parents", "user,", "team"] in told("entity", "show", "key")
    assert [each["entity_id"] for each in document("entity", "tree", "key", "--above")] == ["user", "team", "org"]
    assert [each["entity_id"] for each in below("team")] == ["key"]
    moved = document("entity", "update", "key", "--parent", "team")
    assert (moved["parent_ids"], moved["cascade"], moved["version"]) == (["team"], True, 2)
    assert below("user") == []
    problem = (
        "team would consume from its parents, and would have none: pass --no-cascade, too; "
        "`entity update team --parent ID --cascade` brings it back"
    )
    assert refused("entity", "update", "team", "--no-parent") == problem
    assert document("entity", "show", "team")["record"]["parent_ids"] == ["org"]
    top = document("entity", "update", "team", "--no-parent", "--no-cascade")
    assert (top["parent_ids"], top["cascade"]) == ([], False)
    assert [each["entity_id"] for each in document("entity", "tree", "key", "--above")] == ["team"]
    assert run("entity", "tree", "team", "--above").stdout == "Entity team has no parents.\n"
    back = document("entity", "update", "team", "--parent", "org", "--cascade")
    assert (back["parent_ids"], back["cascade"]) == (["org"], True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["update", "key", "--parent", "nobody"], "there is no entity 'nobody': check the id and --namespace"),
        (
            ["update", "team", "--parent", "key"],
            "parent_ids 'key': key has team as a parent: no entity can be above itself",
        ),
        (["update", "key", "--parent", "team", "--parent", "team"], "parent_ids 'team': is given twice"),
        (["tree", "--above"], "--above and --depth are about one entity: pass ENTITY_ID, too"),
        (["tree", "key", "--above", "--depth", "1"], "--above and --depth exclude each other: pass one of them"),
        (["tree", "nobody", "--above"], "there is no entity 'nobody': check the id and --namespace"),
    ],
)
def test_a_move_that_cannot_be_is_refused(table: Table, arguments: list[str], problem: str) -> None:
    table.repository.create_entity("team")
    table.repository.create_entity("key", parent_id="team")
    assert refused("entity", *arguments) == problem
    assert table.repository.get_ancestors("key") == [table.repository.get_entity("team")]
