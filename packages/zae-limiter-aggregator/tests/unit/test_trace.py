"""What a namespace's trace keeps, and what a replay makes of it beside the truth."""

import gzip
from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from support.aggregator.lives import SETTINGS, START_MS, Life
from zae_limiter import Limit, RateLimitExceeded
from zae_limiter.maintenance import (
    TRACE_PREFIX,
    BucketLimits,
    BucketReplay,
    Judged,
    SyncMaintenance,
    TracedWrite,
    TracePage,
    is_traced,
    read_trace,
    run,
    set_trace,
)

HOUR = "2024-01-01T13"


def traced_life(permille: int = 1000) -> Life:
    life = Life()
    run(life.repository, set_trace("default", permille))
    return life


def calls(life: Life, entity_id: str, number: int = 1, **consume: int) -> int:
    """Make calls, and return how many were refused."""
    refused = number
    for _ in range(number):
        with suppress(RateLimitExceeded), life.limiter.acquire(entity_id, "gpt-4", consume or {"rpm": 1}):
            refused -= 1
    return refused


def kept(life: Life) -> list[TracePage]:
    return [each for body in life.kept.values() for each in read_trace(gzip.decompress(body).decode())]


def writes(life: Life, entity_id: str) -> list[tuple[tuple[str, ...], TracedWrite]]:
    """Return what is known of an entity, each write once, in the order of time, as a reader has it."""
    found = {}
    for page in kept(life):
        for values in page.writes:
            write = TracedWrite(*values[:8])
            if page.buckets[write.place] == (entity_id, "gpt-4"):
                found[write.mark] = (page.limits, write)
    return [found[mark] for mark in sorted(found)]


def replayed(life: Life, entity_id: str, *limits: Limit) -> Judged:
    replay = BucketReplay(BucketLimits(entity_id, "gpt-4", limits), 0)
    for names, write in writes(life, entity_id):
        replay.write(write.at_ms, names, write)
    return replay.judged()


def test_a_trace_has_time_amounts_and_counts_of_each_write() -> None:
    life = traced_life()
    with life.limiter.acquire("key", "gpt-4", {"rpm": 1, "tpm": 500}) as lease:
        life.clock.advance(1)
        lease.adjust(tpm=-100)
    account = life.drain()
    assert account.traced == 2
    ((names, first), (_, second)) = writes(life, "key")
    assert names == ("rpm", "tpm")
    assert (first.at_ms, *first[3:]) == (START_MS, 1, 0, 0, 1, (1000, 500_000))
    assert (second.at_ms, *second[3:]) == (START_MS + 1000, 0, 0, 0, 0, (0, -100_000))


def test_no_namespace_keeps_a_trace_unless_it_says_so() -> None:
    life = Life()
    calls(life, "key")
    assert (life.drain().traced, life.puts) == (0, 0)
    run(life.repository, set_trace("default", 1000))
    assert life.drain().traced == 1
    run(life.repository, set_trace("default", 0))
    assert life.drain().traced == 0


def test_without_an_archive_no_trace_is_kept() -> None:
    life = traced_life()
    life.settings = type(SETTINGS)(stack="demo")
    calls(life, "key")
    account = life.drain()
    assert (account.traced, account.failures, account.dropped) == (0, (), 0)


def test_a_share_of_the_entities_is_kept_and_the_same_ones_always() -> None:
    names = [f"key-{number}" for number in range(400)]
    some, more = ({name for name in names if is_traced(name, share)} for share in (100, 300))
    assert 20 < len(some) < 60 < len(more) < 170
    assert some < more
    life = traced_life(100)
    for name in names[:60]:
        calls(life, name)
    life.drain()
    assert {entity for page in kept(life) for entity, _ in page.buckets} == some & set(names[:60])


def test_an_object_has_the_writes_of_one_namespace_and_one_hour() -> None:
    life = traced_life()
    calls(life, "key", 2)
    life.clock.advance(10 * 60)  # to 14:00:00
    calls(life, "key")
    life.drain()
    ids = life.repository.namespace_id
    assert [key.rsplit("/", 1)[0] for key in life.kept] == [
        f"{TRACE_PREFIX}{ids}/{hour}" for hour in (HOUR, "2024-01-01T14")
    ]


def test_however_the_stream_comes_each_write_is_known_once() -> None:
    life = traced_life()
    for second in range(9):
        calls(life, "key", 1, rpm=second + 1)
        life.clock.advance(1)
    records = list(life.stream)
    for batch in (records[:5], records[2:7], records, records[6:]):
        life.take(batch)
    assert [write.amounts for _, write in writes(life, "key")] == [(1000 * each,) for each in range(1, 10)]
    again = dict(life.kept)
    life.take(records)
    assert life.kept == again


def test_a_trace_that_cannot_be_put_holds_nothing_up() -> None:
    life = traced_life()
    calls(life, "key")

    def put(**_: Any) -> None:
        raise OSError("no such bucket")

    account = life.aggregator(put=put).process(list(life.stream))
    assert (account.traced, account.dropped, account.failures, account.dead_letters) == (0, 1, (), ())
    assert len(life.usage("key")) == 1


def test_a_damaged_count_leaves_the_trace_readable() -> None:
    life = traced_life()
    calls(life, "key", 2)
    life.stream[-1]["dynamodb"]["NewImage"]["ev"] = {"N": str(10**15)}
    life.stream[-1]["dynamodb"]["NewImage"]["rj"] = {"N": str(10**15)}
    life.drain()
    assert [write.admitted for _, write in writes(life, "key")] == [1, 10**6]


def test_a_purged_namespace_keeps_no_trace() -> None:
    life = traced_life()
    calls(life, "key")
    records = list(life.stream)
    life.repository.delete_namespace("default")
    SyncMaintenance(life.repository).purge_namespace(life.repository.namespace_id)
    assert (life.take(records).traced, life.puts) == (0, 0)


def test_a_recovered_namespace_goes_on_keeping_it() -> None:
    life = traced_life()
    life.repository.delete_namespace("default")
    SyncMaintenance(life.repository).recover_namespace(life.repository.namespace_id)
    calls(life, "key")
    assert life.drain().traced == 1


STRICT = 5
KINDS = {
    "token_bucket": lambda amount: Limit.custom("rpm", amount, refill_period=30),
    "calendar": lambda amount: Limit.custom("rpm", amount, kind="calendar", window="minute"),
    "first_use": lambda amount: Limit.custom("rpm", amount, kind="first_use", refill_period=20),
    "total": lambda amount: Limit.total("rpm", 4 * amount),
}


def history(seed: int, sizes: Sequence[int]) -> Iterable[tuple[int, int]]:
    random = Random(seed)
    for _ in range(150):
        yield random.choice((0, 0, 1, 2, 9, 40)), random.choice(sizes)


def live(limit: Limit, seed: int, sizes: Sequence[int] = (1, 1, 2, 5)) -> tuple[Life, list[bool]]:
    """Return what a limiter did with a history of calls in whole seconds, and which it admitted."""
    life = traced_life()
    life.repository.set_limits("key", [limit])
    admitted = []
    for seconds, amount in history(seed, sizes):
        life.clock.advance(seconds)
        admitted.append(not calls(life, "key", 1, rpm=amount))
    life.drain()
    return life, admitted


@pytest.mark.long(keep=6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_no_verdict_on_a_trace_differs_from_that_of_a_limiter_that_gets_the_same_calls(kind: str, seed: int) -> None:
    life, admitted = live(KINDS[kind](10**6), seed)
    assert all(admitted)
    strict = KINDS[kind](STRICT)
    _, again = live(strict, seed)
    refused = again.count(False)
    assert 0 < refused < len(again)
    assert replayed(life, "key", strict) == Judged(len(again), 0, refused, refused, {"rpm": (refused, refused)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_the_limits_of_then_refuse_again_what_they_refused(kind: str, seed: int) -> None:
    limit = KINDS[kind](STRICT)
    life, admitted = live(limit, seed, sizes=(1,))
    told = sum(write.refused for _, write in writes(life, "key"))
    assert 0 < told <= admitted.count(False), "the last ones are told with the next write"
    found = replayed(life, "key", limit)
    assert found == Judged(admitted.count(True) + told, told, told, told, {"rpm": (told, told)})
