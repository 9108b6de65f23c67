"""Which shards of a bucket an acquire asks, and which copies of them it may be refused by."""

from support.core.plays import NOW, RPM, bucket_item, stage
from zae_limiter.flows.acquire.claims import Claim
from zae_limiter.flows.acquire.shard_selection import cached_shards
from zae_limiter.flows.process.namespace_state import CachedBucket
from zae_limiter.values.resolution import Config, Resolved


def test_a_bucket_that_was_forgotten_and_seen_again_is_not_judged_by_a_part_of_its_shards() -> None:
    it = stage()
    config = Config((RPM,), 0)
    forgotten = CachedBucket(it.cached.id)
    forgotten.queue = it.cached.queue
    claim = Claim(
        forgotten,
        forgotten,
        Resolved(config, None, None, (), cascade=False, valid_until_ms=0, generation=0),
        config,
        {"rpm": 20_000},
    )
    it.sees(bucket_item({RPM: 10_000}, shard_count=2))
    assert cached_shards(it.namespace_state, claim, NOW) == ()
    it.sees(bucket_item({RPM: 10_000}))
    assert [state.shard_count for state in cached_shards(it.namespace_state, claim, NOW)] == [1]
