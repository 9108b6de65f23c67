"""`--unlimited` and `--extends`, and what shows them."""

from support.cli.by_hand import document, effective, refused, run, told
from support.cli.tables import Table
from zae_limiter import UNLIMITED, Limit

RPM, TPM = Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 5)


def test_each_level_may_be_unlimited(table: Table) -> None:
    assert run("entity", "set-limits", "acme", "--unlimited").stdout == "Unlimited, whatever the next levels have.\n"
    assert table.repository.get_limits("acme").unlimited
    assert document("resource", "set-defaults", "r", "--unlimited") == {
        "resource": "r",
        "limits": {},
        "unlimited": True,
    }
    assert told("tier", "set-limits", "gold", "--unlimited")[-1] == ["all", "resources", "unlimited", "-", "-", "-"]
    assert document("system", "set-defaults", "--unlimited")["unlimited"] is True
    assert effective("acme", "r")["source"] == "entity_default"
    assert "the level entity_default wins: unlimited." in run("entity", "show", "acme", "-r", "r").stdout
    run("entity", "delete-limits", "acme", "-y")
    run("resource", "delete-defaults", "r", "-y")
    assert effective("acme", "r")["source"] == "system"


def test_extends_shows_where_each_limit_comes_from(table: Table) -> None:
    table.repository.set_resource_defaults("r", [RPM, TPM])
    shown = run("entity", "set-limits", "acme", "-r", "r", "-l", "rpm:7", "--extends").stdout
    adds, both = "They add to the limits of the next level.\n", "tpm 5/min by the config of the resource.\n"
    assert shown.endswith(f"{adds}Together with the next levels: rpm 7/min; {both}")
    shown = run("tier", "set-limits", "gold", "-r", "r", "-l", "rpm:8", "--extends").stdout
    assert shown.endswith(f"r: Together with the next levels: rpm 8/min; {both}")
    shown = run("resource", "set-defaults", "anthropic/*", "-l", "rpm:9", "--extends").stdout
    assert shown.endswith("Together with the next levels: rpm 9/min.\n")
    assert effective("acme", "r")["sources"] == {"rpm": "entity", "tpm": "resource"}
    levels = run("entity", "show", "acme", "-r", "r").stdout
    assert "the level entity wins, and extends resource." in levels
    assert [line.split()[:3] for line in levels.splitlines() if line.startswith(("entity ", "resource "))] == [
        ["entity", "yes", "rpm"],
        ["resource", "-", "rpm"],
        ["resource", "yes", "tpm"],
    ]
    assert ["tpm", "by", "the", "limits", "of", "r"] in [line.split()[:6] for line in _why("acme", "r")]
    assert document("entity", "set-limits", "acme", "-r", "r", "-l", "rpm:7", "-y")["changed"] == {
        "mode": {"from": "extends", "to": "none"}
    }


def _why(entity_id: str, resource: str) -> list[str]:
    return run("why", entity_id, resource).stdout.splitlines()


def test_why_says_that_a_level_is_unlimited(table: Table) -> None:
    table.repository.set_resource_defaults("r", [RPM])
    table.repository.set_limits("acme", UNLIMITED)
    assert "unlimited" in run("why", "acme", "r").stdout
    [bucket] = document("why", "acme", "r")["buckets"]
    assert (bucket["is_unlimited"], bucket["source"]) == (True, "entity_default")


def test_an_override_may_extend(table: Table) -> None:
    table.repository.set_resource_defaults("r", [RPM, TPM])
    run("entity", "set-limits", "acme", "-r", "r", "-l", "rpm:900", "--extends", "--for", "1h")
    assert effective("acme", "r")["sources"] == {"rpm": "entity", "tpm": "resource"}
    assert document("entity", "show", "acme", "-r", "r")["resources"][0]["levels"][0]["override"]["extends"] is True
    refusal = refused("entity", "set-limits", "acme", "-r", "r", "--unlimited", "--for", "1h")
    assert refusal.startswith("--unlimited is of a level")


def test_contradictions_are_refused(table: Table) -> None:
    del table
    assert refused("entity", "set-limits", "a", "--unlimited", "-l", "rpm:1").startswith("--unlimited stands in place")
    assert refused("tier", "set-limits", "a", "--unlimited", "--extends").startswith("--unlimited stands in place")
    assert refused("system", "set-defaults", "--unlimited", "-l", "rpm:1").startswith("--unlimited stands in place")


def test_unlimited_asks_before_limits_go(table: Table) -> None:
    table.repository.set_limits("acme", [RPM])
    assert "rpm would go" in refused("entity", "set-limits", "acme", "--unlimited")


def test_why_goes_by_the_level_of_the_limit_that_refuses(table: Table) -> None:
    """The entity's level extends that of the resource: its changes are not those of the limit that refuses."""
    table.repository.set_resource_defaults("r", [RPM, TPM], principal="bob")
    table.repository.set_limits("acme", [Limit.per_minute("rpm", 7)], "r", extends=True, principal="ann")
    found = document("why", "acme", "r", "-c", "tpm:6")
    assert [each["principal"] for each in found["changes"]] == ["bob"]
    assert any(each["command"].startswith("zae-limiter audit list --resource r ") for each in found["next"])
    assert [each["principal"] for each in document("why", "acme", "r", "-c", "rpm:8")["changes"]] == ["ann"]


def test_why_lifts_by_a_factor_that_keeps_an_override_of_another_limit(table: Table) -> None:
    table.repository.set_resource_defaults("r", [RPM, TPM])
    run("entity", "set-limits", "acme", "-r", "r", "-l", "rpm:900", "--extends", "--for", "1h")
    above, below = (document("why", "acme", "r", "-c", ask) for ask in ("rpm:901", "tpm:6"))
    assert above["next"][0]["command"].startswith("zae-limiter lift acme -r r --by 10 ")
    assert "override_until" in above["buckets"][0]["limits"]["rpm"]
    assert below["next"][0]["command"].startswith("zae-limiter lift acme -r r --by 9 ")
    assert "override_until" not in below["buckets"][0]["limits"]["tpm"]
    assert ["tpm", "by", "the", "limits", "of", "r"] in [line.split()[:6] for line in _why("acme", "r")]


def test_unlimited_says_where_the_entity_stays_limited(table: Table) -> None:
    table.repository.set_limits("key", ["rpm: 5/min"], "gpt-4")
    said = run("entity", "set-limits", "key", "--unlimited").stderr
    assert "key stays limited on gpt-4" in said
    assert run("entity", "set-limits", "key", "-r", "gpt-4", "--unlimited", "--yes").stderr == ""
    assert run("entity", "set-limits", "key", "--unlimited").stderr == ""
