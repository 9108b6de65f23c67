"""Two processes whose databases of time zones disagree about when a month begins: its quota comes once."""

import random
from collections.abc import Callable
from itertools import count

import pytest

from support.core.shards import played, shard_items, split
from support.core.worlds import Process, World, drain
from zae_limiter import Limit
from zae_limiter.flows.bucket.anchors import reanchor
from zae_limiter.rules.calendar import Calendar
from zae_limiter.rules.periods import Periods
from zae_limiter.rules.registry import RULES
from zae_limiter.rules.rule import Rule

BEGIN_MS = 1_800_000_000_000  # of the second month, by the older database
GAP_MS = 3_600_000  # by the newer one it begins so much earlier
LIMIT = Limit.per_month("usd", 10, timezone="Europe/Berlin")


class Moved(Periods):
    """A database that has every month of thirty days begin at these instants."""

    longest_ms = 30 * 86_400_000
    shift_ms = GAP_MS

    def __init__(self, earlier_ms: int) -> None:
        self._begin_ms = BEGIN_MS - earlier_ms

    def begun(self, t_ms: int) -> int:
        return (t_ms - self._begin_ms) // self.longest_ms + 100

    def start(self, number: int) -> int:
        return self._begin_ms + (number - 100) * self.longest_ms


Become = Callable[[str], None]


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Become:
    """Return what makes everything that follows go by the ``older`` database, or by the ``newer`` one."""
    rules: dict[str, Rule] = {"older": Calendar(10, Moved(0)), "newer": Calendar(10, Moved(GAP_MS))}
    return lambda version: monkeypatch.setitem(RULES, "calendar", lambda _: rules[version])


@pytest.mark.long(keep=3)
@pytest.mark.parametrize("seed", range(12))
async def test_a_month_comes_once_whoever_moves_the_anchor_between_its_two_begins(
    world: World, become: Become, seed: int
) -> None:
    dice, admitted, processes = random.Random(seed), 0, {}
    for version in ("older", "newer"):
        become(version)
        processes[version] = await world.process(default_limits=[LIMIT])
    world.clock.advance(ms=BEGIN_MS - 86_400_000 - world.clock.now_ms())
    become("older")
    admitted += await drain(processes["older"].limiter, "e", "r", "usd")
    assert admitted == 10
    world.clock.advance(ms=BEGIN_MS - GAP_MS - 1000 - world.clock.now_ms())
    for _ in count():
        version = dice.choice(("older", "newer"))
        become(version)
        await _does(world, processes[version], dice)
        admitted += await drain(processes[version].limiter, "e", "r", "usd", step=dice.randint(1, 4))
        if world.clock.now_ms() > BEGIN_MS + 1000:
            break
        world.clock.advance(dice.randint(60, 1200))
    for version, process in processes.items():
        become(version)
        admitted += await drain(process.limiter, "e", "r", "usd")
    assert admitted == 20


async def _does(world: World, process: Process, dice: random.Random) -> None:
    """Move the anchor of a bucket, as the aggregator, a split or a change of the limits does."""
    what = dice.choice(("nothing", "anchor", "split", "tell"))
    if what == "anchor":
        for item in shard_items(world, process.limiter).values():
            played(world.table, reanchor(item, world.clock.now_ms()))
    elif what == "split" and len(shard_items(world, process.limiter)) < 4:
        split(world, process.limiter, "e", "r")
    elif what == "tell":
        await process.repository.set_limits("e", [LIMIT], "r")


async def test_the_mark_of_the_anchor_is_stored_for_zones_alone_and_goes_with_the_window(world: World) -> None:
    process = await world.process()
    marks = []
    for limit in (LIMIT, Limit.per_month("usd", 10), LIMIT, Limit.per_hour("usd", 10)):
        async with process.limiter.acquire("e", "r", {"usd": 1}, [limit]):
            [item] = shard_items(world, process.limiter).values()
            marks.append("b_usd_mt" in item)
    assert marks == [True, False, True, False]
