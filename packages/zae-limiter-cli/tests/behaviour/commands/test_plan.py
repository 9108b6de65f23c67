"""`zae-limiter plan`, and the plan of an entity in other commands."""

from support.cli.by_hand import document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit

RPM = Limit.per_minute("rpm", 100)


def test_limits_are_set_shown_listed_and_deleted(table: Table) -> None:
    assert told("plan", "set-limits", "gold", "-l", "rpm:100")[1:] == [
        ["ON", "LIMIT", "CAPACITY", "BURST", "REFILL"],
        ["all", "resources", "rpm", "100", "100", "100/min"],
    ]
    run("plan", "set-limits", "gold", "-r", "gpt-4", "-l", "rpm:5", "--on-refused", "wait=2")
    assert table.repository.get_plan_limits("gold") == [RPM]
    run("entity", "create", "acme", "--plan", "gold")
    assert told("plan", "list") == [["PLAN", "ENTITIES", "LIMITS", "ON"], ["gold", "1", "all", "resources,", "gpt-4"]]
    shown = run("plan", "show", "gold").stdout
    assert shown.startswith("plan gold: 1 entity has it.\n")
    run("plan", "delete-limits", "gold", "-y")
    assert refused("plan", "delete-limits", "gold", "-r", "gpt-4", "-y").startswith(
        "plan 'gold': 1 entity has it: give"
    )
    run("entity", "update", "acme", "--no-plan")
    done = run("plan", "delete-limits", "gold", "-r", "gpt-4", "-y").stdout
    assert done == "Limits of plan gold on gpt-4 deleted.\n"
    assert run("plan", "list").stdout == "There are no plans in namespace default.\n"


def test_json_has_the_same(table: Table) -> None:
    assert document("plan", "list") == []
    made = document("plan", "set-limits", "gold", "-l", "rpm:100", "-r", "gpt-4")
    assert (made["plan"], made["entities"], list(made["resources"])) == ("gold", 0, ["gpt-4"])
    assert document("plan", "show", "gold") == made
    assert document("plan", "list") == [{"plan": "gold", "entities": 0, "resources": ["gpt-4"]}]
    gone = document("plan", "delete-limits", "gold", "-r", "gpt-4", "-y")
    assert gone == {"plan": "gold", "resource": "gpt-4", "action": "deleted"}


def test_the_plan_of_an_entity_is_given_shown_and_taken(table: Table) -> None:
    run("plan", "set-limits", "gold", "-l", "rpm:100")
    run("plan", "set-limits", "silver", "-l", "rpm:10")
    assert document("entity", "create", "acme", "--plan", "gold")["plan"] == "gold"
    assert ["plan", "silver"] in told("entity", "update", "acme", "--plan", "silver")
    assert document("entity", "update", "acme", "--no-plan")["plan"] is None
    assert "contradict" in refused("entity", "update", "acme", "--plan", "gold", "--no-plan")
    said = refused("entity", "create", "other", "--plan", "golf")
    assert said.startswith("plan 'golf': there is no plan of this name, did you mean 'gold'?")


def test_the_level_is_named_by_effective_why_and_bucket(table: Table) -> None:
    run("plan", "set-limits", "gold", "-l", "rpm:100")
    run("resource", "set-defaults", "gpt-4", "-l", "rpm:1")
    run("entity", "create", "acme", "--plan", "gold")
    first, *rest = run("entity", "effective", "acme", "-r", "gpt-4").stdout.splitlines()
    assert first == "acme on gpt-4 (plan gold): the level plan_default wins."
    assert [line.split()[0] for line in rest[1:]] == [
        "entity",
        "entity_default",
        "plan",
        "plan_default",
        "resource",
        "system",
    ]
    assert document("entity", "effective", "acme", "-r", "gpt-4")["source"] == "plan_default"
    why = run("why", "acme", "-r", "gpt-4").stdout
    assert "acme: the limits of its plan gold on all resources; no bucket yet" in why
    assert "audit list --plan gold" in why
    assert document("why", "acme", "-r", "gpt-4")["buckets"][0]["plan"] == "gold"


def test_lift_and_block_go_by_the_plan(table: Table) -> None:
    run("plan", "set-limits", "gold", "-l", "rpm:100")
    run("entity", "create", "acme", "--plan", "gold")
    run("lift", "acme", "-r", "gpt-4", "--by", "2", "--until", "1h")
    override = table.repository.get_override("acme", "gpt-4")
    assert override is not None
    assert override.limits == (Limit.per_minute("rpm", 200),)
    run("block", "acme", "-y")
    assert table.repository.get_override("acme") is not None


def test_changes_of_a_plan_are_listed(table: Table) -> None:
    run("plan", "set-limits", "gold", "-l", "rpm:100")
    [event] = document("audit", "list", "--plan", "gold")
    assert (event["entity_id"], event["plan"], event["action"]) == (None, "gold", "limits_set")
    assert "(plan gold)" in run("audit", "list").stdout
    assert "takes one subject at most" in refused("audit", "list", "--plan", "gold", "--system")


def test_mistakes_are_one_line_each(table: Table) -> None:
    assert refused("plan", "show", "gold") == (
        "plan gold has no limits in namespace default: `plan list` shows those that have"
    )
    assert refused("plan", "delete-limits", "gold") == (
        "plan gold on all resources has no limits in namespace default: nothing was deleted"
    )
    assert refused("plan", "set-limits", "a b", "-l", "rpm:1").startswith("plan 'a b': must be 1 to 64 characters")


def test_an_override_of_fewer_limits_than_the_plan_has_is_warned_of(table: Table) -> None:
    run("plan", "set-limits", "gold", "-l", "rpm:100", "-l", "tpm:1000")
    run("resource", "set-defaults", "gpt-4", "-l", "rpd:9")
    run("entity", "create", "acme", "--plan", "gold")
    done = run("entity", "set-limits", "acme", "-r", "gpt-4", "-l", "rpm:200", "--until", "1h")
    assert "Warning: the level plan_default has tpm as well" in done.stderr
