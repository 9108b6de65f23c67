from support.cli.by_hand import document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit

RPM = Limit.per_minute("rpm", 100)
PLAIN = {"rpm": {"capacity": 100, "burst": 100, "refill_amount": 100, "refill_period": 60, "shadow": False}}


def test_limits_on_a_resource_and_on_all_are_apart(table: Table) -> None:
    expected = [["LIMIT", "CAPACITY", "BURST", "REFILL"], ["rpm", "100", "100", "100/min"]]
    assert told("entity", "set-limits", "key", "-r", "gpt-4", "-l", "rpm:100") == expected
    assert told("entity", "get-limits", "key", "-r", "gpt-4") == expected
    assert run("entity", "get-limits", "key").stdout == "key has no limits of its own on _default_.\n"
    run("entity", "set-limits", "key", "-l", "rpm:7")
    assert table.repository.get_limits("key", "gpt-4") == [RPM]
    assert table.repository.get_limits("key") == [Limit.per_minute("rpm", 7)]


def test_json_says_whose_they_are(table: Table) -> None:
    assert document("entity", "set-limits", "key", "-l", "rpm:100") == {
        "entity_id": "key",
        "resource": "_default_",
        "limits": PLAIN,
    }
    assert document("entity", "get-limits", "key", "-r", "gpt-4") == {
        "entity_id": "key",
        "resource": "gpt-4",
        "limits": {},
    }


def test_delete_removes_those_of_one_resource_when_told_yes(table: Table) -> None:
    for resource in ("gpt-4", "_default_"):
        table.repository.set_limits("key", [RPM], resource)
    assert refused("entity", "delete-limits", "key", "-r", "gpt-4").startswith("Delete the own limits of key on gpt-4 ")
    done = run("entity", "delete-limits", "key", "-r", "gpt-4", "--yes")
    assert done.stdout == "The own limits of key on gpt-4 are deleted.\n"
    assert (table.repository.get_limits("key", "gpt-4"), table.repository.get_limits("key")) == ([], [RPM])
    assert document("entity", "delete-limits", "key", "-y") == {
        "entity_id": "key",
        "resource": "_default_",
        "action": "deleted",
    }
    assert refused("entity", "delete-limits", "key", "-y") == (
        "there are no own limits of key on _default_ in namespace default: nothing was deleted"
    )


def test_who_changes_it_stands_in_the_audit_events(table: Table) -> None:
    run("entity", "set-limits", "key", "-l", "rpm:100")
    run("entity", "delete-limits", "key", "-y", "--principal", "bob")
    events = table.repository.get_audit_events("key").events
    assert [(each.action, each.principal) for each in events] == [("limits_deleted", "bob"), ("limits_set", "ann")]


def test_mistakes_are_one_line_each(table: Table) -> None:
    assert refused("entity", "set-limits", "key").startswith("Missing option '--limit' / '-l'")
    assert refused("entity", "set-limits", "key", "-l", "rpm:5:4").startswith(
        "--limit 'rpm:5:4': burst of limit 'rpm' 4"
    )
    assert refused("entity", "set-limits", "a b", "-l", "rpm:1").startswith("entity_id 'a b': must be")
    assert refused("entity", "get-limits", "key", "-r", "a b").startswith("resource 'a b': must be")
    assert refused("entity", "set-limits", "key", "-l", "rpm:1", "-N", "nowhere").startswith("there is no namespace")
