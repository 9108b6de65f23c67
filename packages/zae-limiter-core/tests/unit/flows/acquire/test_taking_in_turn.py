"""What a caller asks whose turn has come: which bucket, which shards."""

from support.core.plays import NOW, RPM, Stage, bucket_item, stage
from zae_limiter.flows.acquire.claims import Claim
from zae_limiter.flows.acquire.taking_in_turn import ripe_of, take_in_turn
from zae_limiter.flows.bucket.serving import cached_bucket
from zae_limiter.flows.bucket_queue import Outcome
from zae_limiter.flows.process.waiting_line import Turn
from zae_limiter.flows.steps import Enqueue
from zae_limiter.schema.items import BucketId, BucketState, read_bucket
from zae_limiter.values.resolution import Config, Resolved

CONFIG = Config((RPM,), 0)


def claim_of(it: Stage, turn: Turn, amount: int, entity_id: str = "e") -> Claim:
    """A claim of a caller with a turn."""
    resolved = Resolved(CONFIG, None, None, (), cascade=False, valid_until_ms=0, generation=0)
    cached = it.cached if entity_id == "e" else type(it.cached)(BucketId("ns", entity_id, "r"))
    if entity_id != "e":
        cached.queue = it.cached.queue
    return Claim(cached, cached, resolved, CONFIG, {"rpm": amount}, turn=turn, waits=True)


def shard(number: int, tokens: int) -> BucketState:
    """One of 64 shards, each of which holds at most 937 or 938 millitokens of 60 tokens."""
    item = bucket_item({RPM: tokens}, shard_count=64)
    return read_bucket({**item, **BucketId("ns", "e", "r", number).attributes()})


def test_a_shard_counts_when_it_has_the_amount_or_most_of_what_it_can_hold() -> None:
    it = stage()
    states = [shard(0, 748), shard(1, 749), shard(2, -5)]
    claim = claim_of(it, Turn(1, NOW), 1_000)
    assert [ripe_of(claim, state, "rpm", NOW, parts=1) for state in states] == [0, 749, -5]
    assert ripe_of(claim_of(it, Turn(1, NOW), 100), states[0], "rpm", NOW, parts=1) == 748


def test_who_is_due_for_longer_settles_for_smaller_parts() -> None:
    claim = claim_of(stage(), Turn(1, NOW), 1_000)
    assert [ripe_of(claim, shard(0, 375), "rpm", NOW, parts) for parts in (1, 2)] == [0, 375]


def test_the_parent_is_asked_first_and_its_refusal_leaves_nothing_to_give_back() -> None:
    it, turn = stage(), Turn(1, NOW)
    it.sees(bucket_item({RPM: 60_000}))
    own, parents = claim_of(it, turn, 1_000), claim_of(it, turn, 1_000, "parent")
    flow = take_in_turn(it.namespace_state, [own, parents])
    step = next(flow)
    assert isinstance(step, Enqueue)
    assert parents.last == (step.waiter,)
    step.waiter.outcome = Outcome("refused", None, NOW)
    assert next(flow, None) is None
    assert own.last == ()


def test_a_bucket_with_another_one_before_refuses_without_a_request() -> None:
    it, first, second = stage(), Turn(1, NOW + 1_000), Turn(2, NOW)
    it.sees(bucket_item({RPM: 60_000}))
    it.cached.line.join(first, {"rpm": 1_000})
    claim = claim_of(it, second, 1_000)
    second.wake(NOW)
    assert next(take_in_turn(it.namespace_state, [claim]), None) is None
    assert claim.refused
    assert second.is_blocked


def test_those_of_one_process_take_from_different_shards() -> None:
    it, other, turn = stage(), Turn(1, NOW), Turn(2, NOW)
    item = bucket_item({RPM: 1_000}, shard_count=2)
    it.sees(item)
    second = cached_bucket(it.namespace_state, "e", "r", shard=1)
    second.learn({**item, **second.id.attributes()}, NOW, own_writes=0)
    it.cached.line.join(turn, {"rpm": 1_000})
    it.cached.line.asked[other] = {0: {"rpm": 1_000}}
    step = next(take_in_turn(it.namespace_state, [claim_of(it, turn, 1_000)]))
    assert isinstance(step, Enqueue)
    assert step.waiter.queue is second.queue
