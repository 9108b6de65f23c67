"""When a run gives a bucket its own shape, and when it goes by the one that others gave it."""

from typing import Any

from support.core.commits import applied_to, run, verdicts
from support.core.plays import NOW, RPM, Stage, bucket_item, stage
from zae_limiter.flows.bucket.contest import FOLLOW_MS, RESHAPES_LOST
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.operations.errors import ConditionFailed
from zae_limiter.operations.values import Item, Update
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

THEIRS, TPM = Limit.per_minute("rpm", 30), Limit.per_minute("tpm", 60)


def asks(it: Stage, *limits: Limit, given: bool = True, **amounts: int) -> BucketRequest:
    """An acquire under ``limits=``, or under limits that were read just now."""
    return it.request(config=Config(limits, it.clock.now_ms(), from_call=given), checked=amounts)


def shaped(*limits: Limit, turn: int) -> Item:
    """The bucket as others have just shaped it, for the so-manyth time."""
    return bucket_item(dict.fromkeys(limits, 20_000), rf=NOW + turn, cv=0, writes=1 + 5 * turn)


def lost(times: int, *limits: Limit) -> list[Any]:
    """The answers to so many writes that others are ahead of, and the pauses between them."""
    races = [ConditionFailed(shaped(*limits, turn=turn)) for turn in range(1, times + 1)]
    return [reply for turn, race in enumerate(races) for reply in ((race, None) if turn else (race,))]


def reshapes(steps: list[Any]) -> list[bool]:
    return ["cv" in step.set for step in steps if isinstance(step, Update)]


def test_who_lost_a_few_reshapes_goes_by_the_shape_that_the_bucket_has() -> None:
    it = stage()
    it.sees(shaped(THEIRS, turn=0))
    request = asks(it, RPM, rpm=2000)
    last = applied_to(shaped(THEIRS, turn=RESHAPES_LOST))
    steps = run(it, [request], *lost(RESHAPES_LOST, THEIRS), last)
    assert reshapes(steps) == [*[True] * RESHAPES_LOST, False]
    assert verdicts(request) == ["admitted"]


def test_limits_that_are_stored_are_given_up_after_as_many_losses() -> None:
    it = stage()
    it.sees(shaped(THEIRS, turn=0))
    last = applied_to(shaped(THEIRS, turn=RESHAPES_LOST))
    steps = run(it, [asks(it, RPM, given=False, rpm=2000)], *lost(RESHAPES_LOST, THEIRS), last)
    assert reshapes(steps) == [*[True] * RESHAPES_LOST, False]
    item = shaped(THEIRS, turn=9)
    it.sees(item)
    assert reshapes(run(it, [asks(it, RPM, given=False, rpm=2000)], applied_to(item))) == [True]


def test_who_asks_for_a_limit_that_the_bucket_has_not_goes_on_to_reshape_it() -> None:
    it = stage()
    it.sees(shaped(THEIRS, turn=0))
    request = asks(it, RPM, TPM, rpm=2000, tpm=2000)
    steps = run(it, [request], *lost(6, THEIRS), applied_to(shaped(THEIRS, turn=6)))
    assert reshapes(steps) == [True] * 7
    assert verdicts(request) == ["admitted"]


def test_who_asks_for_more_than_the_bucket_can_hold_goes_on_to_reshape_it() -> None:
    it = stage()
    it.sees(shaped(THEIRS, turn=0))
    it.cached.follows_until_ms = NOW + FOLLOW_MS
    full = bucket_item({THEIRS: 30_000})
    it.sees(full)
    other = Limit.custom("rpm", 60, burst=60, refill_amount=30, refill_period=60)
    request = asks(it, other, rpm=31_000)
    assert reshapes(run(it, [request], applied_to(full))) == [True]
    assert verdicts(request) == ["refused"]  # for now: tokens come with time
    assert it.cached.state is not None
    assert it.cached.state.ceilings == {"rpm": 60_000}


def test_whose_shape_others_undo_at_once_goes_by_theirs_for_some_seconds() -> None:
    it = stage()
    it.sees(shaped(THEIRS, turn=0))
    assert reshapes(run(it, [asks(it, RPM, rpm=1000)], applied_to(shaped(THEIRS, turn=0)))) == [True]
    for turn in (1, 2):
        it.clock.advance(ms=100)
        item = shaped(THEIRS, turn=turn)
        it.sees(item)
        assert reshapes(run(it, [asks(it, RPM, rpm=1000)], applied_to(item))) == [False]
    it.clock.advance(ms=2 * FOLLOW_MS)
    item = shaped(THEIRS, turn=3)
    it.sees(item)
    assert reshapes(run(it, [asks(it, RPM, rpm=1000)], applied_to(item))) == [True]


def test_two_call_sites_of_one_process_each_have_their_limits() -> None:
    it = stage()
    item = shaped(THEIRS, turn=0)
    it.sees(item)
    for limit in (RPM, THEIRS, RPM, THEIRS):
        it.clock.advance(ms=10)
        steps = run(it, [asks(it, limit, rpm=1000)], applied_to(item))
        assert reshapes(steps) == [True]
        assert it.cached.state is not None
        item = dict(it.cached.state.item)


def test_a_batch_goes_by_the_limits_of_those_who_read_them_last_and_the_others_read_again() -> None:
    it = stage()
    item = shaped(THEIRS, turn=0) | {"cv": NOW - 1000}
    it.sees(item)
    early, late = (it.request(config=Config((RPM,), NOW - ago), checked={"rpm": 1000}) for ago in (2000, 500))
    assert reshapes(run(it, [early, late], applied_to(item))) == [True]
    assert verdicts(early, late) == ["outdated", "admitted"]
