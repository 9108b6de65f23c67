"""The counts of refusals that no write has taken."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import pytest

from zae_limiter.flows.process.namespace_state import CachedBucket
from zae_limiter.flows.process.refusals import PendingRefusals
from zae_limiter.schema.items import BucketId

NOW = 1_700_000_000_000


@pytest.fixture
def buckets() -> Iterator[CachedBucket]:
    return (CachedBucket(BucketId("ns", f"e-{number}", "r")) for number in range(1000))


def test_what_is_taken_is_gone_and_what_is_put_back_is_there_again(buckets: Iterator[CachedBucket]) -> None:
    refusals, bucket, other = PendingRefusals[Any](10), next(buckets), next(buckets)
    for _ in range(3):
        refusals.add(bucket, NOW)
    refusals.add(other, NOW)
    assert [refusals.take(bucket), refusals.take(bucket)] == [{"rj": 3}, {}]
    refusals.add(bucket, NOW)
    refusals.put_back(bucket, {"rj": 3})
    assert (refusals.take(bucket), refusals.take(other)) == ({"rj": 4}, {"rj": 1})
    assert not refusals.counts


def refused(refusals: PendingRefusals[Any], bucket: CachedBucket, ms: int) -> int | None:
    """Count a refusal, and return in how many milliseconds the reminder comes that it arranges."""
    refusals.add(bucket, NOW + ms)
    return refusals.remind(bucket, NOW + ms)


def test_a_first_refusal_arranges_a_write_and_further_ones_do_only_if_it_never_came(
    buckets: Iterator[CachedBucket],
) -> None:
    refusals, bucket = PendingRefusals[Any](10), next(buckets)
    arranged = {ms: in_ms for ms in range(0, 20_000, 500) if (in_ms := refused(refusals, bucket, ms)) is not None}
    assert arranged == {0: 5_000, 6_500: 0, 13_000: 0, 19_500: 0}
    assert refusals.take(bucket) == {"rj": 40}


def test_a_clock_that_goes_back_does_not_hold_them_up(buckets: Iterator[CachedBucket]) -> None:
    refusals, bucket = PendingRefusals[Any](10), next(buckets)
    refused(refusals, bucket, 0)
    assert refused(refusals, bucket, -60_000) == 0


def test_a_bucket_has_one_reminder_which_comes_again_for_what_was_refused_since(
    buckets: Iterator[CachedBucket],
) -> None:
    refusals, bucket = PendingRefusals[Any](10), next(buckets)
    assert refused(refusals, bucket, 0) == 5_000
    refusals.take(bucket)
    assert refused(refusals, bucket, 4_000) is None
    assert not refusals.are_due(bucket, NOW + 5_000)
    assert refusals.remind(bucket, NOW + 5_000, came=True) == 4_000
    assert refusals.are_due(bucket, NOW + 9_000)
    refusals.take(bucket)
    assert refusals.remind(bucket, NOW + 9_000, came=True) is None
    assert refused(refusals, bucket, 9_001) == 5_000


@pytest.mark.parametrize("meanwhile", [0, 1])
def test_a_write_that_was_not_applied_leaves_them_due(buckets: Iterator[CachedBucket], meanwhile: int) -> None:
    refusals, bucket = PendingRefusals[Any](10), next(buckets)
    refused(refusals, bucket, 0)
    taken = refusals.take(bucket)
    for _ in range(meanwhile):
        assert refused(refusals, bucket, 3_000) is None
    refusals.put_back(bucket, taken)
    assert not refusals.are_due(bucket, NOW + 4_900)
    assert refusals.are_due(bucket, NOW + 5_000)
    assert refusals.remind(bucket, NOW + 5_000, came=True) == 5_000, "its write failed"
    assert refusals.take(bucket) == {"rj": 1 + meanwhile}


def test_the_buckets_that_wait_for_longest_are_forgotten_first(buckets: Iterator[CachedBucket]) -> None:
    refusals, mine = PendingRefusals[Any](3), [next(buckets) for _ in range(5)]
    for bucket in mine:
        refusals.add(bucket, NOW)
    assert [*refusals.counts] == mine[2:]


def test_threads_lose_none_and_count_none_twice(buckets: Iterator[CachedBucket]) -> None:
    refusals, bucket = PendingRefusals[Any](10), next(buckets)
    taken: list[int] = []

    def work(number: int) -> None:
        refusals.add(bucket, NOW)
        if number % 3 == 0:
            taken.append(refusals.take(bucket).get("rj", 0))
        if number % 7 == 0:
            refusals.put_back(bucket, refusals.take(bucket))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(20_000), chunksize=10))
    assert sum(taken) + refusals.take(bucket).get("rj", 0) == 20_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_begins_with_none(buckets: Iterator[CachedBucket]) -> None:
    refusals, bucket = PendingRefusals[Any](10), next(buckets)
    for _ in repeat(None, 5):
        refusals.add(bucket, NOW)
    child = os.fork()
    if not child:
        refusals.add(bucket, NOW)
        os._exit(refusals.take(bucket)["rj"])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert refusals.take(bucket) == {"rj": 5}
