from click.testing import Result

from support.cli.by_hand import document, effective, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit

RPM = Limit.per_minute("rpm", 100)
PLAIN = {"rpm": {"capacity": 100, "burst": 100, "refill_amount": 100, "refill_period": 60, "shadow": False}}


def test_limits_on_a_resource_and_on_all_are_apart(table: Table) -> None:
    expected = [["LIMIT", "CAPACITY", "BURST", "REFILL"], ["rpm", "100", "100", "100/min"]]
    assert told("entity", "set-limits", "key", "-r", "gpt-4", "-l", "rpm:100") == expected
    assert effective("key", "gpt-4")["levels"][0]["limits"] == PLAIN
    assert effective("key", "gpt-4")["levels"][1]["limits"] == {}
    run("entity", "set-limits", "key", "-l", "rpm:7")
    assert table.repository.get_limits("key", "gpt-4") == [RPM]
    assert table.repository.get_limits("key") == [Limit.per_minute("rpm", 7)]


def test_json_says_whose_they_are(table: Table) -> None:
    assert document("entity", "set-limits", "key", "-l", "rpm:100") == {
        "entity_id": "key",
        "resource": "_default_",
        "limits": PLAIN,
        "override": None,
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
    assert refused("entity", "set-limits", "key") == "pass --limit, or --unlimited for a level that has none"
    assert refused("entity", "set-limits", "key", "-l", "rpm:5:4").startswith(
        "--limit 'rpm:5:4': burst of limit 'rpm' 4"
    )
    assert refused("entity", "set-limits", "a b", "-l", "rpm:1").startswith("entity_id 'a b': must be")
    assert refused("entity", "show", "key", "-r", "a b").startswith("resource 'a b': must be")
    assert refused("entity", "set-limits", "key", "-l", "rpm:1", "-N", "nowhere").startswith("there is no namespace")


def test_an_override_is_set_shown_and_ended(table: Table) -> None:
    table.repository.set_limits("key", [RPM], "gpt-4")
    shown = run("entity", "set-limits", "key", "-r", "gpt-4", "-l", "rpm:900", "--until", "2h").stdout
    override = table.repository.get_override("key", "gpt-4")
    assert override is not None
    assert f"Override until {override.until:%Y-%m-%d %H:%M} (UTC):\n" in shown
    assert "900/min" in shown
    shown = run("entity", "show", "key", "-r", "gpt-4").stdout
    assert f"entity: Override until {override.until:%Y-%m-%d %H:%M} (UTC); then these limits of its own:" in shown
    assert "100/min" in shown
    levels = effective("key", "gpt-4")
    assert levels["limits"]["rpm"]["capacity"] == 900
    assert levels["levels"][0]["limits"] == PLAIN
    assert levels["levels"][0]["override"]["limits"]["rpm"]["capacity"] == 900
    assert run("lift", "key", "-r", "gpt-4", "--end", "-y").stdout == ("The override of key on gpt-4 has ended.\n")
    assert refused("lift", "key", "-r", "gpt-4", "--end", "-y") == (
        "there is no override of key on gpt-4 in namespace default: nothing was ended"
    )
    assert "100/min" in run("entity", "show", "key", "-r", "gpt-4").stdout


def test_a_wrong_end_is_refused(table: Table) -> None:
    for end in ("soon", "2026-01-31T18:00", "9999999w", "2h30m"):
        assert "--until" in refused("entity", "set-limits", "key", "-l", "rpm:9", "--until", end)
    for end, problem in (("0h", "must be in the future"), ("53w", "must be at most 366 days from now")):
        assert refused("entity", "set-limits", "key", "-l", "rpm:9", "--until", end) == f"--until '{end}': {problem}"
    assert table.repository.get_override("key") is None


def test_an_override_without_a_limit_that_calls_may_consume_is_warned_of(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, Limit.per_minute("tpm", 5000)])
    for place in (("-r", "gpt-4"), ()):
        assert ("the level resource has tpm as well" in override("rpm:9", *place).stderr) == bool(place)
    assert override("rpm:9", "-r", "gpt-4", "-l", "tpm:1").stderr == ""
    table.repository.set_limits("key", [Limit.per_minute("rpd", 5)])
    assert "the level entity_default has rpd as well" in override("tpm:9", "--yes").stderr


def override(limit: str, *words: str) -> Result:
    return run("entity", "set-limits", "key", "-l", limit, *words, "--until", "2h")


def test_who_deletes_limits_hears_of_the_override_that_stays(table: Table) -> None:
    override("rpm:9")
    found = table.repository.get_override("key")
    assert found is not None
    stays = f"; its override until {found.until:%Y-%m-%d %H:%M} (UTC) stays"
    assert refused("entity", "delete-limits", "key", "-y") == (
        "there are no own limits of key on _default_ in namespace default: nothing was deleted"
        f"{stays}: `lift --end` ends it"
    )
    table.repository.set_limits("key", [RPM])
    deleted = run("entity", "delete-limits", "key", "-y").stdout
    assert deleted == f"The own limits of key on _default_ are deleted{stays}.\n"
    assert table.repository.get_override("key") == found
