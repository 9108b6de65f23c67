"""The engine decides as a limiter does that makes the same calls at the same instants."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.observers import AcquireEvent, Event, LeaseEvent
from zae_limiter.replay.engine import BucketLimits, Replay, Short, Verdict
from zae_limiter.testing import ManualClock

BEGIN_MS = 1_764_028_800_000 + 86_399_000  # a second before a midnight of UTC
NAMES = ("rpm", "tpm", "par")
PARENTS = {"key-1": ("org",), "key-2": ("org", "team"), "org": ("top",), "team": ("top",), "top": (), "lone": ()}

RATES: tuple[Callable[[str, int], Limit], ...] = (
    lambda name, n: Limit.custom(name, n, refill_period=7),
    lambda name, n: Limit.custom(name, n, burst=3 * n, refill_amount=1 + n // 2, refill_period=3),
    lambda name, n: Limit.custom(name, n, kind="calendar", window="minute"),
    lambda name, n: Limit.custom(name, n, kind="calendar", window="day", timezone="Europe/Berlin"),
    lambda name, n: Limit.custom(name, n, kind="first_use", refill_period=20),
    lambda name, n: Limit.total(name, 20 * n),
    lambda name, n: Limit.custom(name, n, schedule=["night: 00:00-00:01 3/min burst 4", "later: 00:02-23:00 9/min"]),
    lambda name, n: Limit.custom(name, n, kind="first_use", refill_period=20, schedule=["a: 00:00-00:01 capacity 2"]),
    lambda name, n: Limit.custom(name, n, kind="calendar", window="minute", schedule=["a: 00:01-00:03 capacity 2"]),
    lambda name, _: Limit.custom(name, 0),
)


def limit(random: Random, name: str, *, alone: bool) -> Limit:
    """Return a limit of any kind; of an entity that shares a path with others, neither one with a schedule nor one
    whose windows begin with the first use: there a refused call may begin a window or other values, or not, by what its
    process has seen of the other buckets.
    """
    if name == "par":
        return Limit.custom(name, random.randint(1, 3), kind="concurrent", expires=86_400)
    made = random.choice(RATES if random.random() < 0.4 else RATES[:2])(name, random.randint(1, 9))
    if (made.kind == "first_use" or made.schedule) and not alone:
        made = Limit.per_minute(name, max(1, made.capacity))
    if random.random() < 0.2:
        return Limit.from_dict(made.to_dict() | {"shadow": True})
    return made


class World:
    """A limiter in memory, and a replay of what it is asked."""

    def __init__(self, random: Random, *, everywhere: bool = False) -> None:
        self.clock = ManualClock(BEGIN_MS)
        self.repository = SyncRepository.in_memory(clock=self.clock, config_cache_ttl=86_400)
        self.events: list[Event] = []
        self.limiter = SyncRateLimiter(self.repository, observers=[self.events.append])
        self.limits = {
            entity: tuple(
                limit(random, name, alone=everywhere or entity == "lone")
                for name in sorted(random.sample(NAMES, random.randint(1, 3)))
            )
            for entity in PARENTS
        }
        for entity in reversed(PARENTS):
            self.repository.create_entity(entity, parent_ids=PARENTS[entity], cascade=bool(PARENTS[entity]))
            self.repository.set_limits(entity, list(self.limits[entity]), "gpt-4")
        self.replay = Replay(self.path)
        self.leases: dict[str, Any] = {}

    def path(self, entity: str, resource: str) -> list[BucketLimits]:
        order = [entity]
        for each in order:
            order += [above for above in PARENTS[each] if above not in order]
        return [BucketLimits(each, resource, self.limits[each]) for each in order]

    def known(self, entity: str) -> set[str]:
        return {limit.name for each in self.path(entity, "gpt-4") for limit in each.limits}

    def acquire(self, entity: str, amounts: Mapping[str, int], name: str) -> None:
        lease = self.limiter.acquire(entity, "gpt-4", dict(amounts))
        refused: tuple[Short, ...] = ()
        try:
            lease.__enter__()
        except RateLimitExceeded as refusal:
            refused = tuple(Short(each.entity_id, each.limit.name) for each in refusal.violations)
        else:
            self.leases[name] = lease
        self.agree(self.replay.decide(self.clock.now_ms(), entity, "gpt-4", amounts, name), refused)

    def consume(self, name: str, entity: str, amounts: Mapping[str, int]) -> None:
        refused: tuple[Short, ...] = ()
        try:
            self.leases[name].consume(**amounts)
        except RateLimitExceeded as refusal:
            refused = tuple(Short(each.entity_id, each.limit.name) for each in refusal.violations)
        self.agree(self.replay.decide(self.clock.now_ms(), entity, "gpt-4", amounts, name), refused)

    def agree(self, verdict: Verdict, refused: tuple[Short, ...]) -> None:
        event = self.events[-1]
        assert isinstance(event, AcquireEvent)
        assert sorted(verdict.refused_by) == sorted(refused)
        assert sorted(verdict.shadowed) == sorted(Short(each.entity_id, each.limit.name) for each in event.shadowed)

    def end(self, name: str, adjusted: Mapping[str, int], *, fails: bool) -> None:
        lease = self.leases.pop(name)
        if adjusted:
            lease.adjust(**adjusted)
        lease.__exit__(*((ValueError, ValueError("no"), None) if fails else (None, None, None)))
        event = self.events[-1]
        assert isinstance(event, LeaseEvent)
        self.replay.end(self.clock.now_ms(), name, event.consumed)


def run(seed: int, steps: int = 60, *, everywhere: bool = False) -> World:
    random = Random(seed)
    world, owners = World(random, everywhere=everywhere), dict[str, str]()
    for step in range(steps):
        world.clock.advance(ms=random.choice((0, 0, 1, 7, 400, 2000, 9000, 61_000)))
        if world.leases and random.random() < 0.3:
            name = random.choice(sorted(world.leases))
            entity = owners[name]
            if random.random() < 0.3:
                world.consume(
                    name, entity, {one: random.randint(0, 3) for one in sorted(world.known(entity) - {"par"})}
                )
                continue
            held = world.leases[name].consumed
            adjusted = {
                one: random.randint(-held[one], 3) for one in sorted(held) if one != "par" and random.random() < 0.7
            }
            world.end(name, adjusted, fails=random.random() < 0.2)
            continue
        entity = random.choice(sorted(PARENTS))
        known = sorted(world.known(entity))
        names = random.sample(known, random.randint(1, len(known)))
        owners[str(step)] = entity
        world.acquire(entity, {one: 1 if one == "par" else random.choice((0, 1, 2, 5)) for one in names}, str(step))
    return world


@pytest.mark.parametrize("seed", range(40))
def test_every_verdict_is_that_of_a_limiter(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", [116, 422, 662, 794, 1126, 1281])
def test_a_correction_behind_a_boundary_counts_as_in_a_limiter(seed: int) -> None:
    run(seed, everywhere=True)
