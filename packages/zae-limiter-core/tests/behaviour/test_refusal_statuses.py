"""Whatever refuses a call, its refusal has all limits that the call draws on, and exactly the short ones exceeded."""

import asyncio
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from simulation.bucket_items import LimitState, limit_state_of
from support.core.desk import Desk
from support.core.shards import shard_items, split_into
from support.core.worlds import World, passes, take
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.flows.acquire.fallbacks import acquire_with_fallbacks
from zae_limiter.flows.acquire.lease import consume
from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.flows.bucket.serving import cached_shard
from zae_limiter.flows.process.waiting_line import Turn
from zae_limiter.http import headers, problem
from zae_limiter.operations.values import Item, Put
from zae_limiter.rules.registry import price
from zae_limiter.schema.attributes import bucket_attributes

OWN, PARENT = "key", "project"
NAMES: Final = ("cpm", "dpm", "rpm", "tpm")
LIMITS: Final = {OWN: {"cpm": 5, "rpm": 10, "tpm": 600}, PARENT: {"dpm": 7, "rpm": 20, "tpm": 900}}
WAYS: Final = ("copies", "write", "expired", "unknown", "batch", "more", "line", "end")
MINUTE: Final = 60_000


@dataclass(frozen=True)
class Scene:
    """What the buckets hold, and what a call asks for.

    ``left``: whole tokens by entity and limit, negative in debt. ``before``: what others ask for first, by entity.
    """

    parent: bool
    shadow: bool
    shards: Mapping[str, int]
    left: Mapping[str, Mapping[str, int]]
    before: Sequence[tuple[str, Mapping[str, int]]]
    amounts: Mapping[str, int]
    max_wait: float

    @property
    def entities(self) -> tuple[str, ...]:
        return (OWN, PARENT) if self.parent else (OWN,)

    def limits(self, entity: str) -> list[Limit]:
        shadow = {"tpm"} if self.shadow and entity == OWN else set()
        return [Limit.per_minute(name, most, shadow=name in shadow) for name, most in LIMITS[entity].items()]


@st.composite
def scenes(draw: st.DrawFn, way: str) -> Scene:
    parent = draw(st.booleans())
    known = NAMES if parent else tuple(LIMITS[OWN])
    waits, sees_all = way in {"line", "end"}, way in {"copies", "batch", "more"}
    least, most = int(waits), 12 if sees_all else 4  # what can never pass is refused by an old copy
    some = st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True)

    def amounts() -> dict[str, int]:
        return {name: draw(st.integers(least, most)) for name in draw(some)}

    askers = (OWN, "sibling") if parent else (OWN,)
    return Scene(
        parent=parent,
        shadow=draw(st.booleans()),
        shards={entity: draw(st.sampled_from([1] if way == "unknown" else [1, 1, 2, 4])) for entity in LIMITS},
        left={
            entity: {name: draw(st.integers(-2, min(most, 8))) for name, most in LIMITS[entity].items()}
            for entity in LIMITS
        },
        before=[(draw(st.sampled_from(askers)), amounts()) for _ in range(draw(st.integers(0, 4)))],
        amounts=amounts(),
        max_wait=0.0 if not waits else draw(st.sampled_from([0.001, 1.0, 5.0] if way == "line" else [2.0, 20.0])),
    )


class Stage:
    """A scene with its table, and the process that is asked."""

    def __init__(self, scene: Scene, way: str) -> None:
        self.scene, self.way = scene, way
        self.world = World("async")
        self.limiter = asyncio.run(self._open())
        self.desk = Desk(self.limiter.repository.namespace_state, self.world.table, self.world.clock)

    async def _open(self) -> RateLimiter:
        """Make the entities and their buckets; the process has seen them, unless it is to know nothing."""
        scene = self.scene
        limiter = (await self.world.process()).limiter
        if scene.parent:
            await limiter.create_entity(PARENT)
        for entity in (OWN, "sibling") if scene.parent else (OWN,):
            await limiter.create_entity(entity, parent_id=PARENT if scene.parent else None, cascade=scene.parent)
            await limiter.repository.set_limits(entity, scene.limits(OWN))
        if scene.parent:
            await limiter.repository.set_limits(PARENT, scene.limits(PARENT))
        everything = dict.fromkeys(NAMES if scene.parent else LIMITS[OWN], 1)
        await take(limiter, OWN, "r", **everything)
        for entity in scene.entities:
            split_into(self.world, limiter, scene.shards[entity], entity)
        self.world.clock.advance(ms=2 * MINUTE if self.way == "expired" else 5_000)
        if self.way == "unknown":
            limiter = (await self.world.process()).limiter
        elif self.way not in {"write", "expired"}:
            await take(limiter, OWN, "r", **everything)
        return limiter

    def drain(self) -> None:
        """Have the buckets hold what the scene says; the process knows unless its copies are to be old."""
        now = self.world.clock.now_ms()
        for entity in self.scene.entities:
            for shard, item in shard_items(self.world, self.limiter, entity).items():
                drained = self._drained(entity, item, now)
                self.world.table.execute(Put(drained))
                if self.way not in {"write", "expired", "unknown"}:
                    cached = cached_shard(self.desk.namespace_state, entity, "r", shard=shard)
                    cached.learn(drained, now, own_writes=0)

    def _drained(self, entity: str, item: Item, now: int) -> Item:
        changed = dict(item)
        for name, tokens in self.scene.left[entity].items():
            state = limit_state_of(item, name)
            wanted = (1000 * tokens + state.shard) // state.shards
            changed[bucket_attributes(name).tokens] += min(wanted, state.ceiling) - state.balance(now)
        return changed

    def request(self, entity: str, amounts: Mapping[str, int], max_wait: float = 0.0) -> AcquireRequest:
        known = {name for each in self.scene.entities for name in LIMITS[each]}
        milli = {name: 1000 * amount for name, amount in amounts.items() if name in known}
        return AcquireRequest(entity, "r", milli, max_wait=max_wait)

    def call(self) -> Any:
        """The answer to the call."""
        scene, state = self.scene, self.desk.namespace_state
        request = self.request(OWN, scene.amounts, scene.max_wait)
        if self.way == "more":
            grant = self.desk.answer(acquire_with_fallbacks(state, self.request(OWN, dict.fromkeys(LIMITS[OWN], 1))))
            self.drain()
            return self.desk.answer(consume(state, grant, request.amounts))
        self.drain()
        if self.way in {"line", "end"}:
            for entity, amounts in scene.before:
                self.desk.falls_asleep(acquire_with_fallbacks(state, self.request(entity, amounts, 1e6)))
        if self.way == "batch":
            others = [acquire_with_fallbacks(state, self.request(entity, amounts)) for entity, amounts in scene.before]
            return self.desk.answer_behind(others, acquire_with_fallbacks(state, request))
        return self.desk.answer(acquire_with_fallbacks(state, request))

    def in_line(self, entity: str) -> Mapping[str, int]:
        """What those in the line of a bucket ask for whose turn is before that of the call, in millitokens."""
        now, line = self.world.clock.now_ms(), cached_shard(self.desk.namespace_state, entity, "r").line
        enforced = {limit.name: limit for limit in self.scene.limits(entity) if not limit.shadow}
        amounts = {name: 1000 * n for name, n in self.scene.amounts.items() if name in enforced}
        if not line or not amounts:
            return {}
        turn, prices = Turn(10**9, now), {name: price(enforced[name]) for name in amounts}
        line.join(turn, amounts, ("",) if entity == OWN else (OWN, ""), prices)
        up_to = line.up_to(turn, now)
        line.leave(turn)
        return {name: milli - amounts.get(name, 0) for name, milli in up_to.items()}


class Model:
    """What each limit has for the call, by arithmetic of its own."""

    def __init__(self, stage: Stage) -> None:
        self.scene, self.now = stage.scene, stage.world.clock.now_ms()
        self.items = {entity: shard_items(stage.world, stage.limiter, entity) for entity in stage.scene.entities}
        self.before = {entity: stage.in_line(entity) for entity in stage.scene.entities}

    def drawn(self) -> list[tuple[str, str]]:
        return [(e, name) for e in self.scene.entities for name in sorted(self.scene.amounts) if name in LIMITS[e]]

    def is_there(self, place: tuple[str, str], at_ms: int) -> bool:
        """Whether the amount is there at an instant, behind those before it."""
        entity, name = place
        amount, before = 1000 * self.scene.amounts[name], self.before[entity].get(name, 0)
        states = [limit_state_of(item, name) for item in self.items[entity].values()]
        if before:
            minted = sum(state.balance(at_ms) - state.balance(self.now) for state in states)
            return self._held(states, self.now) + minted >= amount + before
        held = [min(state.ceiling, state.balance(at_ms)) for state in states]
        return sum(max(0, each) for each in held) >= amount if amount else any(each >= 0 for each in held)

    def _held(self, states: Sequence[LimitState], at_ms: int) -> int:
        return sum(min(state.ceiling, state.balance(at_ms)) for state in states)

    def wait_ms(self, place: tuple[str, str]) -> float:
        """The milliseconds until the amount is there."""
        if 1000 * self.scene.amounts[place[1]] > 1000 * LIMITS[place[0]][place[1]]:
            return inf
        late, soon = 2 * 60 * MINUTE, -1
        while late - soon > 1:
            middle = (late + soon) // 2
            late, soon = (middle, soon) if self.is_there(place, self.now + middle) else (late, middle)
        return late


@pytest.mark.long(keep=2)
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_refusal_has_every_limit_that_the_call_draws_on_and_exactly_the_short_ones_exceeded(way: str) -> None:
    refused = Counter[str]()

    @settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
    @given(scenes(way))
    def check(scene: Scene) -> None:
        stage = Stage(scene, way)
        answer = stage.call()
        event("refused" if isinstance(answer, RateLimitExceeded) else "admitted")
        if isinstance(answer, RateLimitExceeded):
            refused[way] += 1
            check_refusal(scene, answer, Model(stage))

    check()
    assert refused[way] > 10, "the scenes are to refuse"


def check_refusal(scene: Scene, refusal: RateLimitExceeded, model: Model) -> None:
    drawn = model.drawn()
    assert sorted((each.entity_id, each.limit_name) for each in refusal.statuses) == sorted(drawn)
    assert [each.entity_id for each in refusal.statuses] == [entity for entity, _ in drawn], (
        "the one who asked is first"
    )
    enforced = {(each.entity_id, each.limit_name): each for each in refusal.statuses if not each.limit.shadow}
    short = {place for place in enforced if model.wait_ms(place)}
    exceeded = {(each.entity_id, each.limit_name) for each in refusal.violations}
    if short:
        assert exceeded == short
        for place in short:  # a caller that waits rounds up to a millitoken
            told, rounding = enforced[place].retry_after_seconds, 0.012 if scene.max_wait else 0
            assert told == pytest.approx(model.wait_ms(place) / 1000, abs=rounding)
            assert enforced[place].available < enforced[place].requested or not enforced[place].requested
    else:  # its time was over behind others, whose tokens are there
        assert len(exceeded) == 1
        assert scene.max_wait
    assert refusal.retry_after_seconds == max(each.retry_after_seconds for each in refusal.violations)
    assert all(not each.retry_after_seconds for place, each in enforced.items() if place not in exceeded)
    check_answer(refusal, [place for place in drawn if place in enforced], exceeded)


def check_answer(refusal: RateLimitExceeded, shown: Sequence[tuple[str, str]], exceeded: set[tuple[str, str]]) -> None:
    """The header fields and the document name the parent's limits as the parent's, if they show them."""
    names = {place: place[1] if place[0] == OWN else f"parent/{place[1]}" for place in shown}
    fields = headers(refusal, show="all")
    told = [part.split(";")[0] for part in fields["RateLimit-Policy"].split(", ")]
    assert sorted(told) == sorted(f'"{names[place]}"' for place in shown)
    short = sorted(names[place] for place in exceeded)
    assert sorted(part.split(";")[0].strip('"') for part in fields["RateLimit"].split(", ")) == short
    assert sorted(problem(refusal, show="all")["violated-policies"]) == short
    worst = refusal.primary_violation
    own = {name for entity, name in exceeded if entity == OWN}
    assert {*problem(refusal)["violated-policies"]} == own | {worst.limit_name}
    policies = headers(refusal).get("RateLimit-Policy", "")
    assert policies.count(";q=") == sum(entity == OWN for entity, _ in shown)


async def refused(limiter: RateLimiter, amounts: dict[str, int]) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        await limiter.acquire(OWN, "r", amounts).__aenter__()
    return caught.value


def asking(*, max_wait: float) -> AcquireRequest:
    return AcquireRequest(OWN, "r", {"rpm": 1_000, "tpm": 11_000}, max_wait=max_wait)


def somebody_waits(world: World, limiter: RateLimiter) -> Desk:
    """A desk at which one caller is in line."""
    desk = Desk(limiter.repository.namespace_state, world.table, world.clock)
    assert desk.falls_asleep(acquire_with_fallbacks(desk.namespace_state, asking(max_wait=60)))
    return desk


async def family(world: World, *of_parent: Limit) -> RateLimiter:
    """A key of 100 requests and 200,000 tokens a minute, and a project with these limits."""
    limiter, _ = await world.process()
    await limiter.create_entity(PARENT)
    await limiter.create_entity(OWN, parent_id=PARENT, cascade=True)
    await limiter.repository.set_limits(OWN, [Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 200_000)])
    await limiter.repository.set_limits(PARENT, [*of_parent])
    return limiter


async def test_who_is_refused_in_a_line_is_told_of_the_limit_that_is_short_and_of_no_other(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_limits(OWN, [Limit.per_minute("rpm", 10), Limit.per_minute("tpm", 200_000)])
    await take(limiter, OWN, "r", rpm=10, tpm=11)
    desk = somebody_waits(world, limiter)
    refusal = desk.answer(acquire_with_fallbacks(desk.namespace_state, asking(max_wait=1)))
    assert [status.limit_name for status in refusal.violations] == ["rpm"]
    assert refusal.retry_after_seconds == pytest.approx(12, abs=0.01), "with the one before it"
    assert "tpm" not in problem(refusal)["detail"]


async def test_who_is_refused_in_the_line_of_its_parent_sees_its_own_limits_as_its_own(world: World) -> None:
    limiter = await family(world, Limit.per_minute("rpm", 20))
    await take(limiter, OWN, "r", rpm=20, tpm=11)
    desk = somebody_waits(world, limiter)
    refusal = desk.answer(acquire_with_fallbacks(desk.namespace_state, asking(max_wait=1)))
    policy = '"rpm";q=100;w=60, "tpm";q=200000;w=60, "parent/rpm";q=20;w=60'
    assert headers(refusal, show="all")["RateLimit-Policy"] == policy
    assert headers(refusal, show="all")["RateLimit"] == '"parent/rpm";r=0;t=6'
    assert headers(refusal)["RateLimit-Policy"] == '"rpm";q=100;w=60, "tpm";q=200000;w=60'
    assert headers(refusal)["RateLimit"] == '"rpm";r=0;t=6'


async def test_a_limit_that_the_parent_alone_has_is_told_as_the_parents(world: World) -> None:
    limiter = await family(world, Limit.per_minute("dpm", 20))
    async with limiter.acquire(OWN, "r", {"dpm": 20}) as lease:
        assert headers(lease, show="all")["RateLimit-Policy"] == '"parent/dpm";q=20;w=60'
        assert headers(lease) == {}
        with pytest.raises(RateLimitExceeded) as caught:
            await lease.consume(dpm=1)
    for refusal in (caught.value, await refused(limiter, {"dpm": 1})):
        assert (refusal.entity_id, refusal.refused_by, refusal.path) == (OWN, PARENT, (OWN, PARENT))
        assert str(refusal).startswith(f"{OWN} > {PARENT}/r: 1 dpm requested")
        assert headers(refusal, show="all")["RateLimit"].startswith('"parent/dpm";r=0')
        assert headers(refusal)["RateLimit"].startswith('"dpm";r=0;t=')
        assert pickle.loads(pickle.dumps(refusal)).entity_id == OWN


async def test_one_shard_that_is_short_is_no_reason_where_the_parent_refuses(world: World) -> None:
    limiter = await family(world, Limit.per_minute("rpm", 20))
    await take(limiter, OWN, "r", rpm=20, tpm=1)
    split_into(world, limiter, 2, OWN)
    world.clock.advance(seconds=2)
    refusal = await refused(limiter, {"rpm": 19, "tpm": 110_000})  # more tokens than one shard has
    assert [(each.entity_id, each.limit_name) for each in refusal.violations] == [(PARENT, "rpm")]


async def test_a_refusal_of_the_parent_shows_the_own_limits_as_they_were_within_the_last_minute(world: World) -> None:
    limiter = await family(world, Limit.per_hour("rpm", 90))
    repository = limiter.repository
    await repository.create_entity("neighbour", parent_id=PARENT, cascade=True)
    for key in (OWN, "neighbour"):
        await repository.set_limits(key, [Limit.per_hour("rpm", 100)])
    await take(limiter, OWN, "gpt", rpm=1)
    other = (await world.process()).limiter
    await take(other, OWN, "gpt", rpm=80)
    await other.repository.set_limits(OWN, [Limit.per_hour("rpm", 95)])
    world.clock.advance(seconds=61)
    assert not await passes(limiter, "neighbour", "gpt", rpm=20)  # so the copy of the parent is fresh
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, OWN, "gpt", rpm=25)
    shown = [(each.entity_id, each.limit.capacity, each.available, each.exceeded) for each in caught.value.statuses]
    assert shown == [(OWN, 95, 20, True), (PARENT, 90, 10, True)]
