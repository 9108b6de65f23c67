"""`switch` alone: what is disabled, bypassed, lifted or overridden now, by whom and until when."""

from datetime import UTC, datetime, timedelta

import pytest

from support.cli.by_hand import opened, run, told
from support.cli.calls import recorded
from support.cli.tables import Table
from zae_limiter import Limit

RPM = Limit.per_minute("rpm", 100)


@pytest.fixture
def departed(table: Table) -> Table:
    """What an incident leaves: each kind of switch, a lift, and an entity that is out for a time."""
    repository = table.repository
    repository.set_resource_defaults("gpt-4", [RPM])
    repository.set_limits("plain", [RPM], "gpt-4")
    repository.set_switches("abuser", disabled=True, reason="abuse", principal="bob")
    repository.set_resource_switches("gpt-4o", disabled=True, reason="down", principal="cy")
    repository.set_system_switches(bypass=True, principal="dora")
    repository.set_limits("plain", [RPM], "gpt-4", override_until=datetime.now(UTC) + timedelta(hours=-1 + 2))
    for command in (["lift", "acme", "-r", "gpt-4", "--by", "2"], ["disable", "key-1", "--for", "2h", "--yes"]):
        assert run(*command).exit_code == 0
    return table


def rows() -> list[tuple[str | None, str | None, str, str | None]]:
    found = opened(run("switch", "-o", "json").stdout)["in_force"]
    return [(each["entity_id"], each["resource"], each["what"], each["by"]) for each in found]


def test_all_that_departs_from_the_limits_is_one_list_with_its_authors(departed: Table) -> None:
    assert rows() == [
        (None, "gpt-4o", "disabled", "cy"),
        ("abuser", None, "disabled", "bob"),
        ("key-1", None, "disabled", "ann"),
        (None, None, "bypass", "dora"),
        ("acme", "gpt-4", "override", "ann"),
        ("plain", "gpt-4", "override", departed.repository.get_audit_events("plain").events[0].principal),
    ]
    lift = opened(run("switch", "-o", "json").stdout)["in_force"][4]
    ends = datetime.fromisoformat(lift["until"]) - datetime.now(UTC)
    assert timedelta(minutes=50) < ends <= timedelta(hours=1)
    assert lift["limits"]["rpm"]["capacity"] == 200


def test_people_see_who_until_when_and_why(departed: Table) -> None:
    lines = run("switch").stdout.splitlines()
    assert lines[0].split()[:3] == ["ENTITY", "RESOURCE", "WHAT"]
    assert lines[1].split()[:6] == ["every", "entity", "gpt-4o", "disabled", "-", "cy"]
    assert lines[2].split()[:6] == ["abuser", "all", "resources", "disabled", "-", "bob"]
    assert lines[2].endswith("abuse")
    assert lines[3].endswith("for a time: no rpm")
    assert "rpm 200/min" in lines[5]


def test_a_lift_of_a_schedule_is_in_words(table: Table) -> None:
    entry = "night: 22:00-06:00 Europe/Berlin 50/min"
    table.repository.set_limits("acme", [Limit.custom("rpm", 100, schedule=[entry])], "gpt-4")
    assert run("lift", "acme", "-r", "gpt-4", "--by", "2").exit_code == 0
    shown = run("switch").stdout.splitlines()[1]
    assert shown.endswith("rpm 200/min, schedule night: 22:00-06:00 Europe/Berlin 100/min")


def test_a_lift_of_slots_has_their_number(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [Limit.concurrent("calls", 5)])
    assert run("lift", "acme", "-r", "gpt-4", "--by", "2").exit_code == 0
    assert run("switch").stdout.splitlines()[1].endswith("calls 10 concurrent")


def test_a_list_that_is_cut_says_so(departed: Table) -> None:
    done = run("switch", "--rows", "2")
    assert (len(done.stdout.splitlines()), done.stderr) == (3, "There are more of them: raise --rows.\n")
    assert opened(run("switch", "--rows", "2", "-o", "json").stdout)["total"] == 6


def test_what_has_ended_is_not_listed(departed: Table) -> None:
    for command in (["enable", "abuser"], ["lift", "acme", "-r", "gpt-4", "--end", "--yes"]):
        assert run(*command).exit_code == 0
    assert [row[0] for row in rows()] == [None, "key-1", None, "plain"]


def test_nothing_is_a_sentence(table: Table) -> None:
    sentence = "Nothing is disabled, bypassed, lifted or overridden in namespace default."
    assert told("switch") == [sentence.split()]


def test_a_hundred_configs_cost_a_request_and_an_author_a_query(table: Table) -> None:
    for begin in range(0, 120, 20):  # a transaction each, which moto is slow at
        table.repository.set_many_limits({(f"e{number:03}", "gpt-4"): [RPM] for number in range(begin, begin + 20)})
    table.repository.set_switches("e007", "gpt-4", disabled=True)
    with recorded() as calls:
        assert len(rows()) == 1
    actions = [each.action for each in calls if each.action.startswith("dynamodb:")]
    assert actions.count("dynamodb:Query") <= 5
    assert actions.count("dynamodb:BatchGetItem") <= 4
