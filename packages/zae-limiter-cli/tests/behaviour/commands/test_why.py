"""`why`: who refuses, until when, who changed it, and commands that help when they are pasted."""

import shlex
import time
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from support.cli.by_hand import document, opened, refused, run
from support.cli.tables import Table
from zae_limiter import UNLIMITED, Limit, Options, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

KEY, TEAM = Limit.per_minute("rpm", 25), Limit.per_day("rpm", 30)


def passes(table: Table, entity: str = "key-1", **consume: int) -> bool:
    try:
        with SyncRateLimiter(table.repository).acquire(entity, "gpt-4", consume or {"rpm": 1}):
            return True
    except RateLimitExceeded:
        return False


def exhausted(table: Table, key: str = "key-1", parent: str = "acme-corp") -> None:
    """A key with tokens whose parent has none, and which was refused for that."""
    table.repository.create_entity(parent)
    table.repository.create_entity(key, parent_id=parent, cascade=True)
    table.repository.set_resource_defaults("gpt-4", [KEY], principal="bob")
    table.repository.set_limits(parent, [TEAM], "gpt-4", principal="ann")
    assert passes(table, key, rpm=5)
    assert passes(table, parent, rpm=25)
    assert not passes(table, key)


def steps(*args: str) -> list[str]:
    """The commands that are next."""
    told = opened(run("why", "-o", "json", *args).stdout)
    return [step["command"] for step in told["next"]]


def paste(command: str) -> None:
    """Run a command as it was shown, by someone who says yes."""
    words = shlex.split(command)[1:]
    if words[:2] == ["bucket", "reset"] or "--end" in words:
        words.insert(1 if words[0] == "lift" else 2, "--yes")
    done = CliRunner(env={"ZAEL_PRINCIPAL": "ann"}).invoke(main, words)
    assert done.exit_code == 0, done.output


def test_a_key_that_its_parent_refuses_sees_parent_limit_path_and_time(table: Table) -> None:
    exhausted(table)
    lines = run("why", "key-1", "-r", "gpt-4").stdout.splitlines()
    assert lines[0] == "key-1 on gpt-4, 1 rpm: refused by acme-corp/rpm: too fast."
    assert lines[1] == "Path: key-1 -> acme-corp -> rpm"
    assert lines[2].startswith(("Passes in 47 min", "Passes in 48 min"))
    del lines[3 : lines.index("")]  # "47 min 59 s" takes a second line, "48 min" does not
    assert lines[4] == "key-1: the limits of gpt-4; 1 shard"
    assert lines[6].split() == ["rpm", "1", "20", "25", "25/min", "enough"]
    assert lines[8] == "acme-corp (parent): its own limits on gpt-4; 1 shard"
    assert lines[10].split()[:7] == ["rpm", "1", "0", "30", "30/rolling", "day", "REFUSES:"]
    assert "Last changes of acme-corp, newest first (UTC):" in lines
    assert any(line.endswith("ann  limits_set on gpt-4") for line in lines)


def test_programs_get_every_field(table: Table) -> None:
    exhausted(table)
    told = document("why", "key-1", "-r", "gpt-4", "-c", "rpm:1")
    assert (told["passes"], told["binding"]) == (
        False,
        {"entity_id": "acme-corp", "resource": "gpt-4", "limit_name": "rpm"},
    )
    assert 2_800 < told["wait_seconds"] <= 2_880
    assert (told["reason"], told["buckets"][1]["limits"]["rpm"]["reason"]) == ("rate", "rate")
    own, parent = told["buckets"]
    assert (own["source"], own["limits"]["rpm"]["available"], own["limits"]["rpm"]["refuses"]) == (
        "resource",
        20,
        False,
    )
    assert (parent["source"], parent["shard_count"], parent["limits"]["rpm"]["refuses"]) == ("entity", 1, True)
    assert told["changes"][0]["principal"] == "ann"


def test_the_refusals_of_the_last_hour_are_by_cause_also_if_it_passes_now(table: Table) -> None:
    exhausted(table)
    by = {("acme-corp", "rpm"): 50}
    table.used("key-1", "gpt-4", datetime.now(UTC), events=26, refused=56, refused_by=by, rpm=26)
    table.repository.reset_bucket("acme-corp", "gpt-4")
    done = run("why", "key-1", "-r", "gpt-4").stdout
    assert "passes now.\nRefused before, most often by acme-corp/rpm.\n" in done
    assert "26 acquires admitted, 56 refused (50 by acme-corp/rpm, 6 by its own limits)" in " ".join(done.split())
    assert document("why", "key-1", "-r", "gpt-4")["usage"]["refused_by"] == [
        {"entity_id": "acme-corp", "limit_name": "rpm", "refused": 50}
    ]
    assert steps("key-1", "-r", "gpt-4")[0].startswith("zae-limiter lift acme-corp ")


@pytest.mark.parametrize(("key", "parent"), [("key-1", "acme-corp"), ("-key", "-corp")])
def test_every_next_step_can_be_pasted_and_a_reset_lets_the_key_pass(table: Table, key: str, parent: str) -> None:
    exhausted(table, key, parent)
    found = steps("-r", "gpt-4", "--", key)
    assert [command.split()[1] for command in found] == ["lift", "bucket", "usage", "usage", "audit"]
    for command in found:
        paste(command)
    assert SyncRateLimiter(table.repository).check(key, "gpt-4", {"rpm": 1}).passes  # which asks the store
    override = table.repository.get_override(parent, "gpt-4")
    assert override is not None
    assert override.limits[0].capacity == 60


@pytest.mark.parametrize("on", [["-r", "gpt-4"], []])
def test_a_time_without_access_has_its_end_and_enable_ends_it(table: Table, on: list[str]) -> None:
    table.repository.set_resource_defaults("gpt-4", [KEY])
    assert passes(table)
    run("disable", "key-1", *on, "--for", "2h", "--yes")
    done = run("why", "key-1", "-r", "gpt-4").stdout
    assert "refused by key-1/rpm: key-1 is disabled.\nPath: key-1 -> rpm\nBlocked by an override until " in done
    told = document("why", "key-1", "-r", "gpt-4")
    assert (told["wait_seconds"], told["passes_at"], told["reason"]) == (None, None, "disabled")
    paste(told["next"][0]["command"])
    assert document("why", "key-1", "-r", "gpt-4")["buckets"][0]["source"] == "resource"


def test_a_capacity_of_0_and_another_override_have_their_own_way_out(table: Table) -> None:
    table.repository.set_limits("key-1", [Limit.per_minute("rpm", 0)], "gpt-4")
    assert "Blocked: its capacity is 0" in run("why", "key-1", "-r", "gpt-4").stdout
    paste(steps("key-1", "-r", "gpt-4")[0])
    assert document("why", "key-1", "-r", "gpt-4")["passes"]
    table.repository.set_limits("key-2", [Limit.per_minute("rpm", 0)], "gpt-4")
    paste(steps("key-2", "-r", "gpt-4", "-c", "rpm:100")[0])
    assert document("why", "key-2", "-r", "gpt-4", "-c", "rpm:100")["passes"]


def test_an_override_is_ended_only_where_that_raises_what_refuses(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [KEY, Limit.per_minute("tpm", 100)])
    asked = ("key-1", "-r", "gpt-4", "-c", "rpm:20")
    run("lift", "key-1", "-r", "gpt-4", "-l", "rpm:5")
    end = steps(*asked)[0]
    assert end.startswith("zae-limiter lift key-1 -r gpt-4 --end ")
    assert "--yes" not in end
    paste(end)
    assert document("why", *asked)["passes"]
    run("lift", "key-1", "-r", "gpt-4", "-l", "rpm:5", "-l", "tpm:200")  # whose end would lower tpm
    assert "--by 2 " in steps(*asked)[0]


@pytest.mark.parametrize("level", ["resource", "entity"])
@pytest.mark.parametrize(
    ("lifted", "factor"), [(("--by", "2"), 4), (("-l", "rpm:40"), 4), (("-l", "tpm:1000"), 10), (("--by", "8"), None)]
)
def test_what_it_proposes_on_a_lifted_key_lowers_nothing_and_lets_the_call_in(
    table: Table, lifted: tuple[str, ...], factor: int | None, level: str
) -> None:
    limits = [KEY, Limit.per_minute("tpm", 100)]
    if level == "entity":
        table.repository.set_limits("key-1", limits, "gpt-4")
    else:
        table.repository.set_resource_defaults("gpt-4", limits)
    run("lift", "key-1", "-r", "gpt-4", *lifted, "--for", "7h")
    asked = ("why", "key-1", "-r", "gpt-4", "-c", "rpm:100")
    before = document(*asked)
    assert before["passes"] is (factor is None)
    if factor is None:
        return
    [lift, *others] = steps(*asked[1:])
    assert f"--by {factor} --until " in lift
    assert not any("--end" in each for each in others)
    paste(lift)
    after = document(*asked)
    assert after["passes"]
    for name, each in after["buckets"][0]["limits"].items():
        old = before["buckets"][0]["limits"][name]
        assert each["burst"] >= old["burst"]
        assert each["override_until"] >= before["buckets"][0]["override_until"]


def test_a_reset_after_a_lift_fills_up_to_the_lifted_limits(table: Table) -> None:
    table.repository.set_limits("key-1", [Limit.per_minute("rpm", 22)], "gpt-4")
    assert passes(table, rpm=22)
    (fill,) = [step for step in steps("key-1", "-r", "gpt-4") if " bucket reset " in step]
    run("lift", "key-1", "-r", "gpt-4", "-l", "rpm:50")
    paste(fill)
    bucket = table.repository.get_bucket("key-1", "gpt-4")
    assert bucket is not None
    assert 40 < bucket.available["rpm"] <= 50  # clocks may differ by some seconds
    newest = table.repository.get_audit_events("key-1").events[0]
    assert newest.after is not None
    assert newest.after["available"] == {"rpm": 50}


def test_what_was_used_of_a_quota_counts_for_the_factor_of_a_lift(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [Limit.per_month("rpm", 25)])
    assert passes(table, rpm=25)
    asked = ("why", "key-1", "-r", "gpt-4", "-c", "rpm:100")
    lift = steps(*asked[1:])[0]
    assert "--by 5" in lift
    paste(lift)
    assert document(*asked)["passes"]


def test_a_lift_of_a_rate_says_how_long_its_tokens_take(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [KEY])
    assert passes(table, rpm=25)
    told = document("why", "key-1", "-r", "gpt-4", "-c", "rpm:100")["next"][0]["does"]
    assert told.startswith("Give key-1 4 times its limits for an hour: the call passes ")
    assert told.removesuffix(" later.").endswith(("59 s", "1 min"))


def test_a_disabled_entity_whose_limits_refuse_as_well_gets_a_step_for_both(table: Table) -> None:
    table.repository.create_entity("acme-corp")
    table.repository.create_entity("key-1", parent_id="acme-corp", cascade=True)
    table.repository.set_resource_defaults("gpt-4", [KEY])
    for each in ("key-1", "acme-corp"):
        run("disable", each, "--yes")
    asked = ("key-1", "-r", "gpt-4", "-c", "rpm:60")
    told = [step["does"] for step in document("why", *asked)["next"]]
    assert told[0] == "Let key-1 in again."
    assert told[1] == "Let acme-corp in again: it refuses, too."
    assert told[2].startswith("Give key-1 3 times its limits")


def test_an_amount_above_the_burst_never_passes_and_the_lift_makes_it_pass(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [KEY])
    asked = ("why", "key-1", "-r", "gpt-4", "-c", "rpm:60")
    assert "Never passes: it asks for 60, and the bucket holds 25 at most." in run(*asked).stdout
    [lift, *_] = steps(*asked[1:])
    assert "--by 3" in lift
    paste(lift)
    assert document(*asked)["passes"]


def test_a_used_up_total_asks_for_credit(table: Table) -> None:
    table.repository.set_limits("key-1", [Limit.total("credits", 2)], "gpt-4")
    with SyncRateLimiter(table.repository).acquire("key-1", "gpt-4", {"credits": 2}):
        pass
    asked = ("why", "key-1", "-r", "gpt-4", "-c", "credits:1")
    assert (
        "refused by key-1/credits: used up.\nPath: key-1 -> credits\nNo more come by themselves: credit"
        in run(*asked).stdout
    )
    assert document(*asked)["reason"] == "quota"


@pytest.mark.parametrize(
    ("reason", "limit", "asked", "told"),
    [
        ("rate", Limit.per_minute("rpm", 1), 1, ": too fast."),
        ("quota", Limit.per_month("rpm", 1), 1, ": used up."),
        ("concurrency", Limit.concurrent("rpm", 1), 1, ": too many at once."),
        ("disabled", Limit.per_minute("rpm", 0), 1, "."),
        ("never", Limit.per_minute("rpm", 1), 2, "."),
    ],
)
def test_a_refusal_has_its_reason(table: Table, reason: str, limit: Limit, asked: int, told: str) -> None:
    table.repository.set_limits("key-1", [limit], "gpt-4")
    with ExitStack() as held:
        if limit.capacity and asked == 1:
            held.enter_context(SyncRateLimiter(table.repository).acquire("key-1", "gpt-4", {"rpm": 1}))
        words = ("why", "key-1", "-r", "gpt-4", "-c", f"rpm:{asked}")
        assert f": refused by key-1/rpm{told}\n" in run(*words).stdout
        found = document(*words)
    assert (found["reason"], found["buckets"][0]["limits"]["rpm"]["reason"]) == (reason, reason)


def test_slots_get_a_larger_limit_and_no_credit(table: Table) -> None:
    table.repository.set_limits("key-1", [Limit.custom("calls", 1, kind="concurrent")], "gpt-4")
    with SyncRateLimiter(table.repository).acquire("key-1", "gpt-4", {"calls": 1}):
        asked = ("key-1", "-r", "gpt-4", "-c", "calls:1")
        lift = steps(*asked)[0]
        assert lift.startswith("zae-limiter lift key-1 -r gpt-4 --by 2")
        paste(lift)
        another = SyncRepository.over(table.store, Options(stack="my-app"))
        with another, SyncRateLimiter(another).acquire("key-1", "gpt-4", {"calls": 1}) as lease:
            assert lease.consumed == {"calls": 1}


def test_held_slots_have_no_time_and_no_step_that_leaves_them(table: Table) -> None:
    table.repository.set_limits("key-1", [Limit.concurrent("streams", 1, expires=60)], "gpt-4")
    with SyncRateLimiter(table.repository).acquire("key-1", "gpt-4", {"streams": 1}):
        done = run("why", "key-1", "-r", "gpt-4").stdout
        assert "Passes when a holder frees its slot; a holder that is gone loses it within 2 min." in " ".join(
            done.split()
        )
        assert "REFUSES: held" in done
        assert "Passes in" not in done
        assert not any("bucket reset" in step for step in steps("key-1", "-r", "gpt-4"))
        assert document("why", "key-1", "-r", "gpt-4")["passes_at"] is None
        assert "refused by key-1/streams: too many at once, held" in run("why", "key-1").stdout
        assert document("why", "key-1")["resources"][0]["passes_at"] is None
        near = run("usage", "near", "--every", "0.1").stdout.splitlines()
        assert near[1].split()[-1] == "held"


def test_a_lift_says_when_the_call_passes_with_what_has_come_so_far(table: Table) -> None:
    table.repository.set_limits("key-1", [Limit.custom("rpm", 1, refill_amount=1, refill_period=4)], "gpt-4")
    assert passes(table)
    time.sleep(2)
    told = document("why", "key-1", "-r", "gpt-4")
    [lift, *_] = told["next"]
    later = float(lift["does"].partition(": the call passes ")[2].removesuffix(" s later."))
    assert later == pytest.approx(told["wait_seconds"] / 2, abs=0.2)
    paste(lift["command"])
    assert document("why", "key-1", "-r", "gpt-4")["wait_seconds"] <= later


@pytest.mark.parametrize("limit", [Limit.per_month("usd", 30), Limit.total("usd", 30)])
def test_a_limit_whose_tokens_come_at_once_gets_a_credit_and_no_lift(table: Table, limit: Limit) -> None:
    table.repository.set_resource_defaults("gpt-4", [limit])
    assert passes(table, usd=28)
    assert not passes(table, usd=10)
    asked = ("key-1", "-r", "gpt-4", "-c", "usd:10")
    [credit, *others] = steps(*asked)
    assert credit.startswith("zae-limiter bucket credit key-1 -r gpt-4 -t usd:8")
    assert not any(" lift " in other for other in others)
    paste(credit)
    assert document("why", *asked)["passes"]
    larger = ("key-1", "-r", "gpt-4", "-c", "usd:60")  # it does not fit into the bucket, of which 20 count as used
    [lift, *_] = steps(*larger)
    assert "--by 3" in lift
    paste(lift)
    assert document("why", *larger)["passes"]


def test_every_bucket_that_refuses_has_a_remedy_and_all_of_them_let_the_call_pass(table: Table) -> None:
    limit = Limit.total("usd", 30)
    table.repository.create_entity("acme-corp")
    table.repository.create_entity("key-1", parent_id="acme-corp", cascade=True)
    table.repository.set_resource_defaults("gpt-4", [limit])
    assert passes(table, usd=28)
    asked = ("key-1", "-r", "gpt-4", "-c", "usd:10")
    told = document("why", *asked)["next"]
    assert [step["does"] for step in told[:2]] == [
        "Give key-1 8 usd now.",
        "Give acme-corp 8 usd now: it refuses, too.",
    ]
    for step in told[:2]:
        paste(step["command"])
    assert document("why", *asked)["passes"]


def test_a_parent_that_is_not_asked_is_named_unless_the_call_cascades(table: Table) -> None:
    table.repository.create_entity("acme-corp")
    table.repository.create_entity("key-1", parent_id="acme-corp")
    table.repository.set_resource_defaults("gpt-4", [KEY])
    assert "Its parent acme-corp is not asked" in run("why", "key-1", "-r", "gpt-4").stdout
    assert len(document("why", "key-1", "-r", "gpt-4", "--cascade")["buckets"]) == 2


def test_shadow_and_held_tokens_are_noted(table: Table) -> None:
    limits = [Limit.per_minute("rpm", 5, shadow=True), Limit.per_minute("tpm", 600, prefetch=1)]
    table.repository.set_resource_defaults("gpt-4", limits)
    done = run("why", "key-1", "-r", "gpt-4", "-c", "rpm:6", "-c", "tpm:590").stdout
    assert "passes now." in done
    assert "shadow, would refuse: above the burst" in done
    assert "enough, 590 of the burst usable" in " ".join(done.split())


@pytest.mark.parametrize("columns", [60, 80])
def test_no_line_but_a_command_is_wider_than_the_terminal(table: Table, columns: int) -> None:
    exhausted(table)
    table.repository.set_limits("acme-corp", [TEAM, Limit.per_minute("tpm", 60_000, prefetch=1)], "gpt-4")
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["why", "-n", "my-app", "key-1", "-r", "gpt-4"])
    assert done.exit_code == 0
    wide = [line for line in done.stdout.splitlines() if len(line) > columns]
    assert [line for line in wide if not line.startswith("  zae-limiter ")] == []


def test_it_writes_nothing(table: Table) -> None:
    exhausted(table)
    before = table.repository.get_buckets("key-1") + table.repository.get_buckets("acme-corp")
    run("why", "key-1", "-r", "gpt-4", "-c", "rpm:30")
    after = table.repository.get_buckets("key-1") + table.repository.get_buckets("acme-corp")
    assert [(each.anchor_ms, each.limits[0].consumed) for each in after] == [
        (each.anchor_ms, each.limits[0].consumed) for each in before
    ]


def test_further_buckets_of_a_call_are_explained_with_amounts_of_their_own(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [KEY])
    table.repository.set_resource_defaults("embeddings", [Limit.per_minute("tpm", 1_000)])
    draws = ["--draw", "user:7", "--draw", "on embeddings tpm:900"]
    lines = run("why", "key-1", "-r", "gpt-4", *draws).stdout.splitlines()
    assert lines[0] == "key-1 on gpt-4, 1 rpm: passes now."
    assert "user:7 (draw): the limits of gpt-4; no bucket yet, so it is full" in lines
    assert any(line.startswith("key-1 on embeddings (draw): the limits of embeddings; ") for line in lines)
    told = document("why", "key-1", "-r", "gpt-4", *draws)
    asked = [(each["entity_id"], each["resource"], *each["limits"]) for each in told["buckets"]]
    assert asked == [("key-1", "gpt-4", "rpm"), ("user:7", "gpt-4", "rpm"), ("key-1", "embeddings", "tpm")]
    assert told["buckets"][2]["limits"]["tpm"]["requested"] == 900


def test_a_further_bucket_that_refuses_is_named_with_its_resource_and_its_remedy(table: Table) -> None:
    table.repository.create_entity("org")
    table.repository.create_entity("team-blue", parent_id="org", cascade=True)
    table.repository.set_resource_defaults("gpt-4", [KEY])
    table.repository.set_resource_defaults("embeddings", [Limit.total("tpm", 1_000)])
    asked = ("why", "key-1", "-r", "gpt-4", "--draw", "team-blue on embeddings tpm:1001")
    told = document(*asked)
    assert told["binding"] == {"entity_id": "team-blue", "resource": "embeddings", "limit_name": "tpm"}
    assert told["next"][0]["command"].startswith("zae-limiter lift team-blue -r embeddings ")
    lines = run(*asked).stdout.splitlines()
    assert lines[0] == "key-1 on gpt-4, 1 rpm: refused by team-blue/tpm on embeddings."
    assert any(line.startswith("org on embeddings (draw, above team-blue): ") for line in lines)


@pytest.mark.parametrize(
    ("draw", "problem"),
    [
        ("", "--draw '': must be [ENTITY_ID] [on NAME] [name:amount …], like 'team-blue', 'on embeddings' or"),
        ("on", "--draw 'on': must be [ENTITY_ID] [on NAME]"),
        ("team-blue embeddings", "--draw 'team-blue embeddings': must be [ENTITY_ID] [on NAME]"),
        ("team-blue on", "--draw 'team-blue on': must be [ENTITY_ID] [on NAME]"),
        (
            "on embeddings tpm:x",
            "--draw 'on embeddings tpm:x': 'tpm:x': must be name:amount, like rpm:100, or money, like 'usd:$0.25'",
        ),
        ("on _default_", "--draw 'on _default_': resource of a draw '_default_': is reserved"),
        ("key-1", "draws 'key-1/gpt-4': the call draws on this bucket already: name each one once"),
        ("on nothing", "limits 'key-1/nothing': no limits are configured"),
    ],
)
def test_a_further_bucket_that_is_none_is_refused_in_one_line(table: Table, draw: str, problem: str) -> None:
    table.repository.set_resource_defaults("gpt-4", [KEY])
    assert refused("why", "key-1", "-r", "gpt-4", "--draw", draw).startswith(problem)


def test_alone_it_asks_for_what_was_refused_or_the_mean(table: Table) -> None:
    """Calls of 1,000 tokens are refused while 999 are left: a question for one token would pass."""
    table.repository.set_resource_defaults("gpt-4", [Limit.per_day("tpm", 10_000), KEY])
    for _ in range(9):
        assert passes(table, tpm=1_000, rpm=1)
    assert passes(table, tpm=1, rpm=1)
    assert not passes(table, tpm=1_000, rpm=1)
    table.used("key-1", "gpt-4", datetime.now(UTC), events=10, refused=319, tpm=9_001, rpm=10)
    lines = run("why", "key-1", "gpt-4").stdout.splitlines()
    assert lines[0] == "key-1 on gpt-4, 1 rpm, 901 tpm: passes now."
    assert lines[1].startswith("It asks for the mean of its admitted calls since ")
    assert passes(table, tpm=900, rpm=1)
    told = document("why", "key-1", "gpt-4")  # the write of that call has told what was refused before
    assert (told["asked"], told["asked_by"], told["passes"]) == ({"rpm": 1, "tpm": 1_000}, "last", False)
    assert told["binding"]["limit_name"] == "tpm"
    assert "It asks for what the last refused call asked for" in run("why", "key-1", "gpt-4").stdout
    given = document("why", "key-1", "gpt-4", "-c", "tpm:5")
    assert (given["asked"], given["asked_by"], given["passes"]) == ({"tpm": 5}, "given", True)


def test_where_one_token_is_refused_no_mean_is_asked_for(table: Table) -> None:
    """Every call is refused then, and the time is the earliest at which one may pass."""
    exhausted(table)
    table.used("key-1", "gpt-4", datetime.now(UTC), events=1, refused=5, rpm=10)
    told = document("why", "key-1", "gpt-4")
    assert (told["asked"], told["asked_by"], told["passes"]) == ({"rpm": 1}, "one", False)


def test_without_calls_in_this_hour_it_asks_for_the_mean_of_the_days(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [Limit.total("tpm", 500)])
    now = datetime.now(UTC)
    table.used("key-1", "gpt-4", now, events=0, refused=319)
    told = document("why", "key-1", "gpt-4")
    assert (told["asked"], told["asked_by"]) == ({"tpm": 1}, "one")
    assert "How much its refused calls asked for is not known" in run("why", "key-1", "gpt-4").stdout
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    table.used("key-1", "gpt-4", today, window="daily", events=4, refused=319, tpm=2_400)
    told = document("why", "key-1", "gpt-4")
    assert (told["asked"], told["asked_by"], told["passes"]) == ({"tpm": 600}, "mean", False)


def test_an_unknown_name_is_told_with_those_near(table: Table) -> None:
    exhausted(table)
    table.repository.set_system_defaults([KEY])
    done = " ".join(run("why", "kye-1", "gpt4").stdout.split())
    assert "Unknown entity kye-1: it has no record, no limits of its own, no bucket and no usage; near: key-1." in done
    assert "Unknown resource gpt4: it has no limits, no bucket and no usage; near: gpt-4." in done
    assert document("why", "kye-1", "gpt-4")["unknown"] == [{"kind": "entity", "name": "kye-1", "near": ["key-1"]}]
    assert document("why", "key-1", "gpt-4")["unknown"] == []
    table.repository.delete_system_defaults()
    assert refused("why", "key-1", "gtp-4").endswith("it has no limits, no bucket and no usage; near: gpt-4")


def test_the_resource_is_the_second_word_or_an_option(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [KEY])
    assert document("why", "key-1", "gpt-4")["resource"] == document("why", "key-1", "-r", "gpt-4")["resource"]
    told = "name one resource: why ENTITY_ID RESOURCE, or -r RESOURCE"
    assert refused("why", "key-1", "gpt-4", "-r", "gpt-4") == told


def test_names_that_the_level_leaves_out_are_shown_as_not_limited(table: Table) -> None:
    table.repository.set_system_defaults([KEY, Limit.per_minute("tpm", 1000)])
    table.repository.set_limits("key-1", [KEY], "gpt-4")
    assert "  Not limited here, only counted: tpm" in run("why", "key-1", "gpt-4", "-c", "tpm:5000").stdout.splitlines()
    [bucket] = document("why", "key-1", "gpt-4")["buckets"]
    assert bucket["unlimited"] == ["tpm"]


def test_mistakes_are_one_line(table: Table) -> None:
    assert refused("why", "key-1", "-r", "gpt-4").startswith("limits 'key-1/gpt-4': no limits are configured")
    table.repository.set_resource_defaults("gpt-4", [KEY])
    assert "unknown limit 'tpm' on resource 'gpt-4' (known: rpm)" in refused(
        "why", "key-1", "-r", "gpt-4", "-c", "tpm:1"
    )
    assert (
        refused("why", "key-1", "-r", "gpt-4", "-c", "rpm")
        == "--consume 'rpm': must be name:amount, like rpm:100, or money, like 'usd:$0.25'"
    )


def test_whose_changes_are_shown_is_said_in_words(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 25)])
    assert "Last changes of resource gpt-4, newest first (UTC):" in run("why", "key", "-r", "gpt-4").stdout
    table.repository.set_system_defaults(limits=[Limit.per_minute("rpm", 25)])
    assert "Last changes of the system, newest first (UTC):" in run("why", "key", "-r", "other").stdout


def test_why_proposes_the_draw_that_refused(table: Table) -> None:
    table.repository.set_system_defaults([Limit.total("usd", 5)])
    assert passes(table, usd=1)
    table.used("key-1", "gpt-4", datetime.now(UTC), events=1, refused=2, refused_by={("m1", "usd"): 2}, usd=1)
    assert steps("key-1", "-r", "gpt-4")[0].startswith("zae-limiter why key-1 -r gpt-4 --draw m1")


def test_why_of_an_unlimited_entity_has_no_amounts(table: Table) -> None:
    table.repository.set_limits("cust-u", UNLIMITED)
    assert run("why", "cust-u", "-r", "gpt-5").stdout.startswith("cust-u on gpt-5: passes now.")


def test_the_budget_of_a_run_is_shown_whatever_the_levels_have(table: Table) -> None:
    table.repository.set_system_defaults(["usd: $5/day", "rpm: 100/min"])
    limiter = SyncRateLimiter(table.repository)
    run_1 = limiter.budget("run-1", {"usd": "$2", "calls": 3}, within="team").open()
    with run_1.acquire("gpt-4", {"rpm": 1}, costs={"usd": 1_500_000}):
        pass
    with pytest.raises(RateLimitExceeded), run_1.acquire("gpt-4", {"rpm": 1}, costs={"usd": 600_000}):
        pass
    place = ("run:run-1@team", "-r", "budget")
    lines = run("why", *place, "-c", "usd:$0.60").stdout.splitlines()
    assert lines[0] == "run:run-1@team on budget, $0.60 usd: refused by run:run-1@team/usd: used up."
    assert "No more come by themselves: credit the bucket." in lines
    assert any(line.split()[:4] == ["usd", "$0.60", "$0.50", "$2"] for line in lines)
    assert any(line.strip().startswith("It is the budget of a run, until ") for line in lines)
    shown = run("entity", "show", "run:run-1@team").stdout
    assert [line.split()[:4] for line in shown.splitlines() if line.startswith("budget ")][-2:] == [
        ["budget", "calls", "2", "3"],
        ["budget", "usd", "$0.50", "$2"],
    ]
    with_draw = run("why", "team", "-r", "gpt-4", "-c", "rpm:1", "--draw", "run:run-1@team on budget usd:$1").stdout
    assert "run:run-1@team on budget (draw)" in with_draw


def test_a_call_that_its_run_refused_names_the_run_with_the_least_left(table: Table) -> None:
    """Usage counts the refusals of all runs as one."""
    table.repository.set_system_defaults(["rpm: 100/min"])
    limiter = SyncRateLimiter(table.repository)
    for name, calls, within in (("run-1", 1, "team"), ("run-2", 9, "team"), ("run-1", 1, "others")):
        with limiter.budget(name, {"calls": calls}, within=within) as budget, budget.acquire("gpt-4", {"rpm": 1}):
            pass
    again = limiter.budget("run-1", within="team").open()
    with pytest.raises(RateLimitExceeded), again.acquire("gpt-4", {"rpm": 1}):
        pass
    limiter.close()  # which writes the refusal
    done = run("why", "team", "-r", "gpt-4").stdout
    first = " ".join(done.split())
    assert "refused by a draw on run:run-1@team/calls on budget, which has 0 left." in first
    assert "calls - 0 1 never (expires 7d after its last use) REFUSES: used up" in first
    assert "zae-limiter why run:run-1@team -r budget" in done
    assert "run:run-1@team/calls on budget, which has 0 left" in " ".join(run("why", "team").stdout.split())
    for name in ("run-1", "run-2"):
        run("entity", "delete", f"run:{name}@team", "--yes")
    done = run("why", "team", "-r", "gpt-4").stdout
    assert "No run within team has that limit now." in done
    assert "zae-limiter entity list --buckets -r budget" in done


@pytest.mark.parametrize("ends", [True, False])
def test_of_a_run_that_is_over_no_credit_is_proposed(table: Table, *, ends: bool) -> None:
    run_1 = SyncRateLimiter(table.repository).budget("run-1", {"calls": 3}, within="team", expires=0.2).open()
    if ends:
        run_1.end()
    time.sleep(run_1.expires_in)
    lines = run("why", "run:run-1@team", "-r", "budget").stdout.splitlines()
    assert lines[0] == "run:run-1@team on budget, 1 calls: refused by run:run-1@team/calls: used up."
    assert "The run is over: open a budget of another name." in lines
    told = opened(run("why", "-o", "json", "run:run-1@team", "-r", "budget").stdout)
    assert not told["passes"]
    assert ("run_ended" in told["buckets"][0], "run_until" in told["buckets"][0]) == (ends, True)
    assert not any("credit" in step["command"] for step in told["next"])
