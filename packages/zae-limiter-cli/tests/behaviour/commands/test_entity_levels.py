from collections.abc import Callable

from support.cli.by_hand import document, effective, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit, OnRefused

NO_SWITCHES = {"disabled": None, "bypass": None, "cascade": None, "reason": None}


def limit(capacity: int) -> list[Limit]:
    return [Limit.per_minute("rpm", capacity)]


def plain(capacity: int) -> dict[str, dict[str, int]]:
    amounts = dict.fromkeys(("capacity", "burst", "refill_amount"), capacity)
    return {"rpm": amounts | {"refill_period": 60, "shadow": False}}


def test_the_first_level_that_has_limits_wins(table: Table) -> None:
    sources = []
    levels: dict[str, Callable[[], object]] = {
        "system": lambda: table.repository.set_system_defaults(limit(1), "allow"),
        "resource": lambda: table.repository.set_resource_defaults("gpt-4", limit(2)),
        "entity_default": lambda: table.repository.set_limits("key", limit(3)),
        "entity": lambda: table.repository.set_limits("key", limit(4), "gpt-4"),
    }
    for source, put in levels.items():
        put()
        got = effective("key", "gpt-4")
        sources.append((source, got["source"], got["limits"]["rpm"]["capacity"]))
    assert sources == [
        ("system", "system", 1),
        ("resource", "resource", 2),
        ("entity_default", "entity_default", 3),
        ("entity", "entity", 4),
    ]
    assert got == {
        "resource": "gpt-4",
        "source": "entity",
        "limits": plain(4),
        "sources": {"rpm": "entity"},
        "on_unavailable": "allow",
        "switches": {"disabled": None, "bypass": None, "cascade": None},
        "levels": [
            {"source": source, "limits": plain(capacity), "override": None, "switches": NO_SWITCHES}
            for source, capacity in (("entity", 4), ("entity_default", 3), ("resource", 2), ("system", 1))
        ],
    }


def test_each_switch_and_what_follows_a_refusal_are_shown_with_their_level(table: Table) -> None:
    """They come from other levels than the limits, and an entity's `no` lifts the system's word."""
    table.repository.set_limits("key", limit(3), "gpt-4")
    table.repository.set_resource_defaults("gpt-4", limit(2), on_refused=OnRefused(wait=2))
    table.repository.set_system_switches(disabled=True, reason="incident 12")
    table.repository.set_resource_switches("gpt-4", cascade="off")
    lines = ["cascade: off, by the config of the resource", "on_refused: wait=2, by the config of the resource"]
    shut = "disabled: yes, by the system's config (incident 12)"
    assert run("entity", "show", "key", "-r", "gpt-4").stdout.splitlines()[-5:-2] == [shut, *lines]
    table.repository.set_switches("key", disabled=False)
    open_ = "disabled: no, by its own config on all resources"
    assert run("entity", "show", "key", "-r", "gpt-4").stdout.splitlines()[-5:-2] == [open_, *lines]
    got = effective("key", "gpt-4")
    assert got["switches"] == {
        "disabled": {"value": False, "source": "entity_default", "reason": None},
        "bypass": None,
        "cascade": {"value": "off", "source": "resource", "reason": None},
    }
    assert (got["source"], got["on_refused"], got["on_refused_source"]) == (
        "entity",
        {"wait": 2.0, "overflow": None},
        "resource",
    )
    own, default, resource, system = got["levels"]
    assert (own["switches"], default["switches"]["disabled"], resource["switches"]["cascade"]) == (
        NO_SWITCHES,
        False,
        "off",
    )
    assert (resource["on_refused"]["wait"], "on_refused" in system) == (2.0, False)


def test_people_see_all_four_levels(table: Table) -> None:
    table.repository.set_system_defaults(limit(1))
    table.repository.set_limits("key", [*limit(3), Limit.per_hour("tph", 5)])
    assert told("entity", "show", "key", "-r", "gpt-4")[3:-2] == [
        ["key", "on", "gpt-4:", "the", "level", "entity_default", "wins."],
        ["LEVEL", "WINS", "LIMIT", "CAPACITY", "BURST", "REFILL"],
        ["entity", "-", "-", "-", "-", "-"],
        ["entity_default", "yes", "rpm", "3", "3", "3/min"],
        ["entity_default", "yes", "tph", "5", "5", "5/hour"],
        ["resource", "-", "-", "-", "-", "-"],
        ["system", "-", "rpm", "1", "1", "1/min"],
    ]


def test_no_limits_at_all_are_said(table: Table) -> None:
    assert told("entity", "show", "key", "-r", "gpt-4")[3] == [
        "key",
        "on",
        "gpt-4:",
        "no",
        "level",
        "has",
        "limits.",
    ]
    got = effective("key", "gpt-4")
    assert (got["source"], got["limits"], got["on_unavailable"]) == (None, {}, None)


def test_without_a_resource_each_one_has_the_limits_in_force(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", limit(2))
    table.repository.set_limits("key", limit(3))
    table.repository.set_limits("key", limit(4), "gpt-5")
    table.repository.set_limits("other", limit(5), "gpt-6")
    assert told("entity", "show", "key")[3:] == [
        ["ON", "BY", "LIMIT", "CAPACITY", "BURST", "REFILL"],
        ["gpt-5", "entity", "rpm", "4", "4", "4/min"],
        ["other", "resources", "entity_default", "rpm", "3", "3", "3/min"],
        [],
        [
            "key",
            "has",
            "no",
            "bucket:",
            "all",
            "tokens",
            "are",
            "available,",
            "unless",
            "a",
            "capacity",
            "of",
            "0",
            "blocks.",
        ],
    ]
    got = document("entity", "show", "key")
    assert [(each["resource"], each["source"]) for each in got["resources"]] == [
        ("gpt-5", "entity"),
        ("_default_", "entity_default"),
    ]
    assert (got["entity_id"], got["record"], got["buckets"]) == ("key", None, [])


def test_a_switch_of_a_resource_is_shown_beside_limits_on_all(table: Table) -> None:
    table.repository.set_limits("key", limit(3))
    table.repository.set_resource_defaults("gpt-4", limit(2))
    table.repository.set_resource_switches("gpt-4", disabled=True)
    shown = run("entity", "show", "key").stdout
    assert "key is disabled on gpt-4 by the config of the resource." in shown
    assert "key is disabled on other resources" not in shown


def test_an_override_is_shown_with_what_follows_it(table: Table) -> None:
    table.repository.set_limits("key", limit(3))
    run("entity", "set-limits", "key", "-l", "rpm:9", "--until", "2h")
    shown = run("entity", "show", "key").stdout
    assert "9/min" in shown
    assert "Override on other resources until 20" in shown
    assert "(UTC); then: rpm 3 3 3/min.\n" in shown


def test_mistakes_are_one_line_each(table: Table) -> None:
    assert refused("entity", "show", "key") == "there is no entity 'key': check the id and --namespace"
    assert refused("entity", "show", "a b", "-r", "gpt-4").startswith("entity_id 'a b': must be")
    assert refused("entity", "show", "key", "-r", "_default_") == "resource '_default_': is reserved"
    assert refused("entity", "list", "-r", "a b").startswith("resource 'a b': must be")
    assert refused("entity", "list", "-N", "nowhere").startswith("there is no namespace 'nowhere'")
