"""A replay goes by the tiers of entities as a manifest leaves them: their limits, and which entity has which."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter_cli.limits.replay.after import LimitsAfter
from zae_limiter_cli.main import main
from zae_limiter_manifest import Address, Change, LimitDecl, Plan, RecordDecl, ResourceDecl

MANIFEST = """\
namespace: a
ignore: [unused-tier, child-above-parent]
system: {{limits: {{rpm: {{capacity: 100, refill_period: 3600}}}}}}
tiers:
  gold: {{resources: {{_default_: {{limits: {{rpm: {{capacity: {gold}, refill_period: 3600}}}}}}}}}}
  trial: {{resources: {{gpt-4: {{limits: {{rpm: {{capacity: 10, refill_period: 3600}}}}}}}}}}
entities:
  key-a: {{tier: gold}}
  key-b: {{tier: {tier}}}
  key-c: {{tier: gold, resources: {{gpt-4: {{limits: {{rpm: {{capacity: 60, refill_period: 3600}}}}}}}}}}
  key-d:
    parent: key-a
    cascade: {cascade}
    resources: {{gpt-4: {{limits: {{rpm: {{capacity: 70, refill_period: 3600}}}}}}}}
"""
CALLS = {"key-a": 50, "key-b": 40, "key-c": 45, "key-d": 3, "key-e": 30}


def written(**values: object) -> str:
    Path("limits.yaml").write_text(MANIFEST.format(**{"gold": 80, "tier": "gold", "cascade": "false"} | values))
    return "limits.yaml"


@pytest.fixture(autouse=True)
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose entities were admitted so many calls; `key-e` has no tier."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///limits.db")
    told("apply", "--yes", "-f", written())
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "a")) as limiter:
        for entity, calls in CALLS.items():
            for _ in range(calls):
                with limiter.acquire(entity, "gpt-4", {"rpm": 1}):
                    pass


def told(*args: str) -> str:
    done = CliRunner().invoke(main, ["limits", *args])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def replayed(path: str) -> dict[str, str]:
    """Return the row of each entity that a plan would refuse, and the notes under ``notes``."""
    shown = told("plan", "-f", path, "--replay", "24h").partition("Replay of")[2]
    rows = {line.split()[0]: " ".join(line.split()[1:4]) for line in shown.splitlines() if line.startswith("  key-")}
    return rows | {"notes": " ".join(shown.split())}


def rows(path: str) -> Mapping[str, str]:
    return {name: row for name, row in replayed(path).items() if name != "notes"}


def test_a_cut_of_a_tier_names_the_entities_that_it_refuses() -> None:
    assert rows(written(gold=20)) == dict.fromkeys(("key-a", "key-b"), "gpt-4 rpm 20/hour")


def test_an_entity_that_gets_another_tier_is_refused_by_that() -> None:
    found = replayed(written(tier="trial"))
    assert {name: row for name, row in found.items() if name != "notes"} == {"key-b": "gpt-4 rpm 10/hour"}
    assert "left out" not in found["notes"]


def test_a_tier_that_is_cut_no_longer_reaches_who_leaves_it() -> None:
    assert rows(written(gold=20, tier="trial")) == {"key-a": "gpt-4 rpm 20/hour", "key-b": "gpt-4 rpm 10/hour"}


def test_a_cut_counts_the_calls_of_all_its_entities() -> None:
    assert "90 calls on 2 buckets" in replayed(written(gold=20))["notes"]


def test_a_change_of_whether_a_child_draws_on_its_parent_is_left_out_and_said() -> None:
    found = replayed(written(cascade="true"))
    assert "1 change of parents left out: usage does not say whose calls a parent's are" in found["notes"]


def test_more_entities_than_queries_are_read_at_once() -> None:
    with SyncRepository.sqlite("limits.db", "a") as repository:
        for number in range(60):
            repository.create_entity(f"idle-{number}", tier="gold")
    assert rows(written(gold=20)) == dict.fromkeys(("key-a", "key-b"), "gpt-4 rpm 20/hour")


HOURLY = {n: ResourceDecl({"rpm": LimitDecl(n, refill_period=3600)}) for n in (5, 6, 80, 100)}
DEFAULT, ON_GPT4 = Address.of_tier("gold", "_default_"), Address.of_tier("gold", "gpt-4")
RECORD_B = Address(None, "key-b")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([Change(DEFAULT, HOURLY[80], HOURLY[5])], {"key-a": 5, "key-b": 5, "key-c": 60, "key-e": 100}),
        ([Change(ON_GPT4, None, HOURLY[6])], {"key-a": 6, "key-b": 6, "key-c": 60, "key-e": 100}),
        ([Change(DEFAULT, HOURLY[80], None)], {"key-a": 100, "key-b": 100, "key-c": 60, "key-e": 100}),
        ([Change(Address("gpt-4"), None, HOURLY[6])], {"key-a": 80, "key-b": 80, "key-c": 60, "key-e": 6}),
        ([Change(RECORD_B, RecordDecl(tier="gold"), RecordDecl(tier="trial"))], {"key-a": 80, "key-b": 10}),
        ([Change(RECORD_B, RecordDecl(tier="gold"), RecordDecl())], {"key-a": 80, "key-b": 100}),
        ([Change(RECORD_B, RecordDecl(tier="gold"), None)], {"key-a": 80, "key-b": 100}),
        ([Change(Address(None, "key-c"), RecordDecl(tier="gold"), RecordDecl(tier="trial"))], {"key-c": 60}),
        (
            [
                Change(Address("gpt-4", "key-c"), HOURLY[80], None),
                Change(Address(None, "key-c"), RecordDecl(tier="gold"), RecordDecl(tier="trial")),
            ],
            {"key-c": 10},
        ),
        (
            [
                Change(Address.of_tier("new", "gpt-4"), None, HOURLY[6]),
                Change(Address(None, "key-e"), None, RecordDecl(tier="new")),
            ],
            {"key-b": 80, "key-e": 6},
        ),
    ],
    ids=["cut", "new level", "gone", "resource", "other tier", "none", "no record", "own", "own goes", "new tier"],
)
def test_the_limits_of_an_entity_are_those_that_the_table_has_after_the_changes(
    changes: list[Change], expected: Mapping[str, int]
) -> None:
    with SyncRepository.sqlite("limits.db", "a") as repository:
        after = LimitsAfter(repository, Plan("a", tuple(changes)))
        found = {each: after.bucket(each, "gpt-4").limits for each in expected}
    assert found == {each: (Limit.per_hour("rpm", n),) for each, n in expected.items()}


def test_a_level_that_extends_and_names_all_of_the_next_one_gets_what_a_plan_adds_there() -> None:
    tpm = LimitDecl(9, refill_period=3600)
    wider = ResourceDecl({"rpm": HOURLY[100].limits["rpm"], "tpm": tpm})
    with SyncRepository.sqlite("limits.db", "a") as repository:
        repository.set_resource_defaults("gpt-4", [Limit.per_hour("rpm", 100)])
        repository.set_limits("key-x", [Limit.per_hour("rpm", 7)], "gpt-4", extends=True)
        repository.set_limits("key-y", [Limit.per_hour("rpm", 7)], "gpt-4")
        after = LimitsAfter(repository, Plan("a", (Change(Address("gpt-4"), HOURLY[100], wider),)))
        found = [after.bucket(each, "gpt-4").limits for each in ("key-x", "key-y")]
    assert found == [(Limit.per_hour("rpm", 7), Limit.per_hour("tpm", 9)), (Limit.per_hour("rpm", 7),)]
