"""The limits of all applications, in both variants.

Lives here: what they share. Never: a framework.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cache
from typing import Any, Final

from zae_limiter import Limit, Options, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.operations.errors import Unreachable
from zae_limiter.stores import MemoryStore, SyncMemoryStore

LIMITS: Final = [Limit.per_day("requests", 5), Limit.per_day("tokens", 1000)]
COST: Final = {"requests": 1, "tokens": 100}
MORE: Final = 10_000
WORK_SECONDS: Final = 1.0  # of `/late`
UNITS: Final = {"tokens": "tokens"}
PARTS: Final = (b"one ", b"two ", b"three ")


class Failed(Exception):
    """What `/fail` raises."""


class GoneStore(MemoryStore):
    """A store that goes away once a repository is open."""

    away = False

    async def perform(self, operation: Any) -> Any:
        if self.away:
            raise Unreachable("connection refused")
        return await super().perform(operation)


class SyncGoneStore(SyncMemoryStore):
    """The same, blocking."""

    away = False

    def perform(self, operation: Any) -> Any:
        if self.away:
            raise Unreachable("connection refused")
        return super().perform(operation)


@cache
def present() -> RateLimiter:
    return RateLimiter(Repository.in_memory(), default_limits=LIMITS)


@cache
def sync_present() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)


async def limiter_of(user: str) -> RateLimiter:
    if user != "away":
        return present()
    store = GoneStore()
    repository = await Repository.over(store, Options(stack="web"))
    store.away = True
    return RateLimiter(repository, default_limits=LIMITS)


def sync_limiter_of(user: str) -> SyncRateLimiter:
    if user != "away":
        return sync_present()
    store = SyncGoneStore()
    repository = SyncRepository.over(store, Options(stack="web"))
    store.away = True
    return SyncRateLimiter(repository, default_limits=LIMITS)


def cost_of(path: str) -> dict[str, int]:
    return {} if path == "/balance" else COST


async def until_gone(is_disconnected: Callable[[], Awaitable[bool]]) -> None:
    while not await is_disconnected():  # noqa: ASYNC110 - that is how Starlette's requests tell
        await asyncio.sleep(0.02)


async def work(lease: Any) -> None:
    await lease.consume(tokens=1)
    await asyncio.sleep(WORK_SECONDS)


async def parts(lease: Any) -> AsyncIterator[bytes]:
    for part in PARTS:
        yield part
        await asyncio.sleep(0.01)
    await lease.settle(tokens=30)


async def endless(lease: Any) -> AsyncIterator[bytes]:
    try:
        while True:
            yield b"again " * 1000
            await asyncio.sleep(0.01)
    finally:
        await lease.settle(tokens=7)


def sync_parts(lease: Any) -> Iterator[bytes]:
    yield from PARTS
    lease.settle(tokens=30)


def sync_endless(lease: Any) -> Iterator[bytes]:
    try:
        while True:
            yield b"again " * 1000
    finally:
        lease.settle(tokens=7)
