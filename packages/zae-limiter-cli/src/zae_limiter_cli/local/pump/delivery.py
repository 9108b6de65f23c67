"""Deliver a batch: retry it, or its parts, by the function's answers, and give records up.

This module only decides; ``reader`` calls the function, waits and has the clock.

https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .records import Record, sequence_number

FOREVER: Final = -1


@dataclass(frozen=True, slots=True)
class Policy:
    """A mapping's rules for failures; ``retries`` of -1 means no end."""

    retries: int = FOREVER
    bisect: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """Records to send; ``retry`` counts how often the same ones have failed."""

    records: Sequence[Record]
    retry: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The function's answer as JSON has it, or ``failed``."""

    answer: Any = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class GivenUp:
    """Records that go to the dead letters after ``attempts`` calls."""

    records: Sequence[Record]
    attempts: int


Step = Attempt | GivenUp
Delivery = Generator[Step, Reply | None, None]


def deliver(records: Sequence[Record], policy: Policy) -> Delivery:
    """Return the steps that bring every record to success or to the dead letters, in order; send in a reply for each
    attempt.
    """
    left = [Attempt(records, 0)]
    while left:
        attempt = left.pop(0)
        reply = yield attempt
        assert reply is not None
        done = _done(attempt.records, reply, partial=policy.partial)
        rest = attempt.records[done:]
        if not rest:
            continue
        if done:
            left.insert(0, Attempt(rest, 0))
        elif policy.bisect and len(rest) > 1:
            middle = len(rest) // 2
            left[:0] = [Attempt(rest[:middle], attempt.retry), Attempt(rest[middle:], attempt.retry)]
        elif policy.retries == FOREVER or attempt.retry < policy.retries:
            left.insert(0, Attempt(rest, attempt.retry + 1))
        else:
            yield GivenUp(rest, attempt.retry + 1)


def _done(records: Sequence[Record], reply: Reply, *, partial: bool) -> int:
    """Return how many records, from the first one on, need not be sent again."""
    if reply.failed:
        return 0
    failures = _failures(reply.answer) if partial else []
    if failures is None:
        return 0
    place = {sequence_number(record): index for index, record in enumerate(records)}
    # A failure that names no record of the batch fails all of it.
    return min((place.get(failure, 0) for failure in failures), default=len(records))


def _failures(answer: Any) -> list[str] | None:
    """Return the records that a function reports as failed; ``None`` for an answer that cannot be read."""
    if answer is None:
        return []
    if not isinstance(answer, dict):
        return None
    listed = answer.get("batchItemFailures") or []
    try:
        return [str(each["itemIdentifier"]) for each in listed]
    except (KeyError, TypeError):
        return None
