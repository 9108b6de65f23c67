"""Writes and deletes by the batch: how many at a time, what is asked again, and when it is given up."""

from typing import Any

import pytest

from support.core.plays import play_script
from zae_limiter.flows.pages import PAUSES, delete_all, write_all
from zae_limiter.flows.steps import Parallel, Sleep, Step, play
from zae_limiter.operations.errors import NotApplied, OutcomeUnknown, StoreError, TableMissing, Throttled
from zae_limiter.operations.values import BatchWrite, Delete, Key, Put, Unwritten

KEYS = [Key(f"e-{number}", "#META") for number in range(130)]
DONE = Unwritten()


def deleted(step: Step) -> list[list[Key]]:
    """The keys of each batch of a wave."""
    assert isinstance(step, Parallel)
    batches = [part.writes for part in step.steps if isinstance(part, BatchWrite)]
    return [[write.key for write in batch if isinstance(write, Delete)] for batch in batches]


def test_four_batches_of_25_go_at_a_time() -> None:
    removed: list[int] = []
    steps, _ = play_script(delete_all(KEYS, removed.append), [DONE] * 4, [DONE] * 2)
    first, second = map(deleted, steps)
    assert [len(batch) for batch in (*first, *second)] == [25] * 5 + [5]
    assert [key for batch in (*first, *second) for key in batch] == KEYS
    assert removed == [100, 30]


def test_nothing_to_remove_is_no_request() -> None:
    assert play_script(delete_all([])) == ([], None)


def test_puts_that_were_left_are_asked_again() -> None:
    puts = [Put({"PK": key.pk, "SK": key.sk}) for key in KEYS[:30]]
    steps, _ = play_script(write_all(puts), [DONE, Unwritten((puts[27],))], None, [DONE])
    assert steps[-1] == Parallel((BatchWrite((puts[27],)),))


@pytest.mark.parametrize("failure", [Throttled("slow down"), OutcomeUnknown("lost")])
def test_what_was_left_or_may_be_left_is_asked_again_after_a_pause(failure: StoreError) -> None:
    removed: list[int] = []
    left = Unwritten((Delete(KEYS[3]),))
    steps, _ = play_script(delete_all(KEYS[:60], removed.append), [left, failure, DONE], None, [DONE] * 2)
    pause, rest = steps[1:]
    assert isinstance(pause, Sleep)
    assert [key for batch in deleted(rest) for key in batch] == [KEYS[3], *KEYS[25:50]]
    assert removed == [34, 26]


def test_a_store_that_removes_nothing_is_given_up_after_longer_and_longer_pauses() -> None:
    waits: list[Step] = []

    def throttle(step: Step) -> list[StoreError]:
        if isinstance(step, Sleep):
            waits.append(step)
        return [Throttled("slow down")]

    with pytest.raises(Throttled, match="slow down"):
        play(delete_all(KEYS[:1]), throttle)
    assert waits == [Sleep(pause) for pause in PAUSES]


def test_a_store_that_removes_a_little_is_never_given_up() -> None:
    waiting = tuple(Delete(key) for key in KEYS[:25])
    replies: list[Any] = []
    for done in range(1, 25):
        replies += [[Unwritten(waiting[done:])], None]
    steps, _ = play_script(delete_all(KEYS[:25]), *replies, [DONE])
    assert {step for step in steps if isinstance(step, Sleep)} == {Sleep(PAUSES[0])}


def test_a_store_that_leaves_all_undone_without_a_word_is_given_up_too() -> None:
    left = [Unwritten((Delete(KEYS[0]),))]
    with pytest.raises(Throttled, match="every write undone"):
        play_script(delete_all(KEYS[:1]), *([left, None] * len(PAUSES)), left)


@pytest.mark.parametrize("error", [NotApplied("denied"), TableMissing("gone"), MemoryError()])
def test_what_no_repeat_mends_is_raised_at_once(error: Exception) -> None:
    with pytest.raises(type(error)):
        play_script(delete_all(KEYS), [DONE] * 3 + [error])
