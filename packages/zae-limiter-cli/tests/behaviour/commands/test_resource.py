from support.cli.by_hand import document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit

RPM = Limit.per_minute("rpm", 100)


def test_limits_are_set_shown_listed_and_deleted(table: Table) -> None:
    expected = [["LIMIT", "CAPACITY", "BURST", "REFILL"], ["rpm", "100", "100", "100/min"]]
    assert told("resource", "set-defaults", "gpt-4", "-l", "rpm:100/min") == expected
    assert told("resource", "show", "gpt-4") == expected
    assert table.repository.get_resource_defaults("gpt-4") == [RPM]
    assert told("resource", "show") == [["RESOURCE", "LIMITS", "LIMITS", "OF", "ENTITIES"], ["gpt-4", "yes", "-"]]
    assert run("resource", "delete-defaults", "gpt-4", "-y").stdout == "Limits of resource gpt-4 deleted.\n"
    assert run("resource", "show", "gpt-4").stdout == "Resource gpt-4 has no limits in namespace default.\n"
    assert run("resource", "show").stdout == "No resource has limits in namespace default.\n"


def test_json_says_of_which_resource_they_are(table: Table) -> None:
    assert document("resource", "show") == []
    limits = {"rpm": {"capacity": 100, "burst": 100, "refill_amount": 100, "refill_period": 60, "shadow": False}}
    assert document("resource", "set-defaults", "gpt-4", "-l", "rpm:100") == {"resource": "gpt-4", "limits": limits}
    assert document("resource", "show", "gpt-4") == {"resource": "gpt-4", "limits": limits}
    assert document("resource", "show", "gpt-5") == {"resource": "gpt-5", "limits": {}}
    table.repository.set_limits("key", [RPM], "gpt-5")
    assert document("resource", "show") == [
        {"resource": "gpt-4", "limits": True, "entity_limits": False},
        {"resource": "gpt-5", "limits": False, "entity_limits": True},
    ]
    assert document("resource", "delete-defaults", "gpt-4", "-y") == {"resource": "gpt-4", "action": "deleted"}


def test_who_changes_it_stands_in_the_audit_events(table: Table) -> None:
    run("resource", "set-defaults", "gpt-4", "-l", "rpm:100")
    run("resource", "delete-defaults", "gpt-4", "-y", "--principal", "bob")
    events = table.repository.get_audit_events("$RESOURCE:gpt-4").events
    assert [(each.action, each.principal) for each in events] == [("limits_deleted", "bob"), ("limits_set", "ann")]


def test_mistakes_are_one_line_each(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    assert refused("resource", "set-defaults", "gpt-4") == "pass --limit, or --unlimited for a level that has none"
    assert refused("resource", "set-defaults", "a b", "-l", "rpm:1").startswith("resource 'a b': must be 1 to 128")
    assert refused("resource", "delete-defaults", "gpt-4").startswith("Delete the limits of resource gpt-4 in ")
    assert refused("resource", "delete-defaults", "gpt-5", "-y") == (
        "resource gpt-5 has no limits in namespace default: nothing was deleted"
    )
    assert refused("resource", "show", "-N", "nowhere").startswith("there is no namespace 'nowhere'")
    assert table.repository.get_resource_defaults("gpt-4") == [RPM]
