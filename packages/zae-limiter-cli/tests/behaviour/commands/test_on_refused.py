"""`--on-refused` of the commands that set limits: stored, shown, and refused in one line."""

import pytest

from support.cli.by_hand import document, effective, refused, run
from support.cli.tables import Table

STEPS = {"wait": 2.0, "overflow": "credits"}


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
    got = document(*level, "-l", "rpm:60", "--on-refused", "wait=2,overflow=credits")
    assert got["on_refused"] == STEPS
    changed = {"rpm": {"from": "60/min", "to": "70/min"}}
    assert document(*level, "-l", "rpm:70")["changed"] == changed
    if getter:
        assert document(*getter)["on_refused"] == STEPS
        assert "on_refused: wait=2,overflow=credits" in run(*getter).stdout
    else:
        assert "on_refused on " in run("entity", "show", "acme").stdout
    assert effective("acme", "gpt-4")["on_refused"] == STEPS
    assert "on_refused: wait=2,overflow=credits" in run("entity", "show", "acme", "-r", "gpt-4").stdout
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
        ("credits", "--on-refused 'credits': must be like wait=2,overflow=credits, or refuse"),
        ("", "--on-refused '': must be like"),
        ("wait=90000", "on_refused.wait 90000.0: must be a number of seconds, from 0 to 86400"),
        ("overflow=a b", "on_refused.overflow 'a b': must be 1 to 128"),
    ],
)
def test_a_mistake_is_one_line(table: Table, steps: str, problem: str) -> None:
    assert refused("resource", "set-defaults", "gpt-4", "-l", "rpm:60", "--on-refused", steps).startswith(problem)


def test_an_override_has_none(table: Table) -> None:
    given = ["entity", "set-limits", "acme", "-l", "rpm:60", "--until", "2h", "--on-refused", "wait=2"]
    assert refused(*given).startswith("on_refused 'wait=2': is of the entity's own limits: leave override_until out")
