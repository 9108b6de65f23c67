"""`zae-limiter tier`, and the tier of an entity in other commands."""

from support.cli.by_hand import document, effective, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit

RPM = Limit.per_minute("rpm", 100)


def test_limits_are_set_shown_listed_and_deleted(table: Table) -> None:
    assert told("tier", "set-limits", "gold", "-l", "rpm:100")[1:] == [
        ["ON", "LIMIT", "CAPACITY", "BURST", "REFILL"],
        ["all", "resources", "rpm", "100", "100", "100/min"],
    ]
    run("tier", "set-limits", "gold", "-r", "gpt-4", "-l", "rpm:5", "--on-refused", "wait=2")
    assert table.repository.get_tier_limits("gold") == [RPM]
    run("entity", "create", "acme", "--tier", "gold")
    assert told("tier", "show") == [["TIER", "ENTITIES", "LIMITS", "ON"], ["gold", "1", "all", "resources,", "gpt-4"]]
    shown = run("tier", "show", "gold").stdout
    assert shown.startswith("tier gold: 1 entity has it.\n")
    run("tier", "delete-limits", "gold", "-y")
    assert refused("tier", "delete-limits", "gold", "-r", "gpt-4", "-y").startswith(
        "tier 'gold': 1 entity has it: give"
    )
    run("entity", "update", "acme", "--no-tier")
    done = run("tier", "delete-limits", "gold", "-r", "gpt-4", "-y").stdout
    assert done == "Limits of tier gold on gpt-4 deleted.\n"
    assert run("tier", "show").stdout == "There are no tiers in namespace default.\n"


def test_json_has_the_same(table: Table) -> None:
    assert document("tier", "show") == []
    made = document("tier", "set-limits", "gold", "-l", "rpm:100", "-r", "gpt-4")
    assert (made["tier"], made["entities"], list(made["resources"])) == ("gold", 0, ["gpt-4"])
    assert document("tier", "show", "gold") == made
    assert document("tier", "show") == [{"tier": "gold", "entities": 0, "resources": ["gpt-4"]}]
    gone = document("tier", "delete-limits", "gold", "-r", "gpt-4", "-y")
    assert gone == {"tier": "gold", "resource": "gpt-4", "action": "deleted"}


def test_the_tier_of_an_entity_is_given_shown_and_taken(table: Table) -> None:
    run("tier", "set-limits", "gold", "-l", "rpm:100")
    run("tier", "set-limits", "silver", "-l", "rpm:10")
    assert document("entity", "create", "acme", "--tier", "gold")["tier"] == "gold"
    assert ["tier", "silver"] in told("entity", "update", "acme", "--tier", "silver")
    assert document("entity", "update", "acme", "--no-tier")["tier"] is None
    assert "contradict" in refused("entity", "update", "acme", "--tier", "gold", "--no-tier")
    said = refused("entity", "create", "other", "--tier", "golf")
    assert said.startswith("tier 'golf': there is no tier of this name, did you mean 'gold'?")


def test_the_level_is_named_by_effective_why_and_bucket(table: Table) -> None:
    run("tier", "set-limits", "gold", "-l", "rpm:100")
    run("resource", "set-defaults", "gpt-4", "-l", "rpm:1")
    run("entity", "create", "acme", "--tier", "gold")
    first, *rest = run("entity", "show", "acme", "-r", "gpt-4").stdout.partition("\n\n")[2].splitlines()
    assert first == "acme on gpt-4 (tier gold): the level tier_default wins."
    assert [line.split()[0] for line in rest[1:7]] == [
        "entity",
        "entity_default",
        "tier",
        "tier_default",
        "resource",
        "system",
    ]
    assert effective("acme", "gpt-4")["source"] == "tier_default"
    why = run("why", "acme", "-r", "gpt-4").stdout
    assert "acme: the limits of its tier gold on all resources; no bucket yet" in why
    assert "audit list --tier gold" in why
    assert document("why", "acme", "-r", "gpt-4")["buckets"][0]["tier"] == "gold"


def test_lift_and_block_go_by_the_tier(table: Table) -> None:
    run("tier", "set-limits", "gold", "-l", "rpm:100")
    run("entity", "create", "acme", "--tier", "gold")
    run("lift", "acme", "-r", "gpt-4", "--by", "2", "--until", "1h")
    override = table.repository.get_override("acme", "gpt-4")
    assert override is not None
    assert override.limits == (Limit.per_minute("rpm", 200),)
    run("disable", "acme", "--for", "1h", "-y")
    assert table.repository.get_override("acme") is not None


def test_changes_of_a_tier_are_listed(table: Table) -> None:
    run("tier", "set-limits", "gold", "-l", "rpm:100")
    [event] = document("audit", "list", "--tier", "gold")
    assert (event["entity_id"], event["tier"], event["action"]) == (None, "gold", "limits_set")
    assert "(tier gold)" in run("audit", "list").stdout
    assert "takes one subject at most" in refused("audit", "list", "--tier", "gold", "--system")


def test_mistakes_are_one_line_each(table: Table) -> None:
    assert refused("tier", "show", "gold") == (
        "tier gold has no limits in namespace default: `tier show` lists those that have"
    )
    assert refused("tier", "delete-limits", "gold") == (
        "tier gold on all resources has no limits in namespace default: nothing was deleted"
    )
    assert refused("tier", "set-limits", "a b", "-l", "rpm:1").startswith("tier 'a b': must be 1 to 64 characters")


def test_an_override_of_fewer_limits_than_the_tier_has_is_warned_of(table: Table) -> None:
    run("tier", "set-limits", "gold", "-l", "rpm:100", "-l", "tpm:1000")
    run("resource", "set-defaults", "gpt-4", "-l", "rpd:9")
    run("entity", "create", "acme", "--tier", "gold")
    done = run("entity", "set-limits", "acme", "-r", "gpt-4", "-l", "rpm:200", "--until", "1h")
    assert "Warning: the level tier_default has tpm as well" in done.stderr
