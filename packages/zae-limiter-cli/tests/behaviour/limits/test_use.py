"""A plan says, on request, what the limits that it changes were used for."""

import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from zae_limiter import RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.testing import ManualClock
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.limits.risks import CHECKED, LARGEST_CUTS, risks_of
from zae_limiter_cli.main import main
from zae_limiter_manifest import Address, Change, LimitDecl, LimitsManifest, Plan, ResourceDecl, SystemDecl

URL = "sqlite:///limits.db"
RESOURCE = "namespace: a\nresources: {{gpt-4: {{limits: {{rpm: {{capacity: {}, refill_period: 3600}}}}}}}}\n"
ENTITY = "entities: {{key-a: {{resources: {{gpt-4: {{limits: {{rpm: {{capacity: {}, refill_period: 3600}}}}}}}}}}}}\n"


@pytest.fixture(autouse=True)
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in which `key-a` has used 40 of its own limit, and `key-b` 5 of the resource's."""
    monkeypatch.setenv("ZAEL_STORE", URL)
    monkeypatch.chdir(tmp_path)
    Path("limits.yaml").write_text(RESOURCE.format(100) + ENTITY.format(50))
    told("apply", "--yes", "-f", "limits.yaml")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "a")) as limiter:
        for entity, amount in (("key-a", 40), ("key-b", 5)):
            with limiter.acquire(entity, "gpt-4", {"rpm": amount}):
                pass


def told(*args: str) -> str:
    done = CliRunner().invoke(main, ["limits", *args])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def risks(plan: Plan, now: datetime | None = None) -> Mapping[Address, str]:
    manifest = LimitsManifest.of("a", {each.address: each.after for each in plan.changes if each.after is not None})
    return risks_of(Connection.of_store(URL, source="--store"), [plan], [manifest], now).get("a", {})


def cut(address: Address, to: LimitDecl) -> Change:
    return Change(address, ResourceDecl({"rpm": LimitDecl(10**6)}), ResourceDecl({"rpm": to}))


def test_a_cut_of_an_entity_shows_its_use_and_whether_that_is_over_the_new_limit() -> None:
    Path("limits.yaml").write_text(RESOURCE.format(200) + ENTITY.format(30))
    plan = told("plan", "-f", "limits.yaml", "--use")
    assert (
        "capacity 50 -> 30\n      ! rpm: 40 in 24 h, at most 40 in an hour; 30 an hour from now on: over it\n" in plan
    )
    assert plan.count(" ! ") == 1  # what is raised is at no risk
    assert " ! " not in told("plan", "-f", "limits.yaml")
    Path("limits.yaml").write_text(RESOURCE.format(100) + ENTITY.format(45))
    assert "45 an hour from now on: within it\n" in told("plan", "-f", "limits.yaml", "--use")


@pytest.mark.parametrize(
    ("limit", "line", "binds"),
    [
        (LimitDecl(6, refill_period=3600), "rpm: 6 an hour from now on; in the last whole hour, 1 of 2 entities", 0),
        (
            LimitDecl(4, refill_period=86400),
            "rpm: 4 in 24 h from now on; in the last whole 24 hours, 2 of 2 entities",
            1,
        ),
        (LimitDecl(4, window="day"), "rpm: 4 in 24 h from now on; in the last whole 24 hours, 2 of 2 entities", 1),
        (LimitDecl(1, window="minute"), "rpm: 60 an hour from now on; in the last whole hour, 0 of 2 entities", 0),
        (
            LimitDecl(9, window="month"),
            "rpm: 9 in each window from now on; in the last whole 24 hours, 1 of 2 entities",
            0,
        ),
        (LimitDecl(9, kind="total"), "rpm: 9 in all from now on; in the last whole 24 hours, 1 of 2 entities", 0),
        (LimitDecl(0), "rpm: 0 at all from now on; in the last whole hour, 2 of 2 entities", 1),
    ],
    ids=["an hour", "a day", "each day", "each minute", "each month", "in all", "blocked"],
)
def test_a_cut_of_a_resource_counts_the_entities_that_used_more(limit: LimitDecl, line: str, binds: int) -> None:
    live = LimitDecl(100, refill_period=3600)
    plan = Plan("a", (Change(Address("gpt-4"), ResourceDecl({"rpm": live}), ResourceDecl({"rpm": limit})),))
    found = risks(plan, datetime.now(UTC) + timedelta(hours=1))
    said, bound = found[Address("gpt-4")].split("; rpm: binds ")
    assert said.startswith(f"{line} used more, also those with limits of their own")
    assert bound.startswith(f"{binds} entit" if binds else "no entity")


@pytest.mark.parametrize(("capacity", "verdict"), [(39, ": over it"), (41, "")], ids=["over it", "who knows"])
def test_the_use_of_a_day_may_be_over_the_limit_of_a_month_but_is_never_within_it(capacity: int, verdict: str) -> None:
    address = Address("gpt-4", "key-a")
    plan = Plan("a", (cut(address, LimitDecl(capacity, window="month")),))
    found = risks(plan, datetime.now(UTC) + timedelta(hours=1))
    line = f"rpm: 40 in 24 h, at most 40 in an hour; {capacity} in each window from now on{verdict}"
    line += f"; rpm: 10 of 50 left -> {max(0, capacity - 40)} of {capacity}"
    assert found == {address: line}


def test_an_unused_limit_is_said_to_be_and_levels_without_a_resource_have_no_line() -> None:
    unused, default = Address("gpt-5", "key-a"), Address("_default_", "key-a")
    plan = Plan("a", tuple(cut(address, LimitDecl(1)) for address in (unused, default)))
    assert risks(plan) == {unused: "rpm: no use in the last 24 h"}


def test_only_the_largest_cuts_are_looked_up() -> None:
    many = tuple(cut(Address("gpt-4", f"key-{number:02}"), LimitDecl(10**6 - 1 - number)) for number in range(30))
    found = risks(Plan("a", many))
    assert set(found) == {Address("gpt-4", f"key-{number:02}") for number in range(30 - LARGEST_CUTS, 30)}


QUOTA = "namespace: b\nentities: {{acme: {{resources: {{gpt-4: {{limits: {{calls: {}/month Europe/Berlin}}}}}}}}}}\n"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that is not before that of a command."""
    return ManualClock(time.time_ns() // 1_000_000)


@pytest.fixture
def spent(clock: ManualClock) -> SyncRateLimiter:
    """A limiter by which `acme` has used 140,743 of 150,000 of a month."""
    Path("limits.yaml").write_text(QUOTA.format(150_000))
    told("apply", "--yes", "-f", "limits.yaml")
    limiter = SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "b", clock=clock))
    with limiter.acquire("acme", "gpt-4", {"calls": 140_743}):
        return limiter


@pytest.mark.parametrize(("quota", "left"), [(1_500_000, "1,359,257 of 1,500,000"), (100_000, "0 of 100,000")])
def test_a_plan_says_what_a_changed_quota_leaves(spent: SyncRateLimiter, quota: int, left: str) -> None:
    Path("limits.yaml").write_text(QUOTA.format(quota))
    line = f"calls: 9,257 of 150,000 left -> {left}\n"
    plan = told("plan", "-f", "limits.yaml", "--use")
    assert line in plan
    told("apply", "--yes", "-f", "limits.yaml")
    later = SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "b"))
    assert later.available("acme", "gpt-4") == {"calls": int(left.split(maxsplit=1)[0].replace(",", ""))}


SHARED = """namespace: c
system: {{limits: {{calls: {0}/month UTC}}}}
resources: {{r: {{limits: {{usd: ${0}/month UTC, rpm: {0}/min}}}}}}
tiers: {{gold: {{resources: {{t: {{limits: {{calls: {0}/month UTC}}}}}}}}}}
entities: {{g1: {{tier: gold}}}}
"""


def test_a_plan_says_of_each_changed_quota_what_holds_without_a_read() -> None:
    Path("limits.yaml").write_text(SHARED.format(100))
    told("apply", "--yes", "-f", "limits.yaml")
    Path("limits.yaml").write_text(SHARED.format(1000))
    plan = told("plan", "-f", "limits.yaml")
    assert plan.count("= usd: what was used stays used: $900 more at once\n") == 1
    assert plan.count("= calls: what was used stays used: 900 more at once\n") == 2  # of the system, and of the tier
    assert "= rpm" not in plan
    Path("limits.yaml").write_text(SHARED.format(100).replace("$100/month UTC", "$40/min"))
    assert "= usd: begins with what is left; what comes back no longer counts as used" in told(
        "plan", "-f", "limits.yaml"
    )


def test_use_shows_the_buckets_of_a_shared_quota_that_have_least_afterwards() -> None:
    Path("limits.yaml").write_text(SHARED.format(100))
    told("apply", "--yes", "-f", "limits.yaml")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "c")) as limiter:
        limiter.set_limits("own", ["calls: 9/month UTC"], "s")
        for entity, resource, used in [("own", "s", 9), *((f"e{each}", "s", 10 * each) for each in range(5))]:
            with limiter.acquire(entity, resource, {"calls": used}):
                pass
        with limiter.acquire("g1", "t", {"calls": 60}), limiter.acquire("g1", "r", {"usd": 70_000_000}):
            pass
    Path("limits.yaml").write_text(SHARED.format(50))
    plan = told("plan", "-f", "limits.yaml", "--use")
    assert "! e4/s calls: 60 of 100 left -> 10 of 50\n        e3/s calls: 70 of 100 left -> 20 of 50\n" in plan
    binds = "calls: binds 1 entity, by what live buckets have used: g1 (60)\n"
    assert f"! g1/t calls: 40 of 100 left -> 0 of 50\n        {binds}" in plan
    assert "g1/r usd: $30 of $100 left -> $0 of $50\n" in plan
    assert max(map(len, plan.splitlines())) <= 80
    assert "more buckets with a limit of that name" in plan
    assert "own/s" not in plan


def test_notes_are_of_their_namespace() -> None:
    other = QUOTA.format(150_000).replace("namespace: b", "namespace: d")
    Path("limits.yaml").write_text(QUOTA.format(150_000))
    Path("other.yaml").write_text(other)
    told("apply", "--yes", "-f", "limits.yaml", "-f", "other.yaml")
    Path("limits.yaml").write_text(QUOTA.format(150_001))
    Path("other.yaml").write_text(other.replace("150000", "100"))
    plan = told("plan", "-f", "limits.yaml", "-f", "other.yaml")
    assert plan.index("1 more at once") < plan.index("Namespace d") < plan.index("149,900 less at once")


def test_an_upgrade_under_load_lets_in_exactly(spent: SyncRateLimiter, clock: ManualClock) -> None:
    """Four threads take until a quota is used up, and go on; an upgrade lets them take the difference, no more."""
    admitted, full = [0, 0, 0, 0], threading.Barrier(5, timeout=60)  # a thread that fails stops no other for ever

    def load(place: int) -> None:
        for _ in range(2):
            try:
                while True:
                    with spent.acquire("acme", "gpt-4", {"calls": 257}):
                        admitted[place] += 257
            except RateLimitExceeded:
                full.wait()
                full.wait()

    threads = [threading.Thread(target=load, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    full.wait()
    assert 9_257 - 257 < sum(admitted) <= 9_257
    Path("limits.yaml").write_text(QUOTA.format(160_000))
    told("apply", "--yes", "-f", "limits.yaml")
    clock.advance(1)  # a copy refuses for so long at most
    full.wait()
    full.wait()
    assert 19_257 - 257 < sum(admitted) <= 19_257
    full.wait()
    for thread in threads:
        thread.join()


LEVELS = """namespace: e
system: {{limits: {{rpm: {0}/hour}}}}
tiers: {{gold: {{resources: {{_default_: {{limits: {{rpm: {0}/hour}}}}}}}}}}
entities: {{{1}}}
"""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The reads of a plan, by method; each still reads."""
    counts = Counter[str]()
    for name in ("get_usage_snapshots", "list_buckets", "resolve_limits", "get_entity"):
        read = getattr(SyncRepository, name)

        def counted(*args: Any, _read: Any = read, _name: str = name, **kwargs: Any) -> Any:
            counts[_name] += 1
            return _read(*args, **kwargs)

        monkeypatch.setattr(SyncRepository, name, counted)
    return counts


def use_on_levels(gold: int, others: int) -> list[Change]:
    """Use 60 of 100 an hour for each of so many entities, and return a cut to 50 of the tier and of the system."""
    records = ", ".join(f"g{each}: {{tier: gold}}" for each in range(gold))
    Path("limits.yaml").write_text(LEVELS.format(100, records))
    told("apply", "--yes", "-f", "limits.yaml")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "e")) as limiter:
        limiter.set_limits("own", ["rpm: 100/hour"], "s")
        names = [*(f"g{each}" for each in range(gold)), *(f"o{each}" for each in range(others)), "own"]
        for entity in names:
            with limiter.acquire(entity, "s", {"rpm": 60}):
                pass
        with limiter.acquire("idle", "s", {"rpm": 1}):
            pass
    sides = [{"rpm": LimitDecl(each, refill_period=3600)} for each in (100, 50)]
    tier = Change(Address.of_tier("gold", "_default_"), *map(ResourceDecl, sides))
    return [tier, Change(Address(), *(SystemDecl(limits=each) for each in sides))]


def bound(changes: list[Change]) -> dict[Address, str]:
    manifest = LimitsManifest.of("e", {each.address: each.after for each in changes if each.after is not None})
    later = datetime.now(UTC) + timedelta(hours=1)
    plan = Plan("e", tuple(changes))
    return risks_of(Connection.of_store(URL, source="--store"), [plan], [manifest], later)["e"]


def test_a_cut_of_a_tier_or_the_system_says_how_many_entities_it_binds_now(reads: Counter[str]) -> None:
    changes = use_on_levels(gold=2, others=3)
    reads.clear()
    by = "by the busiest hour of the last day"
    assert bound(changes) == {
        changes[0].address: f"rpm: binds 2 entities, {by}: g0 (60 an hour), g1 (60 an hour)",
        changes[1].address: f"rpm: binds 3 entities, {by}: o0 (60 an hour), o1 (60 an hour), o2 (60 an hour)",
    }
    assert reads == {"get_usage_snapshots": 4, "resolve_limits": 12, "get_entity": 6}


def test_a_plan_names_those_that_a_cut_of_a_tier_binds_while_the_hour_runs() -> None:
    use_on_levels(gold=2, others=1)
    tiers, _, rest = Path("limits.yaml").read_text().partition("\nentities")
    Path("limits.yaml").write_text("50".join(tiers.rsplit("100", 1)) + "\nentities" + rest)
    plan = " ".join(told("plan", "-f", "limits.yaml", "--use").split())
    assert "rpm: binds 2 entities, by the busiest hour of the last day: g0 (60 an hour), g1 (60 an hour)" in plan


def test_a_cut_of_a_pattern_binds_those_on_its_resources_alone() -> None:
    use_on_levels(gold=1, others=3)
    limits = [{"rpm": LimitDecl(each, refill_period=3600)} for each in (100, 50)]
    pattern = Change(Address("other/*"), *map(ResourceDecl, limits))
    assert bound([pattern])[pattern.address].startswith("rpm: binds no entity, by")


def test_it_reads_a_bounded_number_of_entities_and_says_at_least_where_it_stops(reads: Counter[str]) -> None:
    tier, _ = use_on_levels(gold=CHECKED + 3, others=0)
    reads.clear()
    (line,) = bound([tier]).values()
    assert line.startswith("rpm: binds at least 10 entities, ")
    assert line.endswith(
        ": g0 (60 an hour), g1 (60 an hour), g10 (60 an hour), g11 (60 an hour), g12 (60 an hour) and 5 more"
    )
    assert reads["get_usage_snapshots"] == 2
    assert (reads["resolve_limits"], reads["list_buckets"]) == (CHECKED, 0)


TEAMS = """namespace: t
entities:
  team-a: {{resources: {{gpt-4: {{limits: {{usd: ${0}/day UTC, rpm: 500/min}}}}}}}}
  team-b: {{resources: {{gpt-4: {{limits: {{usd: $99/day UTC, rpm: {1}/min}}}}}}}}
"""


def teams(usd: str, rpm: int) -> None:
    Path("limits.yaml").write_text(TEAMS.format(usd, rpm))


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_every_number_of_a_limit_of_money_is_money(form: str) -> None:
    teams("12", 100)
    told("apply", "--yes", "-f", "limits.yaml")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "t")) as limiter:
        for _ in range(2):
            with limiter.acquire("team-a", "gpt-4", {"usd": 4_785_000}):
                pass
    teams("3", 100)
    commands = (
        ("plan", "-f", "limits.yaml", "--use", "--replay", "24h"),
        ("diff", "-f", "limits.yaml"),
        ("apply", "--yes", "-f", "limits.yaml"),
        ("status", "-N", "t"),
    )
    for command in commands:
        if command[0] == "status" and form == "markdown":
            continue
        said = told(*command, "-o", form)
        if command[0] == "plan":
            assert "usd: $9.57 in 24 h, at most $9.57 in an hour" in said
            assert "$3 in 24 h from now on: over it" in said
            assert "usd: $2.43 of $12 left -> $0 of $3" in said.replace("\\u003e", ">")
        if form != "json":  # programs have millionths beside them
            assert not re.search(r"[0-9],?[0-9]{3},?[0-9]{3}\b", re.sub("[0-9a-f]{64}", "", said)), said


def test_a_cut_of_a_rate_that_refused_is_never_said_to_be_within_the_use() -> None:
    teams("12", 8)
    told("apply", "--yes", "-f", "limits.yaml")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "t")) as limiter:
        refused = 0
        for _ in range(20):
            try:
                with limiter.acquire("team-b", "gpt-4", {"rpm": 1}):
                    pass
            except RateLimitExceeded:
                refused += 1
    teams("12", 4)
    plan = told("plan", "-f", "limits.yaml", "--use")
    assert f"{refused} calls refused by it" in plan
    assert "240 an hour from now on: bursts within the hour were over it\n" in plan
    assert "within it" not in plan
    assert max(map(len, plan.splitlines())) <= 80


def test_a_cut_for_many_names_those_that_the_limit_refused() -> None:
    manifest = "namespace: a\nresources: {{gpt-4: {{limits: {{rpm: {}/min}}}}}}\n"
    Path("limits.yaml").write_text(manifest.format(9))
    told("apply", "--yes", "-f", "limits.yaml")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "a")) as limiter:
        with limiter.acquire("burst", "gpt-4", {"rpm": 9}):
            pass
        with pytest.raises(RateLimitExceeded), limiter.acquire("burst", "gpt-4", {"rpm": 9}):
            pass
    sides = [ResourceDecl({"rpm": LimitDecl(each)}) for each in (9, 4)]
    plan = Plan("a", (Change(Address("gpt-4"), *sides),))
    line = risks(plan, datetime.now(UTC) + timedelta(hours=1))[Address("gpt-4")]
    assert "0 of 3 entities used more and 1 was refused by it, also" in line
    assert "rpm: binds at least 1 entity, by the busiest hour of the last day: burst (which it refused)" in line


def test_a_plan_says_that_an_override_stays_and_what_holds_from_its_end_on() -> None:
    teams("4", 8)
    told("apply", "--yes", "-f", "limits.yaml")
    ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:00Z")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "t")) as limiter:
        until = datetime.fromisoformat(ends)
        limiter.set_limits("team-a", ["usd: $50/day UTC", "rpm: 500/min"], "gpt-4", override_until=until)
        with limiter.acquire("team-a", "gpt-4", {"usd": 5_720_000}):
            pass
    teams("3", 8)
    plan = told("plan", "-f", "limits.yaml", "--use")
    said = " ".join(plan.split())
    assert f"= usd: the override stays until {ends} then what was used stays used: $3/day UTC in place of" in said
    assert "at once" not in said
    assert f"$3 in 24 h from {ends} on: over it" in said
    assert f"usd: $44.28 of $50 left until {ends}, by an override, then $0 of $3" in said
    assert max(map(len, plan.splitlines())) <= 80
    told("apply", "--yes", "-f", "limits.yaml")
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "t")) as limiter:
        assert limiter.available("team-a", "gpt-4")["usd"] == 44_280_000
