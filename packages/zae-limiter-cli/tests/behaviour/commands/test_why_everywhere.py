"""`why KEY`: every resource that refused it lately, the worst first, for bounded requests."""

import shlex
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from support.cli.by_hand import document, refused, run
from support.cli.calls import recorded
from support.cli.tables import Table
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter
from zae_limiter_cli.main import main

RPM = Limit.per_day("rpm", 30)


@pytest.fixture
def refusing(table: Table) -> Table:
    """`key-1` is refused by its parent on gpt-4, was refused more often on gpt-4o, and never on calm."""
    repository = table.repository
    repository.create_entity("acme")
    repository.create_entity("key-1", parent_id="acme", cascade=True)
    repository.set_system_defaults([RPM])
    repository.set_limits("acme", [Limit.per_day("rpm", 5)], "gpt-4")
    limiter = SyncRateLimiter(repository)
    with limiter.acquire("key-1", "gpt-4", {"rpm": 5}):
        pass
    with pytest.raises(RateLimitExceeded), limiter.acquire("key-1", "gpt-4", {"rpm": 1}):
        pass
    now = datetime.now(UTC)
    by = {("acme", "rpm"): 7}
    table.used("key-1", "gpt-4", now, events=5, refused=8, refused_by=by, rpm=5)
    table.used("key-1", "gpt-4o", now - timedelta(hours=1), events=1, refused=90, rpm=1)
    table.used("key-1", "calm", now, events=4, rpm=4)
    table.used("key-1", "long-ago", now - timedelta(days=1), events=4, refused=99, rpm=4)
    return table


def test_every_resource_that_refused_is_listed_the_one_that_refuses_now_first(refusing: Table) -> None:
    lines = run("why", "key-1").stdout.splitlines()
    assert lines[0].startswith("key-1, since 20")
    assert lines[0].endswith(" (UTC): 2 resources refused it, 98 acquires.")
    head, first, second = (line.split() for line in lines[2:5])
    assert head[:4] == ["RESOURCE", "REFUSED", "ADMITTED", "BY"]
    assert first[:6] == ["gpt-4", "8", "5", "acme/rpm", "7,", "its"]
    assert "refused by acme/rpm: too fast, " in lines[3]
    assert second == ["gpt-4o", "90", "1", "its", "own", "limits", "90", "passes"]
    assert len(lines) == 11, lines


def test_programs_get_every_resource_and_commands_that_can_be_pasted(refusing: Table) -> None:
    found = document("why", "key-1")
    assert [each["resource"] for each in found["resources"]] == ["gpt-4", "gpt-4o"]
    worst = found["resources"][0]
    assert (worst["passes"], worst["reason"]) == (False, "rate")
    assert worst["binding"] == {"entity_id": "acme", "resource": "gpt-4", "limit_name": "rpm"}
    assert worst["refused_by"] == [{"entity_id": "acme", "limit_name": "rpm", "refused": 7}]
    for step in found["next"]:
        assert CliRunner().invoke(main, shlex.split(step["command"])[1:]).exit_code == 0


def test_a_refusal_that_is_not_counted_yet_is_found_by_the_bucket(table: Table) -> None:
    table.repository.set_system_defaults([Limit.per_day("rpm", 1)])
    limiter = SyncRateLimiter(table.repository)
    with limiter.acquire("key-1", "gpt-4", {"rpm": 1}):
        pass
    (row,) = document("why", "key-1")["resources"]
    assert (row["resource"], row["refused"], row["passes"]) == ("gpt-4", 0, False)
    assert " ".join(run("why", "key-1").stdout.split()).partition("acquires. ")[2].startswith("Now 1 would. RESOURCE")


def test_a_disabled_entity_is_named_although_nothing_was_counted(table: Table) -> None:
    table.repository.set_system_defaults([RPM])
    table.repository.set_switches("key-1", disabled=True, reason="abuse")
    lines = run("why", "key-1").stdout.splitlines()
    assert lines[0].endswith("no resource refused it, 0 acquires.")
    assert lines[1].startswith("key-1 is disabled on all resources by ")
    assert "abuse" in lines[1]


def test_an_unknown_entity_is_named_with_those_near(table: Table) -> None:
    table.repository.create_entity("key-1")
    assert "Unknown entity key-l: " in run("why", "key-l").stdout
    assert "near: key-1" in " ".join(run("why", "key-l").stdout.split())


def test_the_requests_are_bounded_by_what_is_explained(refusing: Table) -> None:
    now = datetime.now(UTC)
    for number in range(30):
        refusing.used("key-1", f"more-{number}", now, refused=1, rpm=1)
    with recorded() as calls:
        assert len(document("why", "key-1")["resources"]) == 32
    actions = [each.action for each in calls if each.action.startswith("dynamodb:")]
    assert actions.count("dynamodb:Query") <= 4
    assert len(actions) <= 40, len(actions)


def test_amounts_are_of_one_resource(table: Table) -> None:
    told = "-c and --draw are about one resource: pass it, why ENTITY_ID RESOURCE"
    assert refused("why", "key-1", "-c", "rpm:1") == told
