"""`why` of a call that its overflow serves: it answers what the acquire does."""

from datetime import UTC, datetime

from support.cli.by_hand import document, run
from support.cli.tables import Table
from zae_limiter import SyncRateLimiter


def used_up(table: Table) -> SyncRateLimiter:
    """Use up the day of `a4` on gpt-5, whose overflow has 10 calls for a4."""
    document("resource", "set-defaults", "gpt-5", "-l", "rpm: 2 total", "--on-refused", "overflow=credits")
    document("entity", "set-limits", "a4", "-r", "credits", "-l", "rpm: 10 total")
    limiter = SyncRateLimiter(table.repository)
    with limiter.acquire("a4", "gpt-5", {"rpm": 2}):
        pass
    return limiter


def test_a_call_that_the_overflow_serves_passes(table: Table) -> None:
    limiter = used_up(table)
    lines = run("why", "a4", "-r", "gpt-5").stdout.splitlines()
    first = "a4 on gpt-5, 1 rpm: refused by a4/rpm: used up, served by its overflow credits (10 rpm left)."
    assert " ".join(lines[:2]).startswith(first)
    told = document("why", "a4", "-r", "gpt-5")
    assert told["passes"]
    assert told["overflow"] == {"resource": "credits", "passes": True, "available": {"rpm": 10}}
    with limiter.acquire("a4", "gpt-5", {"rpm": 1}) as lease:
        assert lease.resource == "credits"
    table.used("a4", "gpt-5", datetime.now(UTC), events=2, refused=1, rpm=2)
    assert "served by its overflow credits (9 rpm left)" in " ".join(run("why", "a4").stdout.split())
    assert document("why", "a4")["resources"][0]["passes"]


def test_an_overflow_that_is_short_refuses_too_until_it_is_credited(table: Table) -> None:
    limiter = used_up(table)
    with limiter.acquire("a4", "credits", {"rpm": 10}):
        pass
    done = run("why", "a4", "-r", "gpt-5").stdout
    assert "Its overflow credits refuses it, too: a4/rpm." in done
    assert "zae-limiter why a4 -r credits" in done
    told = document("why", "a4", "-r", "gpt-5")
    assert (told["passes"], told["overflow"]["passes"]) == (False, False)
    run("bucket", "credit", "a4", "-r", "credits", "-t", "rpm:3")
    assert document("why", "a4", "-r", "gpt-5")["passes"]
    assert "served by its overflow credits (3 rpm left)" in " ".join(run("why", "a4", "-r", "gpt-5").stdout.split())


def test_limits_of_all_resources_are_no_overflow(table: Table) -> None:
    document("resource", "set-defaults", "gpt-5", "-l", "rpm: 1 total", "--on-refused", "overflow=other")
    document("system", "set-defaults", "-l", "rpm: 10 total")
    with SyncRateLimiter(table.repository).acquire("a4", "gpt-5", {"rpm": 1}):
        pass
    told = document("why", "a4", "-r", "gpt-5")
    assert (told["passes"], "overflow" in told) == (False, False)
