"""A bucket in two shards.

Lives here: how a test makes one. Never: when the limiter does (acquire), a claim.
"""

from worlds import World

from zae_limiter import RateLimiter
from zae_limiter.bucket import share
from zae_limiter.operations.values import Item, Put
from zae_limiter.schema.items import BucketId, bucket_attributes, read_shapes


def split(world: World, limiter: RateLimiter, entity_id: str, resource: str) -> None:
    """Make two shards of a bucket that was just made, each with its share of everything."""
    ns = limiter.repository.namespace_id
    item = world.bucket_of(limiter, entity_id, resource)
    assert item is not None
    item.pop("ttl", None)
    for shard in range(2):
        parts: Item = {**item, **BucketId(ns, entity_id, resource, shard).attributes(), "shard_count": 2}
        for limit in read_shapes(item):
            for attribute in (bucket_attributes(limit).tk, bucket_attributes(limit).tc):
                parts[attribute] = share(item[attribute], shard, 2)
        world.table.execute(Put(parts))
