"""A bucket in several shards.

Lives here: how a test has one split, and how it looks at the shards. Never: a claim.
"""

from typing import Any

from zae_limiter import RateLimiter
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.flows.steps import Flow, Log, Sleep, play
from zae_limiter.operations.values import Get, Item, Key
from zae_limiter.schema.items import BucketId, BucketState, read_bucket

from .worlds import World


def split(world: World, limiter: RateLimiter, entity_id: str, resource: str, *shards: int) -> None:
    """Have another process, which tells nobody, split shards of a bucket in turn; without any, shard 0."""
    ns = limiter.repository.namespace_id
    other = NamespaceState("default", ns, stack="test", now=world.clock.now_ms, settings=Settings())
    for shard in shards or (0,):
        played(world.table, split_shard(other, BucketId(ns, entity_id, resource, shard)))


def split_into(world: World, limiter: RateLimiter, count: int, entity_id: str = "e", resource: str = "r") -> None:
    """Have a bucket of one shard split into so many, all of them."""
    done = 1
    while done < count:
        split(world, limiter, entity_id, resource, *range(done))
        done *= 2


def played(table: MemoryTable, flow: Flow[Any]) -> Any:
    """The flow's result, on a table in memory."""
    return play(flow, lambda step: None if isinstance(step, (Sleep, Log)) else table.execute(step))


def shard_items(world: World, limiter: RateLimiter, entity_id: str = "e", resource: str = "r") -> dict[int, Item]:
    """The items of a bucket, by shard."""
    places = {shard: BucketId(limiter.repository.namespace_id, entity_id, resource, shard).pk for shard in range(64)}
    items = {shard: world.table.execute(Get(Key(pk, "#STATE"))) for shard, pk in places.items()}
    return {shard: item for shard, item in items.items() if item is not None}


def states(world: World, limiter: RateLimiter) -> dict[int, BucketState]:
    """The shards of the bucket as the limiter would see them."""
    return {shard: read_bucket(item) for shard, item in shard_items(world, limiter).items()}


def aim_at(limiter: RateLimiter, *shards: int) -> None:
    """Have the process pick these, over and over: first the shard to ask, then among those that are left."""
    turns = [*shards]

    def pick(count: int) -> int:
        turns.append(turns.pop(0))
        return turns[-1] % count

    limiter.repository.namespace_state.pick = pick
