"""The pauses of one caller that waits, step by step; a whole crowd is in the behaviour tests."""

import pytest

from support.core.plays import NOW, RPM, Stage, bucket_item, stage
from zae_limiter.exceptions import RateLimiterUnavailable
from zae_limiter.flows.acquire.claims import Grant
from zae_limiter.flows.acquire.refused import acquire_in_time
from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.flows.bucket.serving import cached_bucket
from zae_limiter.flows.bucket_queue import Outcome
from zae_limiter.flows.process.waiting_line import Turn
from zae_limiter.flows.steps import Enqueue, Flow, Remind, Wait, play_late
from zae_limiter.operations.errors import BudgetSpent
from zae_limiter.values.limits import Limit
from zae_limiter.values.refusal import RateLimitExceeded
from zae_limiter.values.resolution import Config, Resolved


def in_line(it: Stage, before: Turn, max_wait: float = 30.0) -> Flow[Grant]:
    """The acquire of one token behind another caller, which waits for one, of a bucket with 60."""
    it.sees(bucket_item({RPM: 60_000}))
    config, until_ms = Config((RPM,), NOW), NOW + 60_000
    it.cached.resolved = Resolved(config, None, None, (), cascade=False, valid_until_ms=until_ms, generation=0)
    it.cached.line.join(before, {"rpm": 1_000})
    return acquire_in_time(it.namespace_state, AcquireRequest("e", "r", {"rpm": 1_000}, max_wait=max_wait))


def test_a_caller_that_was_refused_with_the_one_before_it_asks_again_though_its_time_is_over() -> None:
    it, before = stage(), Turn(0, NOW)
    caller = in_line(it, before, max_wait=0.01)
    before.wake(NOW)
    before.asks(it.cached.line, [it.request(RPM, checked={"rpm": 1_000})])
    step = next(caller)
    assert isinstance(step, Enqueue)
    it.clock.advance(1)
    step.waiter.blocked = True
    step.waiter.outcome = Outcome("refused", it.cached.state, NOW + 1_000)
    it.cached.line.leave(before)
    again = caller.send(None)
    assert isinstance(again, Enqueue)
    assert again.waiter is not step.waiter


def test_a_caller_that_others_are_before_at_the_end_of_its_time_does_not_overtake_them() -> None:
    it, before = stage(), Turn(0, NOW + 1_000)
    caller = in_line(it, before, max_wait=0.1)
    for _ in range(100):
        if not isinstance(step := next(caller), Wait):
            break
        it.clock.advance(step.seconds)
    assert isinstance(step, Remind)  # to count the refusal
    assert it.clock.now_ms() == NOW + 100
    with pytest.raises(RateLimitExceeded):
        next(caller)


def test_a_caller_waits_for_as_long_as_one_before_it_that_was_refused_is_at_work() -> None:
    it, before = stage(), Turn(0, NOW + 1_000)
    caller = in_line(it, before)
    asleep = next(caller)
    assert isinstance(asleep, Wait)
    it.clock.advance(asleep.seconds)
    before.wake(it.clock.now_ms())
    refused = it.request(RPM, checked={"rpm": 1_000})
    refused.outcome = Outcome("refused", it.cached.state, NOW)
    before.asks(it.cached.line, [refused])

    pauses = [0.0]
    while sum(pauses) < 4:
        step = caller.send(None)
        assert isinstance(step, Wait)
        it.clock.advance(step.seconds)
        pauses.append(step.seconds)
    assert len(pauses) < 60
    it.cached.line.leave(before)
    assert isinstance(caller.send(None), Enqueue)


def test_a_caller_does_not_look_all_the_time_at_a_full_bucket_one_of_whose_shards_has_an_older_limit() -> None:
    it, before = stage(), Turn(0, NOW)
    it.sees(bucket_item({RPM: 30_000}, shard_count=2))
    older = bucket_item({Limit.per_minute("rpm", 59): 29_500}, shard_count=2)
    beside = cached_bucket(it.namespace_state, "e", "r", shard=1)
    beside.learn({**older, **beside.id.attributes()}, NOW, own_writes=0)
    config = Config((RPM,), NOW)
    it.cached.resolved = Resolved(config, None, None, (), cascade=False, valid_until_ms=NOW + 60_000, generation=0)
    it.cached.line.join(before, {})
    caller = acquire_in_time(it.namespace_state, AcquireRequest("e", "r", {"rpm": 60_000}, max_wait=10.5))
    step = next(caller)
    it.cached.line.leave(before)
    for _ in range(10):
        assert isinstance(step, Wait)
        it.clock.advance(step.seconds)
        step = caller.send(None)
    assert it.clock.now_ms() > NOW + 9_000


def asks_until(it: Stage, caller: Flow[Grant], end_ms: int) -> int:
    """Return how often a caller asks that is refused each time, though its tokens seem to be there."""
    step, asked = next(caller), 0
    while it.clock.now_ms() < end_ms:
        if isinstance(step, Enqueue):
            asked += 1
            step.waiter.outcome = Outcome("refused", it.cached.state, it.clock.now_ms())
        else:
            assert isinstance(step, Wait)
            it.clock.advance(step.seconds)
        step = caller.send(None)
    return asked


def test_a_caller_that_is_refused_again_and_again_though_its_tokens_seem_to_be_there_asks_less_often() -> None:
    it, before = stage(), Turn(0, NOW)
    caller = in_line(it, before, max_wait=10)
    it.cached.line.leave(before)
    assert asks_until(it, caller, NOW + 9_000) < 110


def test_a_caller_that_asks_less_often_asks_again_at_the_end_of_its_time() -> None:
    it, before = stage(), Turn(0, NOW)
    caller = in_line(it, before, max_wait=0.1)
    it.cached.line.leave(before)
    assert asks_until(it, caller, NOW + 100) == 6


def out_of_time(it: Stage, *, answered: bool) -> Flow[Grant]:
    """A caller at work whose attempt began a second ago; meanwhile the store has answered somebody, or has not."""
    before = Turn(0, NOW)
    caller = in_line(it, before)
    it.cached.line.leave(before)
    assert isinstance(next(caller), Enqueue)
    it.clock.advance(1)
    if answered:
        it.cached.learn(bucket_item({RPM: 0}, writes=2), it.clock.now_ms(), own_writes=0)
    return caller


def test_a_caller_whose_time_ends_while_the_store_answers_is_refused() -> None:
    caller = out_of_time(stage(), answered=True)
    with pytest.raises(RateLimitExceeded) as caught:
        play_late(caller, BudgetSpent(), lambda _: None)  # a reminder to count it
    assert [each.limit_name for each in caught.value.violations] == ["rpm"]


def test_a_caller_whose_time_ends_without_an_answer_is_unavailable() -> None:
    caller = out_of_time(stage(), answered=False)
    with pytest.raises(RateLimiterUnavailable):
        caller.throw(BudgetSpent())
