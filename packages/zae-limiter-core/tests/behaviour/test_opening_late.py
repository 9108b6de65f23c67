"""A repository opened while its store is away: with ``allow`` it opens, and finds its namespace when it can."""

import asyncio
import logging
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.wires import Wire
from support.core.worlds import Process, World, outcomes, take, until
from zae_limiter import Limit, RateLimiterUnavailable, Repository, SyncRepository
from zae_limiter.exceptions import (
    CertificateError,
    ClientTooOldError,
    InfrastructureNotFoundError,
    NamespaceNotFoundError,
    StoreRefusedError,
)
from zae_limiter.maintenance import VersionRecord
from zae_limiter.operations.errors import (
    Denied,
    NotApplied,
    OutcomeUnknown,
    StoreError,
    TableMissing,
    Unreachable,
    Untrusted,
)
from zae_limiter.operations.values import BatchGet

RPM = Limit.per_hour("rpm", 10)


def refused() -> StoreError:
    """A new one each time: an error keeps what raised it alive, and so a prober."""
    return Unreachable("connection refused")


def away(world: World, error: StoreError | None = None) -> Wire:
    wire = Wire(world.table)
    wire.break_down(error or refused())
    return wire


async def opened_late(world: World, error: StoreError | None = None, **options: Any) -> Process:
    """A process that was started in the outage."""
    return await world.process(
        default_limits=[RPM], wire=away(world, error), **{"on_unavailable": "allow", "namespace": "shop", **options}
    )


async def answers_again(process: Process) -> None:
    process.wire.repair()
    await until(lambda: process.repository.get_store_stats().breaker == "closed")


@pytest.mark.parametrize("error", [Unreachable, OutcomeUnknown])
async def test_allow_opens_and_lets_calls_through_uncounted(world: World, error: type[StoreError]) -> None:
    process = await opened_late(world, error("no answer"))
    assert process.repository.get_store_stats().breaker == "open"
    assert not await process.repository.ping()
    async with process.limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert lease.degraded
    with pytest.raises(RateLimiterUnavailable):
        async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="block"):
            pytest.fail("the block ran")
    with pytest.raises(RateLimiterUnavailable):
        await process.repository.get_limits("e", "r")
    with pytest.raises(RateLimiterUnavailable, match="'shop' is not known"):
        _ = process.repository.namespace_id
    assert not world.table._items
    await process.limiter.close()


async def test_when_the_store_answers_calls_are_counted_by_the_stored_limits(world: World) -> None:
    other = await world.process("shop")
    await other.repository.set_system_defaults([Limit.per_hour("rpm", 2)])
    process = await opened_late(world)
    await answers_again(process)
    await take(process.limiter, "e", "r", rpm=1)
    assert process.repository.namespace_id == other.repository.namespace_id
    assert await other.limiter.available("e", "r") == {"rpm": 1}
    assert await process.repository.ping()


async def test_a_health_check_opens_the_namespace(world: World) -> None:
    process = await opened_late(world)
    await answers_again(process)
    assert await process.repository.ping()
    assert process.repository.namespace_id


async def test_a_crowd_looks_for_the_namespace_once(world: World) -> None:
    process = await opened_late(world)
    await answers_again(process)
    process.wire.sent()
    process.wire.hold(BatchGet)
    crowd = asyncio.gather(*(take(process.limiter, f"e{n}", "r", rpm=1) for n in range(20)))
    await until(lambda: process.wire.in_flight == 1)
    await asyncio.sleep(0.02)
    assert process.wire.sent() == ["BatchGet"]
    process.wire.let_go()
    await crowd
    assert process.wire.sent().count("Transact") == 1  # the registration


async def test_block_raises(world: World) -> None:
    with pytest.raises(RateLimiterUnavailable, match="refused"):
        await opened_late(world, on_unavailable="block")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (TableMissing("gone"), InfrastructureNotFoundError),
        (Denied("AccessDeniedException: no"), StoreRefusedError),
        (NotApplied("cannot create a client: there is no region"), StoreRefusedError),
    ],
)
async def test_a_mistake_is_raised_whatever_the_policy(world: World, error: StoreError, shown: type[Exception]) -> None:
    with pytest.raises(shown):
        await opened_late(world, error)


async def test_a_mistake_that_shows_later_is_raised_by_each_call(world: World) -> None:
    process = await opened_late(world, register=False)
    await answers_again(process)
    for answer in await outcomes(*(take(process.limiter, "e", "r", rpm=1) for _ in range(3))):
        assert isinstance(answer, NamespaceNotFoundError)
    with pytest.raises(NamespaceNotFoundError):
        await process.repository.get_limits("e", "r")
    assert not await process.repository.ping()
    await world.process("shop")
    await take(process.limiter, "e", "r", rpm=1)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (Denied("UnrecognizedClientException: no"), StoreRefusedError),
        (Untrusted("dynamodb.example", "hostname mismatch"), CertificateError),
    ],
)
async def test_a_store_that_is_back_and_refuses_this_process_is_no_outage(
    world: World, error: StoreError, shown: type[Exception]
) -> None:
    process = await opened_late(world)
    process.wire.repair()
    process.wire.break_down(error)
    await until(lambda: process.repository.get_store_stats().breaker == "closed")
    for _ in range(5):
        with pytest.raises(shown):
            await take(process.limiter, "e", "r", rpm=1)
    assert not await process.repository.ping()


async def test_a_client_that_does_not_fit_is_refused_later(world: World) -> None:
    other = await world.process()
    await maintenance_of(other.repository).set_version_record(VersionRecord(1, "99.0.0", "99.0.0"))
    process = await opened_late(world)
    await answers_again(process)
    with pytest.raises(ClientTooOldError):
        await take(process.limiter, "e", "r", rpm=1)


async def test_another_namespace_opens_late_too(world: World) -> None:
    process = await world.process(on_unavailable="allow")
    process.wire.break_down(refused())
    shop = await process.repository.namespace("shop")
    process.wire.repair()
    assert await shop.get_limits("e", "r") == []
    assert shop.namespace_id != process.repository.namespace_id


async def test_a_line_tells_that_it_opens_later(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        process = await opened_late(world)
    await process.repository.close()
    assert "namespace 'shop' is opened when the store answers" in caplog.text


def test_a_port_where_nobody_listens_is_an_outage_and_no_region_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SK")
    nobody = "http://127.0.0.1:1"
    opened = SyncRepository.open("shop", region="eu-west-1", endpoint_url=nobody, on_unavailable="allow")
    assert not opened.ping()
    opened.close()
    built = SyncRepository.builder().namespace("shop").region("eu-west-1").endpoint_url(nobody)
    built.on_unavailable("allow").build().close()
    with pytest.raises(RateLimiterUnavailable):
        SyncRepository.open("shop", region="eu-west-1", endpoint_url=nobody)

    async def opens() -> None:
        async with await Repository.open("shop", region="eu-west-1", endpoint_url=nobody, on_unavailable="allow") as it:
            assert not await it.ping()
        built = Repository.builder().namespace("shop").region("eu-west-1").endpoint_url(nobody)
        await (await built.on_unavailable("allow").build()).close()

    asyncio.run(opens())
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(StoreRefusedError, match="region"):
        SyncRepository.open("shop", on_unavailable="allow")
