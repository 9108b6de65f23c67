"""Which shards of a bucket an acquire asks, and which copies of them it may be refused by."""

from collections.abc import Sequence

import pytest

from support.core.plays import NOW, RPM, bucket_item, stage
from zae_limiter import Limit
from zae_limiter.flows.acquire.claims import Claim
from zae_limiter.flows.acquire.shard_selection import cached_shards, read_shards
from zae_limiter.flows.acquire.view import View
from zae_limiter.flows.bucket.serving import cached_bucket
from zae_limiter.flows.process.namespace_state import CachedBucket
from zae_limiter.flows.steps import Flow
from zae_limiter.schema.items import BucketState
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


def test_a_shard_that_nobody_wrote_since_a_boundary_counts_by_the_values_behind_it() -> None:
    it, limit = stage(), Limit.custom("rpm", 10, schedule=["late: 22:13-23:00 UTC 600/min"])
    before, config = (Config((limit,), 0).at(at_ms) for at_ms in (NOW - 60_000, NOW))
    by_schedule = {"b_rpm_si": config.schedule_id("rpm"), "shard_count": 2}
    it.sees(bucket_item({before.limits[0]: 5_000}, rf=NOW - 60_000) | by_schedule)
    other = cached_bucket(it.namespace_state, "e", "r", shard=1)
    item = bucket_item({config.limits[0]: 100_000}) | by_schedule
    other.learn(item | other.id.attributes(), NOW, own_writes=0)
    resolved = Resolved(config, None, None, (), cascade=False, valid_until_ms=0, generation=0)
    claim = Claim(it.cached, it.cached, resolved, config, {"rpm": 150_000})
    states = collected(read_shards(it.namespace_state, claim))
    assert [state.part(limit, NOW).tokens_milli for state in states] == [105_000, 100_000]
    assert View(states, claim.config, NOW).fits(claim.checked)


def collected(flow: Flow[Sequence[BucketState]]) -> Sequence[BucketState]:
    """What a flow returns that takes no step."""
    with pytest.raises(StopIteration) as stop:
        next(flow)
    states: Sequence[BucketState] = stop.value.value
    return states
