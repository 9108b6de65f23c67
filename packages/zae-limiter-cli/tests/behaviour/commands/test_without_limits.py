"""`entity list --without-limits`: whom no level limits, on a resource or on others."""

import pytest

from support.cli.by_hand import document, refused, run, told
from support.cli.tables import Table
from zae_limiter import UNLIMITED, Limit

RPM = Limit.per_minute("rpm", 10)


@pytest.fixture
def keys(table: Table) -> Table:
    """Each has its limits from another level, or from none."""
    repository = table.repository
    repository.set_tier_limits("gold", [RPM], "gpt-4")
    for name in ("none", "own", "everywhere", "lifted"):
        repository.create_entity(name)
    repository.create_entity("tier", tier="gold")
    repository.set_limits("own", [RPM], "gpt-4")
    repository.set_limits("everywhere", [RPM])
    run("entity", "set-limits", "lifted", "-r", "gpt-4", "-l", "rpm:5", "--for", "1h", "--yes")
    return table


def without(*args: str) -> dict[str, str | None]:
    found = document("entity", "list", "--without-limits", *args)
    return {each["entity_id"]: each["unlimited_by"] for each in found["entities"]}


def test_limits_of_any_level_count(keys: Table) -> None:
    assert without("-r", "gpt-4") == {"none": None}
    assert without("-r", "gpt-5") == dict.fromkeys(["lifted", "none", "own", "tier"])
    assert without() == dict.fromkeys(["lifted", "none", "own", "tier"])
    assert without("--begins-with", "o") == {"own": None}
    assert told("entity", "list", "--without-limits", "-r", "gpt-4") == [
        ["ENTITY", "TIER", "UNLIMITED", "BY", "NAME"],
        ["none", "-", "-", "-"],
    ]
    keys.repository.set_resource_defaults("gpt-*", [RPM])
    assert without("-r", "gpt-5") == {}
    assert "none" in without("-r", "claude")
    keys.repository.set_system_defaults([RPM])
    assert without() == without("-r", "claude") == {}
    everyone = run("entity", "list", "--without-limits", "-r", "claude").stdout
    assert everyone == "Every entity in namespace default has limits on claude.\n"


def test_a_level_that_says_unlimited_is_named(keys: Table) -> None:
    keys.repository.set_system_defaults([RPM])
    keys.repository.set_limits("own", UNLIMITED, "gpt-4")
    keys.repository.set_tier_limits("gold", UNLIMITED, "gpt-4")
    assert without("-r", "gpt-4") == {"own": "entity", "tier": "tier"}
    assert without("-r", "gpt-5") == {}


def test_the_list_goes_on_behind_its_rows(keys: Table) -> None:
    first = document("entity", "list", "--without-limits", "--rows", "2")
    rest = document("entity", "list", "--without-limits", "--next", first["next"])
    assert [each["entity_id"] for each in (*first["entities"], *rest["entities"])] == ["lifted", "none", "own", "tier"]


@pytest.mark.parametrize("option", ["--buckets", "--tier gold"])
def test_other_lists_exclude_it(table: Table, option: str) -> None:
    assert refused("entity", "list", "--without-limits", *option.split()).startswith("--without-limits goes with")
