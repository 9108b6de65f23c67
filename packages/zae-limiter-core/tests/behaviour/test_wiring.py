"""Which clock a repository goes by, and what a process whose own is wrong writes at first, in both variants."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from email.utils import formatdate
from typing import Any, cast

import pytest

from support.core.wires import SyncWireStore, Wire, WireStore
from support.core.worlds import Awaited, World, passes, take
from zae_limiter import Limit, Options, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.clock.system import SystemClock
from zae_limiter.operations.values import Operation, Query
from zae_limiter.schema import keys
from zae_limiter.stores import Capabilities
from zae_limiter.testing import ManualClock
from zae_limiter.wiring import new_namespace

STORE_MS = 1_790_000_000_000
STORE_TIME = "2026-09-21T14:13:20.500Z"  # the middle of its second
DAY_MS = 24 * 3_600_000
UPTIME_MS = 5_000


class Dated:
    """A machine a day behind, and a store whose answers tell the time unless they are mute.

    The first one comes a second before the others, which are all of ``STORE_TIME``.
    """

    def __init__(self) -> None:
        self.mute = False
        self.uptime_ms = UPTIME_MS - 2000
        wrong_ns = (STORE_MS - DAY_MS) * 10**6
        self.clock = SystemClock(wall_ns=lambda: wrong_ns, monotonic_ns=lambda: self.uptime_ms * 10**6)

    def tell(self) -> None:
        if not self.mute:
            self.uptime_ms = min(self.uptime_ms + 1000, UPTIME_MS)
            told_ms = STORE_MS + self.uptime_ms - UPTIME_MS
            self.clock.on_answer(formatdate(told_ms / 1000, usegmt=True), self.uptime_ms, self.uptime_ms)


class DatedStore(WireStore):
    def __init__(self, wire: Wire, dated: Dated) -> None:
        super().__init__(wire)
        self.dated = dated

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, clock=self.dated.clock)

    async def perform(self, operation: Operation[Any]) -> Any:
        answer = await super().perform(operation)
        self.dated.tell()
        return answer


class SyncDatedStore(SyncWireStore):
    def __init__(self, wire: Wire, dated: Dated) -> None:
        super().__init__(wire)
        self.dated = dated

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, clock=self.dated.clock)

    def perform(self, operation: Operation[Any]) -> Any:
        answer = super().perform(operation)
        self.dated.tell()
        return answer


Open = Callable[..., Awaitable[RateLimiter]]


@pytest.fixture
def dated() -> Dated:
    return Dated()


@pytest.fixture
def opened(world: World, dated: Dated) -> Open:
    """Opens limiters over one store."""
    wire = Wire(world.table)
    store, sync_store = DatedStore(wire, dated), SyncDatedStore(wire, dated)

    async def open_limiter(**options: Any) -> RateLimiter:
        if world.variant == "async":
            return RateLimiter(await Repository.over(store, Options(**options)))
        return cast("RateLimiter", Awaited(SyncRateLimiter(SyncRepository.over(sync_store, Options(**options)))))

    return open_limiter


def registered(world: World) -> dict[str, str]:
    """When each namespace was registered, as its record says."""
    records = world.table.execute(Query(keys.pk_system(keys.REGISTRY), begins_with=keys.NAMESPACE_PREFIX)).items
    return {record["name"]: record["created_at"] for record in records}


async def test_a_namespace_is_registered_at_the_stores_time(world: World, opened: Open) -> None:
    await opened()
    assert registered(world) == {"default": STORE_TIME}


async def test_namespaces_of_one_client_share_its_clock(world: World, opened: Open, dated: Dated) -> None:
    first = await opened()
    dated.mute = True
    await first.repository.namespace("second")
    await opened(namespace="third")
    assert registered(world) == dict.fromkeys(["default", "second", "third"], STORE_TIME)


async def test_a_clock_that_was_given_is_never_corrected(world: World, opened: Open) -> None:
    clock = ManualClock()
    limiter = await opened(clock=clock)
    assert registered(world) == {"default": "2023-11-14T22:13:20.000Z"}
    assert limiter.repository.namespace_state.now() == clock.now_ms()


async def test_a_store_that_never_tells_the_time_leaves_the_systems_clock(
    world: World, opened: Open, dated: Dated
) -> None:
    dated.mute = True
    await opened()
    assert registered(world) == {"default": STORE_TIME.replace("09-21", "09-20").replace(".500", ".000")}


async def test_events_and_buckets_carry_the_stores_time(world: World, opened: Open) -> None:
    limiter = await opened()
    await limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 10)])
    (event,) = (await limiter.repository.get_audit_events("$RESOURCE:gpt-4")).events
    assert event.at == STORE_TIME
    await take(limiter, "key", "gpt-4", rpm=1)
    bucket = world.bucket_of(limiter, "key", "gpt-4")
    assert bucket is not None
    assert bucket["rf"] == STORE_MS + 500


async def test_who_is_refused_all_the_time_still_learns_the_time(world: World) -> None:
    """The answers that correct a clock tell whole seconds: they must not come at the same part of each."""
    uptime_ms = UPTIME_MS
    clock = SystemClock(wall_ns=lambda: (STORE_MS - DAY_MS) * 10**6, monotonic_ns=lambda: uptime_ms * 10**6)

    class Store(WireStore):
        @property
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities, clock=clock)

        async def perform(self, operation: Operation[Any]) -> Any:
            nonlocal uptime_ms
            uptime_ms += 250 if clock.doubted else 0  # opening waits between its questions
            try:
                return await super().perform(operation)
            finally:  # a refusal is an answer, too
                clock.on_answer(formatdate(now_ms() // 1000, usegmt=True), uptime_ms, uptime_ms)

    def now_ms() -> int:
        return STORE_MS + 400 + uptime_ms - UPTIME_MS

    store = Store(Wire(world.table))
    limiter = RateLimiter(await Repository.over(store, Options(clock=clock)), default_limits=[Limit.per_day("rpd", 1)])
    await take(limiter, "key", "gpt-4", rpd=1)
    for _ in range(4_000):
        uptime_ms += 5
        assert not await passes(limiter, "key", "gpt-4", rpd=1)
    assert abs(clock.now_ms() - now_ms()) < 50


def test_the_id_of_a_namespace_is_never_taken_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"\xf8234567z", b"\xfc234567z"])  # the first begins with a dash in base64
    monkeypatch.setattr(os, "urandom", lambda _: next(drawn))
    assert new_namespace("prod", ManualClock()).namespace_id == "_DIzNDU2N3o"
