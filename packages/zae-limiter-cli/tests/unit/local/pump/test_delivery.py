from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter_cli.local.pump.delivery import Attempt, GivenUp, Policy, Reply, deliver

Handler = Callable[[list[int]], Reply]
DONE = Reply({"batchItemFailures": []})
FAILED = Reply(failed=True)


def records(*numbers: int) -> list[dict[str, Any]]:
    return [{"dynamodb": {"SequenceNumber": str(number)}} for number in numbers]


def numbers(found: Sequence[dict[str, Any]]) -> list[int]:
    return [int(record["dynamodb"]["SequenceNumber"]) for record in found]


def failing(*which: object) -> Reply:
    return Reply({"batchItemFailures": [{"itemIdentifier": str(each)} for each in which]})


def play(batch: Sequence[int], policy: Policy, handler: Handler) -> tuple[list[list[int]], list[int]]:
    """What a handler is called with, and what is given up."""
    called, given_up = [], []
    delivery = deliver(records(*batch), policy)
    step, reply = next(delivery, None), None
    while step is not None:
        if isinstance(step, GivenUp):
            given_up += numbers(step.records)
            reply = None
        else:
            called.append(numbers(step.records))
            reply = handler(called[-1])
        try:
            step = delivery.send(reply)
        except StopIteration:
            break
    return called, given_up


def test_a_batch_that_succeeds_is_sent_once() -> None:
    assert play([1, 2, 3], Policy(), lambda _: DONE) == ([[1, 2, 3]], [])


def test_a_batch_that_fails_is_sent_again_as_often_as_the_mapping_says() -> None:
    assert play([1, 2], Policy(retries=2), lambda _: FAILED) == ([[1, 2]] * 3, [1, 2])


def test_without_a_number_it_is_sent_until_it_succeeds() -> None:
    answers = iter([*[FAILED] * 50, DONE])
    called, given_up = play([1], Policy(), lambda _: next(answers))
    assert (len(called), given_up) == (51, [])


def test_bisecting_finds_the_record_that_fails_and_costs_no_retry() -> None:
    called, given_up = play([1, 2, 3, 4], Policy(retries=1, bisect=True), lambda batch: FAILED if 3 in batch else DONE)
    assert called == [[1, 2, 3, 4], [1, 2], [3, 4], [3], [3], [4]]
    assert given_up == [3]


def test_what_precedes_the_first_failure_is_done() -> None:
    answers = iter([failing(3, 4), DONE])
    assert play([1, 2, 3, 4], Policy(partial=True), lambda _: next(answers)) == ([[1, 2, 3, 4], [3, 4]], [])


def test_a_record_that_always_fails_is_given_up_alone() -> None:
    policy = Policy(retries=2, bisect=True, partial=True)
    called, given_up = play([1, 2, 3, 4], policy, lambda batch: failing(2) if 2 in batch else DONE)
    assert called == [[1, 2, 3, 4], [2, 3, 4], [2], [2], [2], [3, 4]]
    assert given_up == [2]


@pytest.mark.parametrize(
    "reply",
    [
        failing(99),
        failing(""),
        Reply({"batchItemFailures": [{"itemIdentifier": None}]}),
        Reply({"batchItemFailures": [{}]}),
        Reply({"batchItemFailures": "no list"}),
        Reply("text"),
        FAILED,
    ],
    ids=str,
)
def test_an_answer_that_names_no_record_of_the_batch_fails_all_of_it(reply: Reply) -> None:
    answers = iter([reply, DONE])
    assert play([1, 2], Policy(partial=True), lambda _: next(answers)) == ([[1, 2], [1, 2]], [])


@pytest.mark.parametrize("reply", [Reply(None), Reply({}), Reply({"batchItemFailures": None}), DONE], ids=str)
def test_an_answer_without_failures_is_success(reply: Reply) -> None:
    assert play([1, 2], Policy(partial=True), lambda _: reply) == ([[1, 2]], [])


def test_a_mapping_that_asks_for_no_partial_answers_gets_none() -> None:
    assert play([1, 2], Policy(), lambda _: failing(2)) == ([[1, 2]], [])


@given(
    size=st.integers(1, 30),
    bad=st.sets(st.integers(0, 29)),
    partial=st.booleans(),
    retries=st.integers(0, 3),
)
def test_with_bisecting_every_good_record_succeeds_in_order_and_every_bad_one_is_given_up(
    *, size: int, bad: set[int], partial: bool, retries: int
) -> None:
    succeeded: list[int] = []

    def handler(batch: list[int]) -> Reply:
        first_bad = next((index for index, number in enumerate(batch) if number in bad), None)
        if first_bad is None:
            succeeded.extend(batch)
            return DONE
        if not partial:
            return FAILED
        succeeded.extend(batch[:first_bad])
        return failing(batch[first_bad])

    policy = Policy(retries=retries, bisect=True, partial=partial)
    _, given_up = play(range(size), policy, handler)
    assert succeeded == [number for number in range(size) if number not in bad]
    assert given_up == [number for number in range(size) if number in bad]


@given(
    size=st.integers(1, 20), replies=st.lists(st.sampled_from([DONE, FAILED, failing(3), failing(7, 5)]), max_size=40)
)
def test_whatever_a_handler_answers_every_record_ends_once(size: int, replies: list[Reply]) -> None:
    policy = Policy(retries=2, bisect=True, partial=True)
    delivery, ended, answers = deliver(records(*range(size)), policy), [], iter(replies)
    step = next(delivery)
    while True:
        if isinstance(step, GivenUp):
            ended += numbers(step.records)
            reply = None
        else:
            reply = next(answers, DONE)
            ended += _taken(step, reply)
        try:
            step = delivery.send(reply)
        except StopIteration:
            break
    assert ended == list(range(size))


def _taken(attempt: Attempt, reply: Reply) -> list[int]:
    sent = numbers(attempt.records)
    if reply.failed:
        return []
    failures = [int(each["itemIdentifier"]) for each in reply.answer["batchItemFailures"]]
    return sent[: min((sent.index(each) if each in sent else 0 for each in failures), default=len(sent))]
