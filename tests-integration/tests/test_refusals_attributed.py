"""What lives here: usage says who was refused, by which limit of which ancestor, exactly as callers were told.
What never does: how a process counts its refusals (core's test_refusals).
"""

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.integration.refused import MOVED, PARENTS, RESOURCE, Ledger, Place, move, prepare, refused
from support.integration.stream_reader import Record, records_of
from support.integration.targets import Target
from zae_limiter.values import EntityUsage
from zae_limiter_aggregator.handler import on_event

SECONDS = 4.0


def counted(usages: Iterable[EntityUsage]) -> Ledger:
    """What usage says of the keys."""
    ledger: Ledger = Counter()
    for each in usages:
        if each.entity_id in PARENTS:
            assert each.resource == RESOURCE
            ledger[each.entity_id,] += each.total_refused
            ledger.update({(each.entity_id, *refuser): number for refuser, number in each.refused_by.items()})
        else:
            assert each.refused_by == {}
    return ledger


def deliver_twice(records: list[Record], seed: int) -> None:
    """Batches cut by chance, each of which comes twice and overlaps the one before; then the whole stream once more."""
    chance, position = random.Random(seed), 0
    while position < len(records):
        end = position + chance.randint(1, 300)
        batch = records[max(0, position - chance.randint(1, 80)) : end]
        for _ in range(2):
            assert on_event({"Records": batch}, None) == {"batchItemFailures": []}
        position = end
    assert on_event({"Records": records}, None) == {"batchItemFailures": []}


def check_variety(ledger: Ledger) -> None:
    """The run is worth something: both parents refused, by both limits, and the moved key was refused by both."""
    above = {place for place in ledger if len(place) == 3 and place[1] != place[0]}
    assert {place[1:] for place in above} == {
        (parent, limit) for parent in PARENTS.values() for limit in ("rpm", "tpm")
    }
    assert {place[1] for place in above if place[0] == MOVED} == {*PARENTS.values()}


@pytest.mark.long(keep=1)
@pytest.mark.needs("endpoint", "atomic", "streams")
@pytest.mark.apart
async def test_caller_limit_and_ancestor_are_exact_behind_an_aggregator(
    target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert target.endpoint_url is not None
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", target.endpoint_url)
    place = Place(target.endpoint_url, table_name)
    async with await place.limiter() as limiter:
        await prepare(limiter)
        ledger = await refused(place, SECONDS, lambda: move(limiter))
        check_variety(ledger)
        deliver_twice(records_of(target.endpoint_url, table_name), seed=1)
        for window in ("hourly", "daily"):
            assert counted(await limiter.repository.get_top_usage(window=window)) == ledger


@pytest.mark.long
async def test_caller_limit_and_ancestor_are_exact_in_a_file(tmp_path: Path) -> None:
    place = Place(None, str(tmp_path / "limits.db"))
    async with await place.limiter() as limiter:
        await prepare(limiter)
        ledger = await refused(place, SECONDS, lambda: move(limiter))
        check_variety(ledger)
        for window in ("hourly", "daily"):
            assert counted(await limiter.repository.get_top_usage(window=window)) == ledger
