"""Which hold a shard draws for, when its process has forgotten shard 0 and seen it again."""

from support.core.plays import stage
from zae_limiter.flows.bucket.serving import cached_bucket, hold_ahead
from zae_limiter.flows.process.namespace_state import CachedBucket


def test_a_shard_keeps_its_hold_until_the_answer_of_its_write_is_there() -> None:
    namespace_state = stage().namespace_state
    home, shard = (cached_bucket(namespace_state, "e", "r", shard=number) for number in (0, 1))
    hold_ahead(namespace_state, home, shard)
    former = shard.queue.hold
    assert former is home.queue.hold is not None
    seen_again = CachedBucket(home.id)
    seen_again.queue = type(home.queue)(home.queue.work)
    shard.queue.server = object()
    hold_ahead(namespace_state, seen_again, shard)
    assert shard.queue.hold is former is not seen_again.queue.hold
    shard.queue.server = None
    hold_ahead(namespace_state, seen_again, shard)
    assert shard.queue.hold is seen_again.queue.hold
