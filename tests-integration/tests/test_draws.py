"""What lives here: calls that draw on further buckets by `draws` and meet there, on every store; requests that fail.
What never does: what a draw costs (test_cost_tables), every rule of draws (core's test_draws).
"""

import asyncio
from collections import Counter

import pytest

from support.integration.harness import Harness
from support.integration.proxy import Fault, Kind, Proxy
from zae_limiter import Draw, Limit, RateLimiter, RateLimiterUnavailable, RateLimitExceeded

pytestmark = pytest.mark.needs("atomic")

MANY = Limit.custom("rpm", 1000, refill_amount=1, refill_period=10**8)
FEW = Limit.custom("rpm", 30, refill_amount=1, refill_period=10**8)
KEYS = ("key-1", "key-2", "key-3")
DRAWS = [Draw("user-7"), Draw(resource="embeddings", consume={"rpm": 2})]
OTHERS = [Draw("key-1"), Draw("user-7", "embeddings")]  # the own bucket of one is a draw of another
ENDS = [("key-1", [Draw("key-2")]), ("key-2", [Draw("key-1")])]


async def processes(harness: Harness, count: int, **options: object) -> list[RateLimiter]:
    """So many processes, over a table without buckets."""
    limiters = [await harness.open(**options) for _ in range(count)]  # type: ignore[arg-type]
    await limiters[0].set_system_defaults([MANY])
    return limiters


async def take(limiter: RateLimiter, key: str, draws: list[Draw], *, fails: bool = False) -> str:
    """Take one token; return ``admitted``, or who refused it. Where the block ``fails``, everything comes back."""
    try:
        async with limiter.acquire(key, "gpt-4", {"rpm": 1}, draws=draws) as lease:
            if fails:
                await lease.draw(draws[0].entity_id).consume(rpm=2)
                await lease.draw(draws[0].entity_id).settle(rpm=1)
                raise ZeroDivisionError
    except RateLimitExceeded as refusal:
        return refusal.refused_by
    except ZeroDivisionError:
        return "failed"
    return "admitted"


def counted(harness: Harness, *places: tuple[str, str]) -> list[int]:
    return [harness.consumed(*place, "rpm") // 1000 for place in places]


async def test_calls_that_meet_on_a_draw_get_exactly_what_is_there(harness: Harness) -> None:
    limiters = await processes(harness, 3)
    await limiters[0].set_limits("user-7", [FEW])
    calls = [(key, limiter) for _ in range(8) for key in KEYS for limiter in limiters]
    answers = await asyncio.gather(*(take(limiter, key, DRAWS) for key, limiter in calls))
    admitted = Counter(key for (key, _), answer in zip(calls, answers, strict=True) if answer == "admitted")
    assert set(answers) == {"admitted", "user-7"}
    assert admitted.total() == 30
    assert counted(harness, ("user-7", "gpt-4")) == [admitted.total()]
    assert counted(harness, *((key, "gpt-4") for key in KEYS)) == [admitted[key] for key in KEYS]
    assert counted(harness, *((key, "embeddings") for key in KEYS)) == [2 * admitted[key] for key in KEYS]


async def test_calls_from_both_ends_neither_block_each_other_nor_take_too_much(harness: Harness) -> None:
    limiters = await processes(harness, 2)
    await limiters[0].set_limits("key-1", [FEW])
    calls = [take(limiter, key, draws) for _ in range(10) for limiter in limiters for key, draws in ENDS]
    answers = Counter(await asyncio.gather(*calls))
    assert answers["admitted"] <= 30
    assert counted(harness, ("key-1", "gpt-4")) == [answers["admitted"]]


async def test_what_fails_comes_back_to_every_bucket(harness: Harness) -> None:
    limiters = await processes(harness, 2)
    calls = [
        (limiter, key, draws) for _ in range(4) for limiter in limiters for key in KEYS[1:] for draws in (DRAWS, OTHERS)
    ]
    await asyncio.gather(*(take(*call, fails=True) for call in calls))
    await asyncio.gather(*(take(*call) for call in calls))
    places = [(key, "gpt-4") for key in (*KEYS, "user-7")] + [(key, "embeddings") for key in (*KEYS[1:], "user-7")]
    assert counted(harness, *places) == [16, 16, 16, 16, 16, 16, 16]


@pytest.mark.long(keep=9)
@pytest.mark.needs("endpoint")
@pytest.mark.parametrize("kind", ["drop", "throttle", "late"])
@pytest.mark.parametrize("broken", [("key-1", "gpt-4"), ("user-7", "gpt-4"), ("key-1", "embeddings")])
async def test_a_request_that_fails_takes_nothing_from_the_others(
    harness: Harness, proxy: Proxy, kind: Kind, broken: tuple[str, str]
) -> None:
    [limiter] = await processes(harness, 1, endpoint_url=proxy.url, read_timeout=2.0)
    places = [("key-1", "gpt-4"), ("user-7", "gpt-4"), ("key-1", "embeddings")]
    async with limiter.acquire("key-1", "gpt-4", {"rpm": 1}, draws=DRAWS):
        pass
    before = counted(harness, *places)
    assert before == [1, 1, 2]
    proxy.faults.append(Fault(kind, "UpdateItem", "#".join(broken), seconds=4.0))
    with pytest.raises(RateLimiterUnavailable):
        async with limiter.acquire("key-1", "gpt-4", {"rpm": 1}, draws=DRAWS):
            pass
    proxy.clear()
    await limiter.close()  # gives back what waits for it
    lost = [place for place, old, new in zip(places, before, counted(harness, *places), strict=True) if old != new]
    assert lost == ([broken] if kind == "late" else [])  # it was written, and nobody knows
