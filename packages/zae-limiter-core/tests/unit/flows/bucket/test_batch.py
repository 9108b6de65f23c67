from hypothesis import given
from hypothesis import strategies as st

from support.core.plays import RPM, stage
from zae_limiter.flows.blocks import Block, Draw, Source
from zae_limiter.flows.bucket.batch import fit_batch
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.operations.values import NOTHING
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

QUEUE = stage().cached.queue
CONFIG = Config((RPM, Limit.per_minute("tpm", 1000)), 0)


def ask(**checked: int) -> BucketRequest:
    return BucketRequest(QUEUE, checked=checked, config=CONFIG, events=1)


def give(**given: int) -> BucketRequest:
    return BucketRequest(QUEUE, given=given)


def test_first_come_first_served_up_to_what_is_there() -> None:
    requests = [ask(rpm=1000) for _ in range(5)]
    load = fit_batch(requests, {"rpm": 3000}, {"rpm": 60_000})
    assert (load.carried, load.short) == (requests[:3], requests[3:])
    assert (load.checked, load.net("rpm"), load.events) == ({"rpm": 3000}, 3000, 3)


def test_one_that_does_not_fit_does_not_block_a_smaller_one_behind_it() -> None:
    big, small, last = ask(rpm=9000), ask(rpm=2000), ask(rpm=2000)
    load = fit_batch([big, small, last], {"rpm": 3000}, {"rpm": 60_000})
    assert (load.carried, load.short) == ([small], [big, last])


def test_all_limits_of_an_entry_fit_or_none_is_taken() -> None:
    both, one = ask(rpm=1000, tpm=9000), ask(rpm=1000)
    load = fit_batch([both, one], {"rpm": 1000, "tpm": 8000}, {"rpm": 60_000, "tpm": 60_000})
    assert (load.carried, load.short, load.checked) == ([one], [both], {"rpm": 1000})


def test_what_is_given_back_is_there_for_those_who_ask_wherever_it_stands_in_the_queue() -> None:
    first, back = ask(rpm=5000), give(rpm=4000)
    load = fit_batch([first, back], {"rpm": 1000}, {"rpm": 60_000})
    assert (load.carried, load.short) == ([first, back], [])
    assert load.net("rpm") == 1000


def test_what_is_given_back_does_not_lift_the_room_above_the_ceiling() -> None:
    first, back = ask(rpm=60_001), give(rpm=5000)
    assert fit_batch([first, back], {"rpm": 60_000}, {"rpm": 60_000}).short == [first]


def test_what_is_unchecked_is_carried_and_asks_for_nothing() -> None:
    debt = BucketRequest(QUEUE, unchecked={"rpm": 90_000}, config=CONFIG)
    load = fit_batch([debt], {"rpm": 0}, {"rpm": 60_000})
    assert (load.carried, load.checked, load.net("rpm")) == ([debt], {}, 90_000)


def test_an_amount_of_zero_fits_unless_the_limit_is_in_debt() -> None:
    assert fit_batch([ask(rpm=0)], {"rpm": 0}, {"rpm": 60_000}).short == []
    assert len(fit_batch([ask(rpm=0)], {"rpm": -1}, {"rpm": 60_000}).short) == 1


def test_those_who_did_not_fit_are_told_what_the_others_left() -> None:
    load = fit_batch([ask(rpm=2000), ask(rpm=2000)], {"rpm": 3000}, {"rpm": 60_000})
    assert load.left({"rpm": 3000}, {"rpm": 60_000}) == {"rpm": 1000}


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(-10, 60), st.lists(st.integers(1, 9), max_size=4))
def test_a_batch_never_carries_more_than_is_there(amounts: list[int], headroom: int, back: list[int]) -> None:
    requests = [ask(rpm=amount) for amount in amounts] + [give(rpm=amount) for amount in back]
    load = fit_batch(requests, {"rpm": headroom}, {"rpm": 50})
    assert load.checked.get("rpm", 0) <= max(0, min(50, headroom + sum(back)))
    left = min(50, headroom + sum(back)) - load.checked.get("rpm", 0)
    assert all(request.checked["rpm"] > left for request in load.short)


def test_a_block_of_one_limit_asks_nothing_of_another_one_which_may_be_in_debt() -> None:
    load = fit_batch([ask(rpm=1000)], {"rpm": 30_000, "tpm": -1000}, {"rpm": 60_000, "tpm": 60_000})
    block = Block({"rpm": 5000, "tpm": 0}, 0, 1000.0, Source(0, 0), (CONFIG.limits, ()))
    load.do(Draw(block, (), NOTHING, NOTHING, 0, ()))
    assert load.checked == {"rpm": 6000}
    assert "tpm" not in load.limits()
