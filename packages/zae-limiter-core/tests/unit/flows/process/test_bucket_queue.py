from support.core.plays import RPM, stage
from zae_limiter.flows.bucket_queue import BucketQueue, BucketRequest, Outcome, Waiter, broken, fail
from zae_limiter.operations.errors import StoreError
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

NOBODY = BucketQueue(lambda batch: iter(()))  # type: ignore[arg-type, return-value]
ONE, SAME, OTHER = Config((RPM,), 1), Config((RPM,), 2), Config((Limit.per_minute("rpm", 61),), 3)


def ask(config: Config | None, **checked: int) -> BucketRequest:
    return BucketRequest(NOBODY, checked=checked or {"rpm": 1000}, config=config, events=1)


def queue_of(*waiters: Waiter) -> BucketQueue:
    queue = stage().cached.queue
    queue.waiting = dict.fromkeys(waiters)
    return queue


def test_a_run_takes_all_who_ask_under_the_same_limits_whenever_they_were_read() -> None:
    first, second = ask(ONE), ask(SAME)
    queue = queue_of(first, second)
    assert (queue.take(), list(queue.waiting)) == ([first, second], [])


def test_a_run_serves_those_of_a_line_in_their_order_whoever_woke_first() -> None:
    later, back, first = ask(ONE), BucketRequest(NOBODY, given={"rpm": 1}), ask(ONE)
    later.turn, first.turn = (2, 2), (1, 1)
    assert queue_of(later, back, first).take() == [back, first, later]


def test_those_who_ask_under_other_limits_wait_for_a_run_of_their_own_in_order() -> None:
    first, other, third, back, last = (
        ask(ONE),
        ask(OTHER),
        ask(SAME),
        BucketRequest(NOBODY, given={"rpm": 1}),
        ask(OTHER),
    )
    queue = queue_of(first, other, third, back, last)
    assert (queue.take(), list(queue.waiting)) == ([first, third, back], [other, last])
    assert (queue.take(), list(queue.waiting)) == ([other, last], [])


def test_only_an_acquire_may_leave_the_queue_with_its_caller() -> None:
    assert ask(ONE).droppable
    assert not BucketRequest(NOBODY, given={"rpm": 1}).droppable
    assert not BucketRequest(NOBODY, unchecked={"rpm": 1}, config=ONE).droppable


def test_a_run_that_breaks_leaves_nobody_without_an_outcome() -> None:
    settled, left = ask(ONE), ask(ONE)
    settled.outcome = before = Outcome("admitted", None, 7)
    fail([settled, left], broken(ZeroDivisionError("why")))
    assert settled.outcome is before
    assert left.outcome is not None
    assert left.outcome.verdict == "failed"
    assert isinstance(left.outcome.error, StoreError)
    assert isinstance(left.outcome.error.__cause__, ZeroDivisionError)


def test_who_waits_in_a_line_is_blocked_by_a_refused_one_before_it() -> None:
    refused, before, behind, far_behind, alone = (ask(ONE) for _ in range(5))
    refused.turn, before.turn, behind.turn, far_behind.turn = (5, 5), (3, 3), (5, 6), (9, 9)
    queue = queue_of(before, alone, behind, far_behind)
    queue.block_behind([ask(ONE)])
    assert not any(each.blocked for each in queue.waiting)
    queue.block_behind([ask(ONE), refused])
    assert [each.blocked for each in (before, alone, behind, far_behind)] == [False, False, True, True]
    later = ask(ONE)
    later.turn = (8, 8)
    queue.block_behind([later])
    assert behind.blocked
