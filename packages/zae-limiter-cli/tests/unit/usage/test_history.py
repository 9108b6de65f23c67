"""Use beside limits, teams, and how a budget went: from a store whose clock a test moves."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.testing import ManualClock
from zae_limiter_cli.audit.changes import changes
from zae_limiter_cli.usage.budgets import read_budgets
from zae_limiter_cli.usage.burn_down import BurnDown, read_burn_down
from zae_limiter_cli.usage.history import History, history_of
from zae_limiter_cli.usage.teams import teams_of

HOUR, HOURS = timedelta(hours=1), 24
BEGIN = datetime(2026, 11, 10, tzinfo=UTC)


class World:
    """A namespace whose entity ``key`` calls on ``gpt-4``."""

    def __init__(self, repository: SyncRepository, clock: ManualClock) -> None:
        self.repository, self.clock = repository, clock
        self.limiter = SyncRateLimiter(repository)

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)

    @property
    def at(self) -> list[datetime]:
        this = self.now.replace(minute=0, second=0, microsecond=0)
        return [this - number * HOUR for number in reversed(range(HOURS))]

    def set(self, *limits: str, entity: str = "key") -> None:
        self.repository.set_limits(entity, [Limit.parse(each) for each in limits], "gpt-4", principal="ann")

    def call(self, entity: str = "key", **tokens: int) -> bool:
        try:
            with self.limiter.acquire(entity, "gpt-4", tokens):
                return True
        except RateLimitExceeded:
            return False

    def history(self) -> History:
        events = self.repository.get_audit_events("key", limit=50).events
        snapshots = self.repository.get_usage_snapshots(entity_id="key", resource="gpt-4", start=self.at[0], limit=1000)
        own = self.limiter.explain("key", "gpt-4").buckets[0]
        told = [(event, list(changes(event))) for event in events]
        return history_of(own, snapshots.snapshots, told, self.at, HOUR, self.now)

    def burn_down(self) -> BurnDown:
        bucket = self.repository.get_bucket("key", "gpt-4")
        assert bucket is not None
        [budget], _ = read_budgets(self.repository, [bucket], 0, 10)
        return read_burn_down(self.repository, budget, self.now)


@pytest.fixture
def world() -> Iterator[World]:
    clock = ManualClock(round(BEGIN.timestamp() * 1000))
    with SyncRepository.in_memory(clock=clock) as repository:
        yield World(repository, clock)


def test_the_limit_of_a_rate_is_what_comes_back_in_an_hour_as_it_was_then(world: World) -> None:
    world.set("rpm: 10/min")
    world.call(rpm=7)
    world.clock.advance(3 * 3600)
    world.set("rpm: 20/min")
    world.clock.advance(3600)
    world.call(rpm=9)
    [use] = world.history().limits
    assert use.given[-5:] == (600, 600, 600, 1200, 1200)
    assert use.used[-5:] == (7, 0, 0, 0, 9)
    assert use.given[-7] is None  # before it was set, no limit of its own held
    assert [mark.text for mark in world.history().marks][-1] == "limits set by ann: rpm 10/min -> 20/min"


def test_a_schedule_moves_the_line_and_is_a_mark(world: World) -> None:
    world.set("rpm: 10/min")
    world.repository.set_limits(
        "key", [Limit.custom("rpm", 10, schedule=["night: mon-sun 02:30-04:00 1/min"])], "gpt-4"
    )
    world.call(rpm=1)
    world.clock.advance(5 * 3600)
    history = world.history()
    assert history.limits[0].given[-6:] == (600, 600, 330, 60, 600, 600)
    turns = [(mark.at.hour, mark.at.minute) for mark in history.marks if mark.text.startswith("rpm: ")]
    assert turns == [(2, 30), (4, 0)]


def test_bars_of_a_quota_add_up_from_the_begin_of_its_window(world: World) -> None:
    world.set("usd: $5/calendar day")
    world.clock.advance(20 * 3600)
    for _ in range(8):
        world.call(usd=500_000)
        world.clock.advance(3600)
    [use] = world.history().limits
    assert use.adds_up
    assert use.used[-5:] == (500_000, 1_000_000, 1_500_000, 2_000_000, 2_000_000)
    assert set(use.used[:-5]) == {None}  # that window began before all that is shown
    assert use.given[-1] == 5_000_000


def test_refusals_are_those_of_each_limit_that_refused(world: World) -> None:
    world.repository.create_entity("acme")
    world.repository.create_entity("key", parent_id="acme", cascade=True)
    world.set("rpm: 10/min")
    world.set("rpm: 3/min", entity="acme")
    assert [world.call(rpm=3), world.call(rpm=3), world.call(rpm=11)] == [True, False, False]
    world.clock.advance(60)
    world.call(rpm=1)
    refused = {name: sum(numbers) for name, numbers in world.history().refused.items()}
    assert refused == {"acme/rpm": 2, "key/rpm": 1}  # the last call is above both


def test_a_budget_burns_down_from_all_of_it_to_what_is_left_and_on(world: World) -> None:
    world.set("usd: $10/month")
    world.clock.advance(14 * 24 * 3600)
    for _ in range(2):
        world.call(usd=2_000_000)
        world.clock.advance(24 * 3600)
    burn = world.burn_down()
    assert burn.begins == datetime(2026, 11, 1, tzinfo=UTC)
    assert [left for _, left in burn.left] == [10_000_000, 10_000_000, 8_000_000, 6_000_000]
    assert burn.left[0][0] == burn.begins
    assert burn.left[-1][0] == burn.at
    assert burn.budget.gone_at == burn.at + timedelta(days=3)
    assert burn.is_short


def test_a_budget_whose_earlier_use_is_not_kept_begins_where_it_is_known(world: World) -> None:
    world.set("usd: $10/month")
    for _ in range(8):
        world.call(usd=1_000_000)
        world.clock.advance(24 * 3600)
    burn = world.burn_down()  # a store in memory keeps two days
    assert burn.left[-1][1] == 2_000_000
    assert burn.left[0][1] < 10_000_000
    assert burn.left[0][0] > BEGIN


def test_teams_stand_before_others_and_above_those_below_them(world: World) -> None:
    world.repository.create_entity("acme")
    for name in ("key", "quiet"):
        world.repository.create_entity(name, parent_id="acme", cascade=True)
    for name in ("acme", "key", "quiet", "alone"):
        world.set("rpm: 9/min", entity=name)
    for name, calls in (("key", 2), ("quiet", 1), ("alone", 4)):
        for _ in range(calls):
            world.call(name, rpm=1)
    snapshots = world.repository.get_usage_snapshots(start=world.at[0], limit=1000).snapshots
    parents = {"key": ["acme"], "quiet": ["acme"]}

    def shown(most: int, most_below: int) -> list[tuple[str, int, int]]:
        found = teams_of(snapshots, parents, world.at, most, most_below)
        return [(each.entity_id, each.depth, each.calls[-1].asked) for each in found]

    assert shown(9, 9) == [("acme", 0, 3), ("key", 1, 2), ("quiet", 1, 1), ("alone", 0, 4)]
    assert shown(9, 1) == [("acme", 0, 3), ("key", 1, 2), ("alone", 0, 4)]
    assert len(shown(2, 9)) == 2
    assert teams_of(snapshots, {**parents, "acme": ["key"]}, world.at, 9, 9)[0].entity_id == "alone"  # a circle
