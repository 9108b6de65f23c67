"""The pauses of one caller that waits, step by step; a whole crowd is in the behaviour tests."""

from support.core.plays import NOW, RPM, bucket_item, stage
from zae_limiter.flows.acquire.claims import AcquireRequest
from zae_limiter.flows.acquire.waiting import PATIENCE_MS, acquire_in_time
from zae_limiter.flows.process.waiting_line import Turn
from zae_limiter.flows.steps import Enqueue, Wait
from zae_limiter.resolution import Config, Resolved


def test_a_caller_is_patient_for_a_second_with_the_one_before_from_when_it_is_seen_at_work() -> None:
    it = stage()
    it.sees(bucket_item({RPM: 60_000}))
    config = Config((RPM,), NOW)
    until_ms = NOW + 60_000
    it.cached.resolved = Resolved(config, None, None, None, cascade=False, valid_until_ms=until_ms, generation=0)
    before = Turn(0, NOW + 1_000)
    it.cached.line.join(before, {"rpm": 1_000})

    caller = acquire_in_time(it.namespace_state, AcquireRequest("e", "r", {"rpm": 1_000}, max_wait=30.0))
    asleep = next(caller)
    assert isinstance(asleep, Wait)
    it.clock.advance(asleep.seconds)
    before.wake(it.clock.now_ms())

    paused = 0.0
    while isinstance(step := caller.send(None), Wait):
        it.clock.advance(step.seconds)
        paused += step.seconds
    assert isinstance(step, Enqueue)
    assert paused * 1000 >= PATIENCE_MS
