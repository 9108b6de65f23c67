"""The aggregator's handler: batches of stream records, sound and damaged."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import strategies as st

from support.aggregator.damage import WITH_QUEUE, among_sound_ones, damaged_records, used
from support.aggregator.lives import Life
from support.aggregator.streams import Record
from zae_limiter_aggregator import handler

from ..batches import Surface
from ..judging import Tally, Unclean, judging
from ..junk import damaged, json_junk

bad_records = st.lists(damaged_records(), min_size=1, max_size=4)
NOWHERE = "http://127.0.0.1:1"  # a batch that is sound after all finds no table
no_batches = json_junk | damaged(st.just({"Records": [used(Life(), 1)]}))


@contextmanager
def opened() -> Iterator[Surface]:
    """A table in memory for each batch: the sound records are counted, and each damaged one has one letter."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"ZAEL_STACK": "demo", "AWS_ENDPOINT_URL": NOWHERE, "AWS_REGION": "eu-west-1"}.items():
            patch.setenv(name, value)
        handler._aggregator.cache_clear()
        patch.setattr(handler, "log_as_json", lambda *_, **__: None)

        def feed(drawn: tuple[bool, Any], tally: Tally) -> None:
            is_batch, value = drawn
            if is_batch:
                _take(value, tally)
            else:
                _refuse(value, tally)

        yield Surface(st.tuples(st.just(True), bad_records) | st.tuples(st.just(False), no_batches), feed)


def _take(bad: list[Record], tally: Tally) -> None:
    life = Life(WITH_QUEUE)
    records = among_sound_ones(life, bad)
    with judging(tally):
        result = life.take(records)
    told = [letter["sequenceNumber"] for letter in life.letters]
    if result.failures:
        raise Unclean(f"records come again: {result.failures}")
    if len(told) != len(set(told)) or not set(told) <= {each["dynamodb"]["SequenceNumber"] for each in records[1::2]}:
        raise Unclean(f"letters: {told}")
    good = [(dict(each.consumed), each.total_events) for each in life.usage("good")]
    if good != [({"tpm": len(bad) + 1}, len(bad) + 1)]:
        raise Unclean(f"of {len(bad) + 1} sound records, {good} are counted")
    tally.accepted += len(records) - len(told) - 1
    tally.refused += len(told)


def _refuse(event: Any, tally: Tally) -> None:
    """What is not a batch is refused; what is one after all is answered."""
    with judging(tally, ValueError):
        answer = handler.on_event(event, None)
        if set(answer) != {"batchItemFailures"}:
            raise Unclean(f"the answer is {answer}")
