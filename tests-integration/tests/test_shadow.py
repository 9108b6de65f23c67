"""What lives here: shadow limits over real tables: several processes, hot buckets, shards, changes, usage.
What never does: shadow limits of a manifest (test_declared_shadow), simulated time (core's simulation).
"""

import asyncio
from dataclasses import replace

import pytest

from support.integration.harness import Harness
from support.integration.stream_reader import records_of
from support.integration.targets import Target
from support.integration.trials import CALLERS, Trial, shadowed
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.clock.system import SystemClock
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.flows.steps import Log, Sleep, play
from zae_limiter.schema.items import BucketId
from zae_limiter_aggregator.handler import on_event

pytestmark = pytest.mark.needs("atomic")

TEN_YEARS = 10 * 365 * 24 * 3600
TRIED = Limit.custom("tpm", 300, refill_amount=1, refill_period=TEN_YEARS, shadow=True)
ENFORCED = Limit.custom("rpm", 10_000, refill_amount=1, refill_period=TEN_YEARS)


async def take(limiter: RateLimiter, amount: int) -> bool:
    """Whether a shadow limit would have refused the acquire."""
    async with limiter.acquire("key", "gpt-4", {"tpm": amount}) as lease:
        return bool(lease.shadowed)


@pytest.mark.long(keep=1)
@pytest.mark.needs("endpoint")
@pytest.mark.parametrize("variant", ["async"], indirect=True)
@pytest.mark.parametrize("beside", [ENFORCED, replace(ENFORCED, shadow=True)], ids=["enforced", "shadow"])
async def test_processes_try_a_limit_together_and_enforce_what_is_left(harness: Harness, beside: Limit) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [TRIED, beside])
    trial = Trial(harness.target.endpoint_url or "", harness.table_name, 20)
    acquires = trial.processes * CALLERS * trial.acquires
    found = await asyncio.to_thread(shadowed, trial)
    item = harness.bucket("key", "gpt-4")
    assert item is not None
    assert (item["ev"], item["sj"]) == (acquires, found)
    assert item["b_tpm_tc"] == item["b_rpm_tc"] == 1000 * acquires
    granted = acquires - found
    assert item["b_tpm_tk"] // 1000 == 300 - granted
    assert 300 <= granted <= 300 + 4 * (trial.processes - 1) * CALLERS  # what others took since a process's last write
    await limiter.set_resource_defaults("gpt-4", [replace(TRIED, shadow=False), ENFORCED])
    with pytest.raises(RateLimitExceeded):
        await take(await harness.open(), 1)


@pytest.mark.needs("endpoint")
async def test_callers_of_a_hot_bucket_share_writes(harness: Harness) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [TRIED])
    await take(limiter, 1)
    harness.meter.reset()
    found = await asyncio.gather(*(take(limiter, 10) for _ in range(100)))
    assert sum(found) == 100 - 29
    assert harness.meter.snapshot().requests["UpdateItem"] <= 50
    item = harness.bucket("key", "gpt-4") or {}
    assert (item["sj"], item["ev"], item["b_tpm_tk"] // 1000, item["b_tpm_tc"]) == (71, 101, 9, 1_001_000)


async def test_shards_decide_together_and_one_write_takes(harness: Harness) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [TRIED])
    assert not await take(limiter, 1)
    aside = NamespaceState(
        "default", harness.namespace_id, stack="aside", now=SystemClock().now_ms, settings=Settings()
    )
    flow = split_shard(aside, BucketId(harness.namespace_id, "key", "gpt-4", 0))
    play(flow, lambda step: None if isinstance(step, (Sleep, Log)) else harness.perform(step))
    newcomer = await harness.open()
    harness.meter.reset()
    assert not await take(newcomer, 250)  # each shard has 149 or 150
    assert harness.meter.snapshot().requests["UpdateItem"] == 1
    assert await take(newcomer, 250)
    assert await newcomer.available("key", "gpt-4") == {"tpm": 49}
    bucket = await newcomer.repository.get_bucket("key", "gpt-4")
    assert bucket is not None
    assert (bucket.limits[0].consumed, bucket.shadowed) == (501, 1)


async def test_a_limit_that_changes_during_its_trial_keeps_its_tokens(harness: Harness) -> None:
    limiter, other = await harness.open(), await harness.open()
    await limiter.set_resource_defaults("gpt-4", [TRIED])
    assert not await take(other, 250)
    await limiter.set_resource_defaults("gpt-4", [replace(TRIED, capacity=400, burst=400)])
    assert await take(limiter, 60)
    assert not await take(limiter, 40)
    assert await take(other, 60)  # by the limit that it has read
    assert await limiter.available("key", "gpt-4") == {"tpm": 10}
    await limiter.set_resource_defaults("gpt-4", [replace(TRIED, capacity=400, burst=400, shadow=False)])
    with pytest.raises(RateLimitExceeded):
        await take(limiter, 11)
    assert not await take(limiter, 10)


@pytest.mark.needs("endpoint")
@pytest.mark.parametrize("variant", ["async"], indirect=True)
async def test_usage_shows_what_would_have_been_refused(
    harness: Harness, target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert target.endpoint_url is not None
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", target.endpoint_url)
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [TRIED])
    for _ in range(4):
        await take(limiter, 150)
    async with limiter.acquire("quiet", "gpt-4", {"tpm": 1}):
        pass
    assert not on_event({"Records": records_of(target.endpoint_url, table_name)}, None)["batchItemFailures"]
    summary = await limiter.repository.get_usage_summary(entity_id="key", resource="gpt-4")
    assert (summary.total_events, summary.total_refused, summary.total_shadowed) == (4, 0, 2)
    top = await limiter.repository.get_top_usage("gpt-4", by="total_shadowed")
    assert [(each.entity_id, each.total_shadowed, each.consumed) for each in top] == [("key", 2, {"tpm": 600})]
