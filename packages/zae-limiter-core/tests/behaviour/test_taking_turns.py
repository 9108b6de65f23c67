"""In the line of a bucket above their own, children take turns by what they take: nobody's patience costs a sibling.

The clock jumps to whoever waits, so seconds of waiting take none.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from support.core.shards import split_into
from support.core.worlds import World, outcomes, until
from zae_limiter import Draw, Limit, RateLimiter, RateLimitExceeded

EVER = 10_000.0
CALLS = 10  # of the sibling of a crowd


class Tree:
    """Entities below ``org``, which has 20 tokens a second; everybody else has plenty."""

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter = limiter
        self.got: Counter[str] = Counter()
        self.crowd: list[asyncio.Future[None]] = []

    async def call(self, entity_id: str, amount: int = 1, max_wait: float = EVER, **options: Any) -> float:
        """The seconds that a call has waited."""
        async with self.limiter.acquire(entity_id, "r", {"t": amount}, max_wait=max_wait, **options) as lease:
            self.got[entity_id] += amount
            return lease.waited

    def wait(self, entity_id: str, callers: int, amount: int = 1, **options: Any) -> None:
        """Have so many callers wait again and again."""

        async def caller() -> None:
            while True:
                await self.call(entity_id, amount, **options)

        self.crowd += [asyncio.ensure_future(caller()) for _ in range(callers)]

    async def end(self) -> None:
        await self.limiter.close()
        await outcomes(*self.crowd)


async def tree(world: World, *paths: str, org: Limit | None = None, **limits: Limit) -> Tree:
    """A tree of these paths, such as ``org/project/key``; the bucket of ``org`` is empty."""
    [limiter, _] = await world.process()
    known = set[str]()
    for path in paths:
        above: str | None = None
        for entity_id in path.split("/"):
            if entity_id not in known:
                known.add(entity_id)
                await limiter.create_entity(entity_id, parent_id=above, cascade=above is not None)
            above = entity_id
    limit = org or Limit.per_second("t", 20)
    await limiter.set_resource_defaults("r", [Limit.per_second("t", 10_000)])
    for entity_id, each in {"org": limit, **limits}.items():
        await limiter.set_limits(entity_id, [each], "r")
    if not limit._has_slots:
        async with limiter.acquire("org", "r", {"t": limit.usable_burst}):
            pass
    return Tree(limiter)


def jain(got: Mapping[str, int]) -> float:
    return sum(got.values()) ** 2 / (len(got) * sum(each**2 for each in got.values()))


async def waited_beside(it: Tree, entity_id: str, calls: int = CALLS, **options: Any) -> list[float]:
    """How long each of some calls of an entity waits, while others wait, too."""
    await asyncio.sleep(0.05)
    waited = [await it.call(entity_id, **options) for _ in range(calls)]
    await it.end()
    return waited


async def test_the_patience_of_one_child_takes_nothing_from_its_sibling(world: World) -> None:
    """Whoever is refused if it waits would have been served without: the sibling has its half."""
    it = await tree(world, "org/a", "org/b")
    it.wait("a", 20)
    longest = 0.5 if world.variant == "async" else 5  # the clock jumps on while a thread is slow to come
    assert max(await waited_beside(it, "b", max_wait=longest)) < longest
    assert it.got["a"] >= CALLS // 2, "nor does it get more than its half for long"


async def test_children_that_all_want_more_get_the_same_whatever_their_crowds(world: World) -> None:
    it = await tree(world, *(f"org/{child}" for child in "abcd"))
    for child, callers in {"a": 12, "b": 5, "c": 3, "d": 3}.items():
        it.wait(child, callers)
    await until(lambda: it.got.total() >= 100)
    got = {child: it.got[child] for child in "abcd"}
    await it.end()
    assert jain(got) >= (0.98 if world.variant == "async" else 0.9)  # a slow thread is not in line


async def test_children_get_the_same_by_tokens_not_by_calls(async_world: World) -> None:
    it = await tree(async_world, *(f"org/{child}" for child in "abc"))
    for child, amount in {"a": 1, "b": 2, "c": 4}.items():
        it.wait(child, 6, amount)
    await until(lambda: it.got.total() >= 200)
    got = {child: it.got[child] for child in "abc"}
    await it.end()
    assert jain(got) >= 0.98


LEVELS = [
    pytest.param(("org/p/a", "org/p/b"), id="siblings below a project"),
    pytest.param(("org/p/a", "org/q/b"), id="keys of two projects"),
    pytest.param(("org/d/p/a", "org/d/p/b"), id="four levels"),
    pytest.param(("org/d/p/a", "org/d/q/b"), id="four levels, two projects"),
    pytest.param(("org/p/a", "org/b"), id="a key of a project, and one of the organisation"),
    pytest.param(("org/b/a", "org/b"), id="a project, and its key"),
]


@pytest.mark.parametrize("paths", LEVELS)
async def test_turns_go_round_at_each_level(async_world: World, paths: tuple[str, ...]) -> None:
    it = await tree(async_world, *paths)
    it.wait("a", 20)
    assert max(await waited_beside(it, "b", max_wait=0.5)) <= 0.3


async def test_a_project_of_many_keys_gets_as_much_as_one_of_one(async_world: World) -> None:
    it = await tree(async_world, "org/p/a", "org/p/b", "org/p/c", "org/q/d")
    for key in "abcd":
        it.wait(key, 6)
    await until(lambda: it.got.total() >= 120)
    got = dict(it.got)
    await it.end()
    assert abs(got["d"] - got["a"] - got["b"] - got["c"]) <= 12
    assert jain({key: got[key] for key in "abc"}) >= 0.98


async def test_two_levels_that_are_short_hold_nobody_up_for_ever(async_world: World) -> None:
    """Keys of one project share two lines, whose buckets have room for one token each."""
    one = Limit.custom("t", 1, refill_amount=20, refill_period=1)
    it = await tree(async_world, "org/p/a", "org/p/b", "org/p/c", "org/q/d", org=one, p=one)
    for key in "abcd":
        it.wait(key, 5)
    begun = async_world.clock.now_ms()
    await until(lambda: it.got.total() >= 100)
    due = (async_world.clock.now_ms() - begun) / 50
    got = dict(it.got)
    await it.end()
    assert sum(got.values()) >= due / 2
    assert abs(got["d"] - got["a"] - got["b"] - got["c"]) <= 20
    assert jain({key: got[key] for key in "abc"}) >= 0.95


async def test_those_who_draw_on_a_common_bucket_take_turns_there(async_world: World) -> None:
    it = await tree(async_world, "org", "a", "b")
    it.wait("a", 20, draws=[Draw("org")])
    assert max(await waited_beside(it, "b", max_wait=0.5, draws=[Draw("org")])) <= 0.3


async def test_an_organisation_that_calls_itself_takes_turns_with_its_keys(async_world: World) -> None:
    it = await tree(async_world, "org/a")
    it.wait("a", 20)
    assert max(await waited_beside(it, "org", max_wait=0.5)) <= 0.3


async def test_a_bucket_of_many_shards_is_shared_as_well(async_world: World) -> None:
    it = await tree(async_world, "org/a", "org/b", org=Limit.per_second("t", 64))
    split_into(async_world, it.limiter, 4, "org")
    it.wait("a", 20)
    assert max(await waited_beside(it, "b", max_wait=2)) <= 1


async def test_prefetched_tokens_keep_the_turns(async_world: World) -> None:
    it = await tree(async_world, "org/a", "org/b", org=Limit.per_second("t", 20, prefetch=0.25))
    it.wait("a", 20)
    assert max(await waited_beside(it, "b", max_wait=0.5)) <= 0.4


async def test_slots_go_round_by_child(async_world: World) -> None:
    it = await tree(async_world, "org/a", "org/b", org=Limit.concurrent("t", 2))
    served: list[str] = []

    async def caller(child: str) -> None:
        async with it.limiter.acquire(child, "r", {"t": 1}, max_wait=EVER):
            served.append(child)
            await async_world.clock.sleep_async(1)

    await in_turn(*(lambda: caller("a") for _ in range(12)), *(lambda: caller("b") for _ in range(4)))
    assert served[:2] == ["a", "a"]
    assert Counter(served[2:10]) == {"a": 4, "b": 4}


async def in_turn(*calls: Callable[[], Awaitable[Any]]) -> list[Any]:
    """The answers of calls that begin one after the other."""
    tasks = []
    for each in calls:
        tasks.append(asyncio.ensure_future(each()))
        for _ in range(5):
            await asyncio.sleep(0)
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_large_call_waits_for_its_share_and_no_longer(async_world: World) -> None:
    """Neither the crowd of a sibling nor ever new siblings of small calls keep it from its tokens."""
    it = await tree(async_world, "org/a", *(f"org/s{number}" for number in range(40)), "org/large")
    it.wait("a", 10)
    small = [asyncio.ensure_future(_small(it, number)) for number in range(40)]
    waited = await waited_beside(it, "large", 1, amount=20)
    await outcomes(*small)
    assert waited[0] <= 5


async def _small(it: Tree, number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)
    await it.call(f"s{number}")


async def test_a_small_call_does_not_pass_the_large_one_whose_turn_it_is(async_world: World) -> None:
    it = await tree(async_world, "org/a", "org/b")
    served: list[int] = []

    async def call(child: str, amount: int) -> None:
        await it.call(child, amount)
        served.append(amount)

    await in_turn(lambda: call("a", 10), lambda: call("b", 11))
    assert served == [10, 11]


async def test_a_child_saves_up_nothing_while_it_does_not_wait(async_world: World) -> None:
    it = await tree(async_world, "org/a", "org/b")
    it.wait("a", 10)
    await until(lambda: it.got["a"] >= 40)
    it.wait("b", 10)
    before = Counter(it.got)
    await until(lambda: (it.got - before).total() >= 40)
    got = it.got - before
    await it.end()
    assert abs(got["a"] - got["b"]) <= 6


async def test_who_is_cancelled_is_charged_nothing(async_world: World) -> None:
    """Also the one whose turn it is. A child of which many have gone has its turn as before."""
    it = await tree(async_world, "org/a", "org/b")
    it.wait("a", 10)
    gone = [asyncio.ensure_future(it.call("b")) for _ in range(10)]
    await asyncio.sleep(0.02)
    for each in gone:
        each.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    assert max(await waited_beside(it, "b", max_wait=0.5)) <= 0.3


async def test_who_gives_up_in_the_line_is_charged_nothing(async_world: World) -> None:
    it = await tree(async_world, "org/a", "org/b")
    it.wait("a", 10)
    crowd = await asyncio.gather(*(it.call("b", max_wait=0.6) for _ in range(10)), return_exceptions=True)
    assert any(isinstance(each, RateLimitExceeded) for each in crowd)
    assert max(await waited_beside(it, "b", max_wait=0.5)) <= 0.3


async def test_a_change_of_limits_leaves_the_turns(async_world: World) -> None:
    it = await tree(async_world, "org/a", "org/b")
    it.wait("a", 10)
    await it.call("b")
    await it.limiter.set_limits("org", [Limit.per_second("t", 2)], "r")
    await it.limiter.set_limits("org", [Limit.per_second("t", 40)], "r")
    assert max(await waited_beside(it, "b", max_wait=2)) <= 1.5


async def test_a_refusal_tells_each_child_the_wait_of_its_own_turn(async_world: World) -> None:
    it = await tree(async_world, "org/a", "org/b")
    it.wait("a", 20)
    await asyncio.sleep(0.05)
    told = await asyncio.gather(*(it.call(child, max_wait=0.001) for child in "ab"), return_exceptions=True)
    await it.end()
    longest = [each.retry_after_seconds for each in told if isinstance(each, RateLimitExceeded)]
    assert longest[0] == pytest.approx(1, abs=0.2)
    assert all(each <= 0.1 for each in longest[1:])


@pytest.mark.long
async def test_processes_that_all_wait_get_the_same_within_seconds(async_world: World) -> None:
    """Each is fair among its own; between them chance decides, anew at each moment."""
    it = await tree(async_world, *(f"org/{child}" for child in "abcd"))
    others = [Tree((await async_world.process()).limiter) for _ in range(3)]
    for child, each in zip("abcd", (it, *others), strict=True):
        each.wait(child, 4)
    trees = (it, *others)
    await until(lambda: sum(each.got.total() for each in trees) >= 240)
    got = {child: sum(each.got[child] for each in trees) for child in "abcd"}
    for each in trees:
        await each.end()
    assert jain(got) >= 0.9
