from typing import Any

import pytest

from support.cli.by_hand import document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit, SyncRepository

RPM = Limit.per_minute("rpm", 100)
TPM = Limit.per_hour("tpm", 10_000, burst=15_000)


def test_limits_are_set_in_place_of_those_before_and_shown(table: Table) -> None:
    table.repository.set_system_defaults([Limit.per_day("old", 1)])
    expected = [
        ["LIMIT", "CAPACITY", "BURST", "REFILL"],
        ["rpm", "100", "100", "100/min"],
        ["tpm", "10,000", "15,000", "10k/hour"],
    ]
    *shown, changed = told("system", "set-defaults", "-l", "rpm:100", "-l", "tpm:10000/hour:15000", "-y")
    assert shown == expected
    assert (
        " ".join(changed) == "Changed: old 1/rolling day -> none, rpm none -> 100/min, tpm none -> 10k/hour burst 15k."
    )
    assert told("system", "show") == expected
    assert table.repository.get_system_defaults() == ([RPM, TPM], None)


def test_what_is_not_given_stays(table: Table) -> None:
    table.repository.set_system_defaults([RPM], "block")
    assert told("system", "set-defaults", "--on-unavailable", "allow")[0] == ["on_unavailable:", "allow"]
    assert table.repository.get_system_defaults() == ([RPM], "allow")
    run("system", "set-defaults", "-l", "tpm:10000/hour:15000", "--yes")
    assert table.repository.get_system_defaults() == ([TPM], "allow")


def test_limits_that_somebody_sets_meanwhile_stay(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.repository.set_system_defaults([RPM])
    set_them = SyncRepository.set_system_defaults

    def overtaken(self: SyncRepository, *args: Any, **more: Any) -> None:
        set_them(table.repository, [TPM])
        set_them(self, *args, **more)

    monkeypatch.setattr(SyncRepository, "set_system_defaults", overtaken)
    run("system", "set-defaults", "--on-unavailable", "allow")
    assert table.repository.get_system_defaults() == ([TPM], "allow")


def test_json_has_the_limits_by_name(table: Table) -> None:
    assert document("system", "show") == {"on_unavailable": None, "limits": {}}
    assert document("system", "set-defaults", "-l", "rpm:100", "--on-unavailable", "block") == {
        "on_unavailable": "block",
        "limits": {"rpm": {"capacity": 100, "burst": 100, "refill_amount": 100, "refill_period": 60, "shadow": False}},
    }


def test_delete_removes_limits_and_policy_when_told_yes(table: Table) -> None:
    table.repository.set_system_defaults([RPM], "block")
    assert refused("system", "delete-defaults") == (
        "Delete the system defaults of namespace default? There is no terminal to answer on: pass --yes to confirm"
    )
    assert table.repository.get_system_defaults() == ([RPM], "block")
    assert run("system", "delete-defaults", "-y").stdout == "System defaults of namespace default deleted.\n"
    assert table.repository.get_system_defaults() == ([], None)
    assert run("system", "show").stdout == "The system has no limits in namespace default.\n"


def test_what_only_has_a_policy_can_be_deleted_too(table: Table) -> None:
    run("system", "set-defaults", "--on-unavailable", "allow")
    assert document("system", "delete-defaults", "--yes") == {"action": "deleted"}
    assert refused("system", "delete-defaults", "-y") == (
        "there are no system defaults in namespace default: nothing was deleted"
    )


def test_who_changes_it_stands_in_the_audit_events(table: Table) -> None:
    run("system", "set-defaults", "-l", "rpm:100")
    run("system", "delete-defaults", "--yes", "--principal", "bob")
    events = table.repository.get_audit_events("$SYSTEM").events
    assert [(each.action, each.principal) for each in events] == [("limits_deleted", "bob"), ("limits_set", "ann")]


def test_mistakes_are_one_line_each(table: Table) -> None:
    nothing = "nothing to set: pass --limit, --unlimited, --on-unavailable, or --on-refused"
    assert refused("system", "set-defaults") == nothing
    assert refused("system", "set-defaults", "-l", "rpm").startswith(
        "--limit 'rpm': must be a name and a limit, such as rpm: 100/min"
    )
    assert refused("system", "set-defaults", "-l", "rpm:1", "-l", "rpm:2").startswith("limits 'rpm': is given twice")
    assert refused("system", "set-defaults", "-l", "rpm:1", "-N", "nowhere").startswith("there is no namespace")
    assert refused("system", "show", "-N", "nowhere").startswith("there is no namespace 'nowhere'")
    assert [each.name for each in table.repository.list_namespaces()] == ["default"]


def test_a_table_that_is_not_there_is_one_line(aws: str) -> None:
    assert refused("system", "show").startswith("there is no table 'my-app'")
