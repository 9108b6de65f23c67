"""What lives here: what is done before a call whose cost is counted, and the calls that take more than one line.
What never does: which calls are counted (cost_cases), what they cost.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any

from support.core.kinds import of_every_kind
from support.core.owners import maintenance_of
from support.core.snapshots import usage_item
from zae_limiter import Draw, Limit, OnRefused, RateLimiter, RateLimitExceeded, Repository, UsageSnapshot
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.records.levels import place_of
from zae_limiter.flows.steps import Log, Sleep, play
from zae_limiter.maintenance import Maintenance
from zae_limiter.operations.values import BatchWrite, Item, Put
from zae_limiter.schema.attributes import bucket_attributes
from zae_limiter.schema.items import ONE_WRITE, WRITES, BucketId, rule_attributes
from zae_limiter.testing import ManualClock
from zae_limiter.values.provisioner import StoredEntity

from .harness import Harness

KEY, PROJECT = "123e4567-e89b-12d3-a456-426614170000", "123e4567-e89b-12d3-a456-42661417ffff"
MODEL, OTHER_MODEL = "gpt-4", "embeddings"
LIMITS = [Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 100_000), Limit.per_day("tpd", 10_000_000)]
MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
PER_BATCH = 25


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace of its own, as a process that has just opened it knows it; ``notes`` are for later steps."""

    harness: Harness
    limiter: RateLimiter
    clock: ManualClock
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def repository(self) -> Repository:
        return self.limiter.repository

    @property
    def ns(self) -> str:
        return self.repository.namespace_id

    async def other_process(self) -> RateLimiter:
        """A limiter of the same namespace that knows nothing yet."""
        return await self.harness.open(namespace=self.repository.name, clock=self.clock)

    def put(self, items: Iterable[Item]) -> None:
        """Write items without the requests that a method would make."""
        puts = tuple(map(Put, items))
        for start in range(0, len(puts), PER_BATCH):
            assert not self.harness.perform(BatchWrite(puts[start : start + PER_BATCH])).writes


Step = Callable[[Place], Awaitable[Any]]


def ids(count: int) -> list[str]:
    """So many ids of 36 characters, the first of which is ``KEY``."""
    return [f"{KEY[:-4]}{number:04}" for number in range(count)]


def called(method: str, *args: Any, **kwargs: Any) -> Step:
    """A call of a method of the repository, of its maintenance, or else of the limiter."""
    return lambda it: getattr(_owner(it, method), method)(*args, **kwargs)


def _owner(it: Place, method: str) -> Any:
    if hasattr(Maintenance, method):
        return maintenance_of(it.repository)
    return it.repository if hasattr(Repository, method) else it.limiter


# steps before


resource_limits = called("set_resource_defaults", MODEL, LIMITS)
other_resource_limits = called("set_resource_defaults", OTHER_MODEL, LIMITS)
shadow_beside = called("set_resource_defaults", MODEL, [*LIMITS[:2], replace(LIMITS[2], shadow=True)])
only_shadow = called("set_resource_defaults", MODEL, [replace(limit, shadow=True) for limit in LIMITS])
with_slots = called("set_resource_defaults", MODEL, [*LIMITS[:2], Limit.concurrent("parallel", 5)])
own_limits = called("set_limits", KEY, LIMITS, MODEL)
tier_limits = called("set_tier_limits", "gold", LIMITS)
with_tier = called("create_entity", KEY, tier="gold")


async def override(it: Place) -> None:
    """Limits of the entity hold for 30 seconds."""
    until = datetime.fromtimestamp(it.clock.now_ms() // 1000, UTC) + timedelta(seconds=30)
    await it.limiter.set_limits(KEY, [Limit.per_minute("rpm", 120), *LIMITS[1:]], MODEL, override_until=until)


def path(buckets: int) -> Step:
    """An acquire of the key draws on so many buckets: of two parents, who share one, above whom is a chain."""

    async def grow(it: Place) -> None:
        above = [f"above-{number}" for number in range(buckets - 1, 0, -1)]
        top: list[str] = []
        for each in above:
            await it.limiter.create_entity(each, parent_ids=top, cascade=bool(top))
            top = top if each == above[-2:][0] and len(above) > 1 else [each]
        await it.limiter.create_entity(KEY, parent_ids=above[-2:][::-1], cascade=True)

    return grow


def take_from_top(buckets: int) -> Step:
    """The topmost bucket of such a path loses all that it has left after one call of the key."""

    async def step(it: Place) -> None:
        async with it.limiter.acquire(f"above-{buckets - 1}", MODEL, {"rpm": 59}):
            pass

    return step


async def family(it: Place) -> None:
    """The key gets a parent, and cascades."""
    await it.limiter.create_entity(PROJECT)
    await it.limiter.create_entity(KEY, parent_id=PROJECT, cascade=True)


def children(count: int) -> Step:
    """So many children of the project."""

    async def step(it: Place) -> None:
        await it.limiter.create_entity(PROJECT)
        for entity in ids(count):
            await it.limiter.create_entity(entity, parent_id=PROJECT)

    return step


def wait(seconds: float) -> Step:
    """Some time passes."""

    async def step(it: Place) -> None:
        it.clock.advance(seconds)

    return step


def entity_limits(count: int, resources: int) -> Step:
    """So many entities have limits of their own, each on one of so many resources."""

    async def step(it: Place) -> None:
        names = [f"model-{number % resources}" for number in range(count)]
        places = map(place_of, repeat(it.repository.namespace_state), zip(ids(count), names, strict=False))
        it.put({"PK": at.key.pk, "SK": at.key.sk, **at.fixed, "config_version": 1} for at in places)

    return step


def of_tier(count: int) -> Step:
    """So many entities have the tier gold."""

    async def step(it: Place) -> None:
        await maintenance_of(it.repository).put_entity_records(
            {entity: StoredEntity(tier="gold") for entity in ids(count)}
        )

    return step


def limits_of_resources(count: int) -> Step:
    """So many resources have limits."""

    async def step(it: Place) -> None:
        for number in range(count):
            await it.limiter.set_resource_defaults(f"model-{number}", LIMITS)

    return step


def buckets(entities: int, resources: int) -> Step:
    """Each of so many entities has a bucket on each of so many resources, the first of which is the model."""

    async def step(it: Place) -> None:
        names = [MODEL, *(f"model-{number}" for number in range(1, resources))]
        it.put(_bucket(it.ns, entity, name) for entity in ids(entities) for name in names)

    return step


def _bucket(ns: str, entity: str, resource: str) -> Item:
    item = {
        **BucketId(ns, entity, resource).attributes(spread=True),
        "cascade": False,
        "shard_count": 1,
        "rf": 1,
        "cv": 1,
        WRITES: ONE_WRITE,
    }
    for limit in LIMITS:
        names = bucket_attributes(limit.name)
        item |= {names.tokens: limit.capacity * 1000, names.consumed: 0, **rule_attributes(limit)}
    return item


def usage(entities: int, hours: int) -> Step:
    """So many entities used the model in each of so many hours."""

    async def step(it: Place) -> None:
        consumed = {limit.name: 12_345 for limit in LIMITS}
        starts = [MIDNIGHT + timedelta(hours=hour) for hour in range(hours)]
        made = (UsageSnapshot(entity, MODEL, "hourly", at, consumed, 99) for at in starts for entity in ids(entities))
        it.put(usage_item(it.ns, each, spread=True) for each in made)

    return step


def everything(count: int) -> Step:
    """A namespace of so many items of every kind that was deleted."""

    async def step(it: Place) -> None:
        await other_namespace(it)
        it.put(of_every_kind(it.notes["id"], count))
        await it.repository.delete_namespace(it.notes["name"])

    return step


async def other_namespace(it: Place) -> None:
    """There is another namespace."""
    it.notes["name"] = f"{it.repository.name}-other"
    it.notes["id"] = (await it.repository.register_namespace(it.notes["name"])).namespace_id


async def deleted_namespace(it: Place) -> None:
    """There was another namespace."""
    await other_namespace(it)
    await it.repository.delete_namespace(it.notes["name"])


def on_other(method: str, by: str) -> Step:
    """A call of a method about the other namespace, by its ``name`` or its ``id``."""
    return lambda it: getattr(_owner(it, method), method)(it.notes[by])


# calls


async def take(it: Place, limiter: RateLimiter | None = None, **amounts: int) -> None:
    """An acquire that is admitted."""
    async with (limiter or it.limiter).acquire(KEY, MODEL, amounts or {"rpm": 1, "tpm": 500}):
        pass


async def split(it: Place) -> None:
    """The bucket gets a second shard."""
    flow = split_shard(it.repository.namespace_state, BucketId(it.ns, KEY, MODEL))
    play(flow, lambda step: None if isinstance(step, (Sleep, Log)) else it.harness.perform(step))


async def take_all(it: Place) -> None:
    """An acquire that leaves nothing."""
    await take(it, rpm=60)


async def overflow(it: Place) -> None:
    """Limits whose overflow is another resource with the same limits."""
    await it.repository.set_resource_defaults(MODEL, LIMITS, on_refused=OnRefused(overflow="credits"))
    await it.repository.set_resource_defaults("credits", LIMITS)


async def take_elsewhere(it: Place) -> None:
    """An acquire by another process."""
    await take(it, await it.other_process())


async def take_in_vain(it: Place) -> None:
    """An acquire that is refused."""
    with suppress(RateLimitExceeded):
        await take(it, rpm=30)


async def take_draws(it: Place, **consume: int) -> None:
    """An acquire that draws on another entity's bucket, and on the key's for another model."""
    draws = [Draw("acme-corp"), Draw(resource=OTHER_MODEL, consume=consume or None)]
    async with it.limiter.acquire(KEY, MODEL, dict.fromkeys(("rpm", "tpm", "tpd"), 1), draws=draws):
        pass


async def take_much_also(it: Place) -> None:
    """Such an acquire that leaves less than half of the last bucket."""
    await take_draws(it, rpm=40)


async def take_also_in_vain(it: Place) -> None:
    """Such an acquire that the last bucket refuses."""
    with suppress(RateLimitExceeded):
        await take_draws(it, rpm=60)


async def take_in_shadow(it: Place) -> None:
    """An acquire that is admitted, although a shadow limit would have refused it."""
    await take(it, rpm=1, tpd=10_000_001)


async def take_slot(it: Place) -> None:
    """An acquire of a slot and of rates, and the end of its block, which has a correction."""
    async with it.limiter.acquire(KEY, MODEL, {"rpm": 1, "tpm": 500, "parallel": 1}) as lease:
        await lease.adjust(tpm=123)


async def fail(it: Place) -> None:
    """An acquire whose block raises."""
    with suppress(ZeroDivisionError):
        async with it.limiter.acquire(KEY, MODEL, {"rpm": 1, "tpm": 500}):
            raise ZeroDivisionError


async def open_again(it: Place) -> None:
    """All ways to open a namespace ask the same."""
    await it.repository.namespace(it.repository.name)


async def open_new(it: Place) -> None:
    """A namespace is opened for the first time."""
    await it.repository.namespace(f"{it.repository.name}-new")


async def enter(it: Place) -> None:
    """A block is entered, and not left."""
    it.notes["block"] = it.limiter.acquire(KEY, MODEL, {"rpm": 1, "tpm": 500})
    it.notes["lease"] = await it.notes["block"].__aenter__()


async def consume(it: Place) -> None:
    """More is taken in the block."""
    await it.notes["lease"].consume(tpm=123)


async def adjust(it: Place) -> None:
    """The block ends with a correction."""
    await it.notes["lease"].adjust(tpm=123)
    await it.notes["block"].__aexit__(None, None, None)


async def release(it: Place) -> None:
    """The block ends with something to give back."""
    await it.notes["lease"].release(rpm=1)
    await it.notes["block"].__aexit__(None, None, None)


def credited(key: str) -> Step:
    """A credit under an idempotency key."""

    async def give(it: Place) -> None:
        await it.repository.credit_bucket(KEY, MODEL, {"rpm": 1}, idempotency_key=key)

    return give
