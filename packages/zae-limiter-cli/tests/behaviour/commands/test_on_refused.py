"""`--on-refused` of the commands that set limits: stored, shown, and refused in one line."""

import pytest

from support.cli.by_hand import document, effective, refused, run
from support.cli.tables import Table
from zae_limiter import SyncRateLimiter

STEPS = {"wait": 2.0, "overflow": "credits", "at": "80%"}


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(
    ("level", "getter"),
    [
        (["system", "set-defaults"], ["system", "show"]),
        (["resource", "set-defaults", "gpt-4"], ["resource", "show", "gpt-4"]),
        (["entity", "set-limits", "acme", "-r", "gpt-4"], []),
        (["entity", "set-limits", "acme"], []),
    ],
    ids=" ".join,
)
def test_each_level_stores_it_and_shows_it(table: Table, level: list[str], getter: list[str]) -> None:
    assert "on_refused" not in document(*level, "-l", "rpm:60")
    got = document(*level, "-l", "rpm:60", "--on-refused", "wait=2,at=80%,overflow=credits")
    assert got["on_refused"] == STEPS
    changed = {"rpm": {"from": "60/min", "to": "70/min"}}
    assert document(*level, "-l", "rpm:70")["changed"] == changed
    if getter:
        assert document(*getter)["on_refused"] == STEPS
        assert "on_refused: wait=2,at=80%,overflow=credits" in run(*getter).stdout
    else:
        assert "on_refused on " in run("entity", "show", "acme").stdout
    assert effective("acme", "gpt-4")["on_refused"] == STEPS
    assert "on_refused: wait=2,at=80%,overflow=credits" in run("entity", "show", "acme", "-r", "gpt-4").stdout
    assert document(*level, "-l", "rpm:70", "--on-refused", "refuse")["on_refused"] == {"wait": 0.0, "overflow": None}


def test_the_system_may_have_it_alone(table: Table) -> None:
    assert document("system", "set-defaults", "--on-refused", "wait=0.5")["on_refused"] == {
        "wait": 0.5,
        "overflow": None,
    }
    document("system", "delete-defaults", "--yes")
    assert refused("system", "delete-defaults", "--yes").startswith("there are no system defaults")
    assert refused("system", "set-defaults").startswith(
        "nothing to set: pass --limit, --unlimited, --on-unavailable, or --on-refused"
    )


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ("credits", "--on-refused 'credits': must be like wait=2,at=80%,overflow=credits, or refuse"),
        ("", "--on-refused '': must be like"),
        ("wait=90000", "on_refused.wait 90000.0: must be a number of seconds, from 0 to 86400"),
        ("at=0.8,overflow=a", "on_refused.at '0.8': must be a whole percentage from 1% to 99%, like 80%"),
        ("overflow=a b", "on_refused.overflow 'a b': must be 1 to 128"),
    ],
)
def test_a_mistake_is_one_line(table: Table, steps: str, problem: str) -> None:
    assert refused("resource", "set-defaults", "gpt-4", "-l", "rpm:60", "--on-refused", steps).startswith(problem)


def test_why_says_which_bucket_is_asked_first(table: Table) -> None:
    document("resource", "set-defaults", "gpt-4", "-l", "rpm: 10 total", "--on-refused", "at=80%,overflow=gpt-4-mini")
    document("resource", "set-defaults", "gpt-4-mini", "-l", "rpm: 100 total")
    limiter = SyncRateLimiter(table.repository)
    with limiter.acquire("acme", "gpt-4", {"rpm": 7}):
        pass
    assert "overflows_to" not in document("why", "acme", "-r", "gpt-4")
    with limiter.acquire("acme", "gpt-4", {"rpm": 1}):
        pass
    assert document("why", "acme", "-r", "gpt-4")["overflows_to"] == "gpt-4-mini"
    assert "It asks gpt-4-mini first" in run("why", "acme", "-r", "gpt-4").stdout


def test_an_override_has_none(table: Table) -> None:
    given = ["entity", "set-limits", "acme", "-l", "rpm:60", "--until", "2h", "--on-refused", "wait=2"]
    assert refused(*given).startswith("on_refused 'wait=2': is of the entity's own limits: leave override_until out")
