import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from support.provisioner.provisions import World, manifest
from zae_limiter.engines.time_left import time_left
from zae_limiter_provisioner.deadline import Deadline


class Context:
    def __init__(self, left_ms: int) -> None:
        self.left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms


def test_work_ends_ten_seconds_before_a_long_invocation_does_and_a_fifth_before_a_short_one() -> None:
    for left, margin in ((900, 10), (10, 2)):
        deadline = Deadline.of(Context(left * 1000))
        assert round(deadline.end - deadline.stop, 3) == margin
        assert left - 5 < deadline.end - time.monotonic() <= left


def test_without_a_context_there_are_fifteen_minutes() -> None:
    context: Any
    for context in (None, object(), {}, "context", MagicMock(), SimpleNamespace(get_remaining_time_in_millis=None)):
        assert 890 < Deadline.of(context).seconds_left <= 900


def test_a_lock_outlives_the_invocation_by_five_seconds(world: World) -> None:
    assert world.deadline(60).lock_expires_ms == world.clock.now_ms() + 65_000


def test_halfway_it_stops_with_as_much_time_left_and_ends_at_the_same_time(world: World) -> None:
    whole = world.deadline(100)  # which stops at 80
    half = whole.halfway()
    world.clock.advance(41)
    assert (whole.is_near, half.is_near) == (False, True)
    assert (half.end, half.lock_expires_ms) == (whole.end, whole.lock_expires_ms)


def test_it_is_near_from_its_stop_on(world: World) -> None:
    deadline = world.deadline(100)
    seen = []
    for _ in range(3):
        seen.append(deadline.is_near)
        world.clock.advance(60)
    assert seen == [False, False, True]
    assert deadline.seconds_left == 0


def test_a_request_to_the_table_may_take_half_a_minute(world: World) -> None:
    store, left = world.store(), []
    store.fault = lambda _: left.append(time_left())
    world.ask("apply", manifest(), store=store)
    assert left
    assert all(30 < seconds <= 33 for seconds in left)
