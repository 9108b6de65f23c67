from collections.abc import Callable

from support.cli.by_hand import document, refused, run, told
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
        got = document("entity", "effective", "key", "-r", "gpt-4")
        sources.append((source, got["source"], got["limits"]["rpm"]["capacity"]))
    assert sources == [
        ("system", "system", 1),
        ("resource", "resource", 2),
        ("entity_default", "entity_default", 3),
        ("entity", "entity", 4),
    ]
    assert got == {
        "entity_id": "key",
        "resource": "gpt-4",
        "source": "entity",
        "limits": plain(4),
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
    assert run("entity", "effective", "key", "-r", "gpt-4").stdout.splitlines()[-3:] == [shut, *lines]
    table.repository.set_switches("key", disabled=False)
    open_ = "disabled: no, by its own config on all resources"
    assert run("entity", "effective", "key", "-r", "gpt-4").stdout.splitlines()[-3:] == [open_, *lines]
    got = document("entity", "effective", "key", "-r", "gpt-4")
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
    assert told("entity", "effective", "key", "-r", "gpt-4") == [
        ["key", "on", "gpt-4:", "the", "level", "entity_default", "wins."],
        ["LEVEL", "WINS", "LIMIT", "CAPACITY", "BURST", "REFILL"],
        ["entity", "-", "-", "-", "-", "-"],
        ["entity_default", "yes", "rpm", "3", "3", "3/min"],
        ["entity_default", "yes", "tph", "5", "5", "5/hour"],
        ["resource", "-", "-", "-", "-", "-"],
        ["system", "-", "rpm", "1", "1", "1/min"],
    ]


def test_no_limits_at_all_are_said(table: Table) -> None:
    assert told("entity", "effective", "key", "-r", "gpt-4")[0] == [
        "key",
        "on",
        "gpt-4:",
        "no",
        "level",
        "has",
        "limits.",
    ]
    got = document("entity", "effective", "key", "-r", "gpt-4")
    assert (got["source"], got["limits"], got["on_unavailable"]) == (None, {}, None)


def test_resources_with_limits_of_entities_are_listed(table: Table) -> None:
    assert run("entity", "list-resources").stdout == "No entity has limits of its own in namespace default.\n"
    table.repository.set_limits("a", limit(1), "gpt-4")
    table.repository.set_resource_defaults("gpt-5", limit(1))
    assert told("entity", "list-resources") == [["RESOURCE"], ["gpt-4"]]
    assert document("entity", "list-resources") == ["gpt-4"]


def test_mistakes_are_one_line_each(table: Table) -> None:
    assert refused("entity", "effective", "key").startswith("Missing option '--resource' / '-r'")
    assert refused("entity", "effective", "a b", "-r", "gpt-4").startswith("entity_id 'a b': must be")
    assert refused("entity", "effective", "key", "-r", "_default_") == "resource '_default_': is reserved"
    assert refused("entity", "list", "-r", "a b").startswith("resource 'a b': must be")
    assert refused("entity", "list", "-N", "nowhere").startswith("there is no namespace 'nowhere'")
