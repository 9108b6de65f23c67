"""What lives here: entities of several parents and levels, whose keys meet on the buckets above, on every store.
What never does: what a path costs (test_cost_tables), who may be above whom (core's test_lineage).
"""

import asyncio
from collections import Counter

import pytest

from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, ValidationError

pytestmark = pytest.mark.needs("atomic")

ABOVE = {
    "acme-corp": (),
    "user-7": ("acme-corp",),
    "team-blue": ("acme-corp",),
    "key-1": ("user-7", "team-blue"),
    "key-2": ("team-blue",),
    "key-3": ("team-blue", "user-7"),
}
MANY = Limit.custom("rpm", 1000, refill_amount=1, refill_period=10**8)
FEW = Limit.custom("rpm", 30, refill_amount=1, refill_period=10**8)
PATHS = {key: {key, *ABOVE[key], "acme-corp"} for key in ("key-1", "key-2", "key-3")}


async def grown(harness: Harness, count: int) -> list[RateLimiter]:
    """So many processes; the entities are there, and none of their buckets."""
    limiters = [await harness.open() for _ in range(count)]
    first = limiters[0]
    await first.set_resource_defaults("gpt-4", [MANY])
    for entity_id, parents in ABOVE.items():
        await first.create_entity(entity_id, parent_ids=parents, cascade=bool(parents))
    return limiters


async def take(limiter: RateLimiter, key: str, *, fails: bool = False) -> str | None:
    """Take one token; return who refused it. Raises nothing where the block ``fails``, which gives it back."""
    try:
        async with limiter.acquire(key, "gpt-4", {"rpm": 1}):
            if fails:
                raise ZeroDivisionError
    except RateLimitExceeded as refusal:
        return refusal.refused_by
    except ZeroDivisionError:
        return None
    return None


async def test_keys_that_meet_above_get_exactly_what_is_there_and_each_bucket_counts_its_own(harness: Harness) -> None:
    limiters = await grown(harness, 2)
    await limiters[0].set_limits("acme-corp", [FEW])
    calls = [(key, limiter) for _ in range(10) for key in PATHS for limiter in limiters]
    answers = await asyncio.gather(*(take(limiter, key) for key, limiter in calls))
    admitted = Counter(key for (key, _), answer in zip(calls, answers, strict=True) if answer is None)
    assert set(answers) == {None, "acme-corp"}
    assert admitted.total() == 30
    counted = {entity_id: harness.consumed(entity_id, "gpt-4", "rpm") for entity_id in ABOVE}
    assert counted == {
        entity_id: 1000 * sum(number for key, number in admitted.items() if entity_id in PATHS[key])
        for entity_id in ABOVE
    }


async def test_what_fails_comes_back_to_every_bucket(harness: Harness) -> None:
    limiters = await grown(harness, 2)
    await asyncio.gather(*(take(limiter, key, fails=True) for _ in range(5) for key in PATHS for limiter in limiters))
    await asyncio.gather(*(take(limiter, key) for key in PATHS for limiter in limiters))
    counted = {entity_id: harness.consumed(entity_id, "gpt-4", "rpm") for entity_id in ABOVE}
    assert counted == {entity_id: 2000 * sum(entity_id in path for path in PATHS.values()) for entity_id in ABOVE}


async def test_a_move_is_obeyed_by_the_next_call_of_the_process_and_by_new_ones(harness: Harness) -> None:
    [limiter] = await grown(harness, 1)
    await take(limiter, "key-1")
    await limiter.create_entity("umbrella")
    await limiter.repository.update_entity("team-blue", parent_ids=["umbrella"])
    await take(limiter, "key-1")
    await limiter.repository.update_entity("user-7", parent_ids=["umbrella"])
    late = await harness.open()
    await take(late, "key-1")
    counted = {each: harness.consumed(each, "gpt-4", "rpm") for each in ("key-1", "acme-corp", "umbrella")}
    assert counted == {"key-1": 3000, "acme-corp": 2000, "umbrella": 2000}
    with pytest.raises(ValidationError, match="no entity can be above itself"):
        await limiter.repository.update_entity("umbrella", parent_ids=["key-1"])
