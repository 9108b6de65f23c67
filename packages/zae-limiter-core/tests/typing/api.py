"""The public types: mypy checks this file, and nothing runs it.

``assert_type`` holds what a call gives. A line with ``type: ignore[code]`` is a call that has to fail the check: mypy
reports an ignore that is not needed.
"""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import UTC, datetime
from typing import assert_type

from zae_limiter import (
    Check,
    Clock,
    Draw,
    DrawLease,
    Entity,
    Estimate,
    Explanation,
    Lease,
    Limit,
    LimitStatus,
    OnRefused,
    Options,
    Override,
    RateLimiter,
    RateLimitExceeded,
    Repository,
    Store,
    SyncDrawLease,
    SyncLease,
    SyncRateLimiter,
    SyncRepository,
    SyncStore,
    TokenUsage,
)
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.memory.store import MemoryStore, SyncMemoryStore
from zae_limiter.maintenance import InvalidatedBuckets, LiveBuckets, Maintenance, SyncMaintenance
from zae_limiter.observers import AcquireEvent, Event
from zae_limiter.observers.emf import EmbeddedMetricsObserver
from zae_limiter.settings import InMemoryOptions, OpenOptions
from zae_limiter.testing import ManualClock
from zae_limiter.values import (
    AuditPage,
    Bucket,
    BucketExplanation,
    BucketPage,
    BulkResult,
    CacheStats,
    EntityPage,
    EntityUsage,
    LevelLimits,
    Namespace,
    ResourceCapacity,
    StoreStats,
    SystemDefaults,
    UsagePage,
    UsageSnapshot,
    UsageSummary,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = [Limit.per_minute("rpm", 10), Limit.custom("tpm", 100, burst=200, refill_amount=50, refill_period=60)]


async def a_repository_opens_with_the_options_that_there_are() -> None:
    assert_type(await Repository.open(), Repository)
    assert_type(await Repository.open("prod", stack="limits", region="eu-west-1", register=False), Repository)
    await Repository.open(clock=ManualClock(), profile=None, acquire_timeout=None, on_unavailable="allow")
    await Repository.open(max_conections=5)  # type: ignore[call-arg]
    await Repository.open(max_connections="5")  # type: ignore[arg-type]
    await Repository.open(bucket_ttl_multiplier=1.5)  # type: ignore[arg-type]
    await Repository.open(count_units="yes")  # type: ignore[arg-type]
    await Repository.open(on_unavailable="deny")  # type: ignore[arg-type]
    await Repository.open(read_timeout=None)  # type: ignore[arg-type]
    await Repository.open("prod", "limits")  # type: ignore[call-arg]
    Repository.open().name  # type: ignore[attr-defined]  # noqa: B018


def an_observer_takes_any_event(repository: Repository, sync_repository: SyncRepository) -> None:
    seen: list[Event] = []

    def of_acquires(event: AcquireEvent) -> None:
        assert_type(event.violations, tuple[LimitStatus, ...])

    RateLimiter(repository, observers=[seen.append, EmbeddedMetricsObserver()])
    SyncRateLimiter(sync_repository, observers=[seen.append, print])
    RateLimiter(repository, observers=[of_acquires])  # type: ignore[list-item]
    RateLimiter(repository, observers=seen.append)  # type: ignore[arg-type]


async def an_acquire_waits(limiter: RateLimiter, sync_limiter: SyncRateLimiter) -> None:
    async with limiter.acquire("e", "r", {"rpm": 1}, max_wait=30) as lease:
        assert_type(lease.waited, float)
        assert_type(lease.entity_id, str)
        await lease.settle(rpm=2)
        await lease.settle(TokenUsage(input=1, output=2), rpm=2)
        await lease.settle({"input": 1})  # type: ignore[arg-type]
        assert_type(lease.would_exceed(TokenUsage(output=2), rpm=2), tuple[LimitStatus, ...])
    assert_type(limiter.estimate("r", default=1, most=2, model="m"), Estimate)
    limiter.acquire("e", "r", {"rpm": 1, "tpm": limiter.estimate("r", default=1, most=2, quantile=0.9)})
    limiter.estimate("r", default=1)  # type: ignore[call-arg]
    Limit.per_day("tpm", 100, weights={"input": 1, "cached": 0.1})
    Limit.per_day("tpm", 100, weights={"input": "1"})  # type: ignore[dict-item]
    limiter.acquire("e", "r", {"rpm": 1}, max_wait="30")  # type: ignore[arg-type]
    limiter.acquire("e", "r", {"rpm": 1}, on_refused=OnRefused(wait=2, overflow="credits"))
    limiter.acquire("e", "r", {"rpm": 1}, on_refused=OnRefused(overflow="credits", at="80%"))
    limiter.acquire("e", "r", {"rpm": 1}, on_refused="credits")  # type: ignore[arg-type]

    @limiter.limit("e", "r", {"rpm": 1}, max_wait=30.0)
    async def double(number: int) -> int:
        return 2 * number

    assert_type(await double(3), int)
    await double("3")  # type: ignore[arg-type]
    limiter.limit("e", "r", {"rpm": 1}, max_wiat=30.0)  # type: ignore[call-arg]

    @sync_limiter.limit(lambda number: f"user-{number}", "r", {"rpm": 1})
    def sync_double(number: int) -> int:
        return 2 * number

    assert_type(sync_double(3), int)


def a_sync_repository_opens_with_the_options_that_there_are() -> None:
    assert_type(SyncRepository.open(), SyncRepository)
    assert_type(SyncRepository.open("prod", stack="limits", region="eu-west-1", register=False), SyncRepository)
    SyncRepository.open(clock=ManualClock(), profile=None, acquire_timeout=None, on_unavailable="allow")
    SyncRepository.open(max_conections=5)  # type: ignore[call-arg]
    SyncRepository.open(max_connections="5")  # type: ignore[arg-type]
    SyncRepository.open(bucket_ttl_multiplier=1.5)  # type: ignore[arg-type]
    SyncRepository.open(on_unavailable="deny")  # type: ignore[arg-type]
    SyncRepository.open(read_timeout=None)  # type: ignore[arg-type]
    SyncRepository.open("prod", "limits")  # type: ignore[call-arg]


def a_repository_in_memory_is_made_with_the_options_that_there_are() -> None:
    assert_type(Repository.in_memory("test", clock=ManualClock(), split_above=100), Repository)
    assert_type(SyncRepository.in_memory("test", clock=ManualClock(), split_above=100), SyncRepository)
    Repository.in_memory(split_abvoe=100)  # type: ignore[call-arg]
    SyncRepository.in_memory(split_abvoe=100)  # type: ignore[call-arg]
    Repository.in_memory(config_cache_ttl="60")  # type: ignore[arg-type]
    SyncRepository.in_memory(config_cache_ttl="60")  # type: ignore[arg-type]
    Repository.in_memory(None)  # type: ignore[arg-type]
    SyncRepository.in_memory(None)  # type: ignore[arg-type]
    Repository.in_memory(clock=lambda: 0)  # type: ignore[arg-type]
    SyncRepository.in_memory(clock=lambda: 0)  # type: ignore[arg-type]


async def options_are_passed_on_with_their_types(to_open: OpenOptions, to_memory: InMemoryOptions) -> None:
    await Repository.open("prod", **to_open)
    SyncRepository.open("prod", **to_open)
    Repository.in_memory("test", **to_memory)
    SyncRepository.in_memory("test", **to_memory)
    OpenOptions(split_above=100, clock=ManualClock())
    OpenOptions(split_abvoe=100)  # type: ignore[typeddict-unknown-key]
    InMemoryOptions(max_connections="5")  # type: ignore[typeddict-item]


async def options_are_one_value(store: Store, sync_store: SyncStore, options: Options) -> None:
    assert_type(options.stack_name, str)
    assert_type(await Repository.over(store, options), Repository)
    assert_type(SyncRepository.over(sync_store, options), SyncRepository)
    Options("limits")  # type: ignore[call-arg]
    Options(stak="limits")  # type: ignore[call-arg]
    options.stack = "limits"  # type: ignore[misc]


async def a_builder_sets_one_option_at_a_time() -> None:
    builder = Repository.builder().stack("limits").namespace("prod").acquire_timeout(None).on_unavailable("block")
    assert_type(await builder.build(), Repository)
    sync_builder = SyncRepository.builder().stack("limits").namespace("prod").acquire_timeout(None).create_table()
    assert_type(sync_builder.build(), SyncRepository)
    builder.split_above("100")  # type: ignore[arg-type]
    sync_builder.on_unavailable("deny")  # type: ignore[arg-type]


def a_store_has_one_variant(store: Store, sync_store: SyncStore) -> None:
    stores: list[Store] = [MemoryStore(), DynamoDBStore("limits")]
    sync_stores: list[SyncStore] = [SyncMemoryStore(), SyncDynamoDBStore("limits")]
    stores.append(sync_store)  # type: ignore[arg-type]
    sync_stores.append(store)  # type: ignore[arg-type]


def a_limiter_takes_a_repository_of_its_own_variant(repository: Repository, sync_repository: SyncRepository) -> None:
    assert_type(RateLimiter(repository, default_limits=LIMITS), RateLimiter)
    assert_type(SyncRateLimiter(sync_repository, default_limits=LIMITS), SyncRateLimiter)
    RateLimiter(sync_repository)  # type: ignore[arg-type]
    SyncRateLimiter(repository)  # type: ignore[arg-type]
    assert_type(RateLimiter(repository, shadow=True), RateLimiter)
    assert_type(SyncRateLimiter(sync_repository, shadow=True), SyncRateLimiter)
    RateLimiter(repository, shadow="yes")  # type: ignore[arg-type]
    RateLimiter(repository, LIMITS)  # type: ignore[call-arg]
    RateLimiter(repository, default_limits=LIMITS[0])  # type: ignore[arg-type]


async def a_lease_is_entered_with_the_word_of_its_variant(limiter: RateLimiter, sync_limiter: SyncRateLimiter) -> None:
    waiting: AbstractAsyncContextManager[Lease] = limiter.acquire("user", "api", {"rpm": 1})
    blocking: AbstractContextManager[SyncLease] = sync_limiter.acquire("user", "api", {"rpm": 1})
    async with waiting as lease:
        assert_type(lease, Lease)
        assert_type(await lease.consume(rpm=1), None)
        await lease.adjust(rpm=-1)
        await lease.release(rpm=1)
        await lease.consume(rpm=0.5)  # type: ignore[arg-type]
        lease.consumed = {}  # type: ignore[misc]
        assert_type(lease.consumed, dict[str, int])
        assert_type(lease.statuses, list[LimitStatus])
        assert_type(lease.degraded, bool)
        assert_type(lease.corrected, bool)
        assert_type(lease.draw("team", resource="api"), DrawLease)
        assert_type(await lease.draws[0].consume(rpm=1), None)
        lease.keep()
    with blocking as sync_lease:
        assert_type(sync_lease, SyncLease)
        sync_lease.consume(rpm=1)
        sync_lease.consume(rpm=0.5)  # type: ignore[arg-type]
        assert_type(sync_lease.statuses, list[LimitStatus])
        assert_type(sync_lease.draws, tuple[SyncDrawLease, ...])
    with limiter.acquire("user", "api", {"rpm": 1}):  # type: ignore[attr-defined]
        pass
    async with sync_limiter.acquire("user", "api", {"rpm": 1}):  # type: ignore[attr-defined]
        pass


async def an_acquire_takes_the_options_that_there_are(limiter: RateLimiter, sync_limiter: SyncRateLimiter) -> None:
    limiter.acquire("user", "api", {"rpm": 1}, LIMITS, cascade=True, on_unavailable="allow", rollback=False)
    sync_limiter.acquire("user", "api", {"rpm": 1}, LIMITS, cascade=True, on_unavailable="allow", rollback=False)
    limiter.acquire("user", "api", {"rpm": 1}, cascades=True)  # type: ignore[call-arg]
    sync_limiter.acquire("user", "api", {"rpm": 1}, cascades=True)  # type: ignore[call-arg]
    limiter.acquire("user", "api", {"rpm": 0.5})  # type: ignore[dict-item]
    sync_limiter.acquire("user", "api", {"rpm": 0.5})  # type: ignore[dict-item]
    limiter.acquire("user", "api")  # type: ignore[call-arg]
    sync_limiter.acquire("user", "api", {"rpm": 1}, on_unavailable="deny")  # type: ignore[arg-type]


async def a_limiter_answers_without_taking(limiter: RateLimiter, sync_limiter: SyncRateLimiter) -> None:
    assert_type(await limiter.available("user", "api"), dict[str, int])
    assert_type(await limiter.time_until_available("user", "api", {"rpm": 1}), float)
    assert_type((await limiter.check("user", "api", {"rpm": 1})).passes, bool)
    assert_type(sync_limiter.available("user", "api"), dict[str, int])
    assert_type(sync_limiter.time_until_available("user", "api", {"rpm": 1}), float)
    assert_type(sync_limiter.check("user", "api", {"rpm": 1}).passes, bool)
    assert_type(await limiter.explain("user", "api"), Explanation)
    assert_type(await limiter.check("user", "api", draws=[Draw("team")]), Check)
    assert_type(sync_limiter.check("user", "api", {"rpm": 1}).statuses, tuple[LimitStatus, ...])
    assert_type(sync_limiter.explain("user", "api", {"rpm": 1}, cascade=True).buckets, tuple[BucketExplanation, ...])


async def a_refusal_says_when_and_why(refusal: RateLimitExceeded) -> None:
    assert_type(refusal.retry_after_seconds, float)
    assert_type(refusal.retry_after_header, str | None)
    assert_type(refusal.statuses, tuple[LimitStatus, ...])


async def a_repository_keeps_limits(repository: Repository, sync_repository: SyncRepository) -> None:
    assert_type(await repository.get_limits("user", "api"), LevelLimits)
    assert_type(sync_repository.get_limits("user", "api"), LevelLimits)
    assert_type(sync_repository.get_system_defaults(), SystemDefaults)
    assert_type(sync_repository.set_many_limits({("user", "api"): LIMITS}), BulkResult[tuple[str, str]])
    await repository.set_limits("user", LIMITS, "api", principal="ops")
    await repository.set_limits("user", LIMITS, "api", "ops")  # type: ignore[call-arg, arg-type]
    sync_repository.set_limits("user", [("rpm", 10)])  # type: ignore[list-item]
    sync_repository.set_limits("user", LIMITS, override_until="2h")  # type: ignore[arg-type]
    assert_type(sync_repository.get_override("user"), Override | None)


async def a_repository_keeps_records(repository: Repository, sync_repository: SyncRepository) -> None:
    assert_type(await repository.create_entity("user", parent_id="project", cascade=True), Entity)
    assert_type(sync_repository.get_entity("user"), Entity | None)
    assert_type(await repository.update_entity("user", name="User", expected_version=1), Entity)
    assert_type(sync_repository.get_children("project"), list[Entity])
    assert_type(sync_repository.list_entities(begins_with="user"), EntityPage)
    assert_type(await repository.list_buckets("api", limit=10), BucketPage)
    assert_type(await repository.create_entity("key", parent_ids=("user", "team")), Entity)
    assert_type(await repository.update_entity("key", parent_ids=["team"]), Entity)
    assert_type(sync_repository.get_ancestors("key"), list[Entity])
    await repository.create_entity("key", parent_ids=7)  # type: ignore[arg-type]
    assert_type(sync_repository.get_bucket("user", "api"), Bucket | None)
    assert_type(await Maintenance(repository).get_buckets_at([("user", "api")]), list[Bucket])
    assert_type(await Maintenance(repository).get_last_calls(["user"]), dict[str, UsageSnapshot])
    assert_type(sync_repository.get_resource_capacity("api"), ResourceCapacity)
    assert_type(sync_repository.get_namespace_audit_events(AT, kind="limits"), AuditPage)
    sync_repository.get_namespace_audit_events(AT, kind="limit")  # type: ignore[arg-type]
    assert_type(SyncMaintenance(sync_repository).count_live_buckets("api"), LiveBuckets)
    assert_type(await Maintenance(repository).invalidate_live_buckets(writes_per_second=100), InvalidatedBuckets)
    assert_type(sync_repository.get_audit_events("user", limit=10), AuditPage)
    assert_type(sync_repository.get_usage_snapshots(entity_id="user"), UsagePage)
    assert_type(sync_repository.get_usage_summary(entity_id="user"), UsageSummary)
    assert_type(sync_repository.get_top_usage("api", by="rpm"), tuple[EntityUsage, ...])
    sync_repository.get_top_usage("api", "rpm")  # type: ignore[call-arg]
    assert_type(sync_repository.list_namespaces(), list[Namespace])
    assert_type(sync_repository.namespace("other"), SyncRepository)
    assert_type(sync_repository.get_cache_stats(), CacheStats)
    assert_type(sync_repository.get_store_stats(), StoreStats)
    sync_repository.create_entity("user", metadata={"tier": object()})  # type: ignore[dict-item]
    sync_repository.update_entity("user", expected_version="1")  # type: ignore[arg-type]


def a_limit_is_whole_numbers_and_stays_as_it_is() -> None:
    assert_type(LIMITS[0]._ceiling_milli, int)
    assert_type(Limit.per_minute("rpm", 1, shadow=True), Limit)
    Limit.per_minute("rpm", 1, shadow="yes")  # type: ignore[arg-type]
    assert_type(Limit.per_minute("rpm", 60, prefetch=1), Limit)
    Limit.per_minute("rpm", 60, prefetch="1")  # type: ignore[arg-type]
    Limit.per_minute("rpm", 1.5)  # type: ignore[arg-type]
    Limit.per_minute("rpm", 10, 20)  # type: ignore[call-arg]
    LIMITS[0].capacity = 20  # type: ignore[misc]


def a_clock_is_anything_that_says_the_time() -> None:
    class MyClock:
        def now_ms(self) -> int:
            return 0

    clocks: list[Clock] = [ManualClock(), MyClock()]
    clocks.append(0)  # type: ignore[arg-type]
    ManualClock().advance("60")  # type: ignore[arg-type]
