"""One variant given to the other, a forgotten ``await``, an event loop of another library: one clear error."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.settings import Options
from zae_limiter.stores import MemoryStore

LIMITS = [Limit.per_minute("rpm", 60)]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: SyncRateLimiter(cast("Any", Repository.in_memory())),
            "SyncRateLimiter needs a SyncRepository, not a Repository: use RateLimiter",
        ),
        (
            lambda: RateLimiter(cast("Any", SyncRepository.in_memory())),
            "RateLimiter needs a Repository, not a SyncRepository: use SyncRateLimiter",
        ),
        (lambda: RateLimiter(cast("Any", None)), "RateLimiter needs a Repository, not a NoneType"),
        (
            lambda: SyncRateLimiter(cast("Any", SyncRateLimiter(SyncRepository.in_memory()))),
            "SyncRateLimiter needs a SyncRepository, not a SyncRateLimiter",
        ),
    ],
)
def test_a_repository_of_the_other_variant_is_refused_at_once(make: Callable[[], object], says: str) -> None:
    with pytest.raises(TypeError) as refused:
        make()
    assert says in str(refused.value)


@pytest.mark.parametrize("limiter", [RateLimiter, SyncRateLimiter])
def test_a_forgotten_await_is_named(limiter: Any) -> None:
    for opening in (Repository.open(), Repository.builder().build()):
        way = "await it first" if limiter is RateLimiter else r"open one with SyncRepository.open\(\)"
        with pytest.raises(TypeError, match=way):
            limiter(opening)
        assert inspect.getcoroutinestate(opening) == inspect.CORO_CLOSED  # no second warning: "was never awaited"


class AwaitedStore(MemoryStore):
    """A store of a user, whose method is awaited."""


def test_a_sync_repository_refuses_a_store_whose_method_is_awaited() -> None:
    with pytest.raises(TypeError, match="SyncRepository needs a store whose `perform` is a `def`: use Repository"):
        SyncRepository.over(cast("Any", AwaitedStore()), Options())


async def acquire(limiter: RateLimiter) -> None:
    async with limiter.acquire("ann", "api", {"rpm": 1}):
        pass


@pytest.mark.parametrize("work", [acquire, RateLimiter.close, lambda limiter: limiter.available("ann", "api")])
def test_a_call_without_a_loop_of_asyncio_names_the_variant_that_needs_none(work: Callable[[Any], Any]) -> None:
    call = work(RateLimiter(Repository.in_memory(), default_limits=LIMITS))
    with pytest.raises(TypeError, match=r"needs asyncio.*trio.*SyncRateLimiter in a thread"):
        call.send(None)  # as trio begins a task


@pytest.mark.parametrize("open_one", [lambda _: Repository.open(), Repository.sqlite])
def test_to_open_without_a_loop_of_asyncio_says_the_same(tmp_path: Path, open_one: Callable[[Path], Any]) -> None:
    with pytest.raises(TypeError, match=r"needs asyncio.*trio.*SyncRateLimiter in a thread"):
        open_one(tmp_path / "limits.db").send(None)
