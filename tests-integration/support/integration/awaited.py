"""What lives here: a sync object that is awaited, so that one test drives either variant.
What never does: a target, a table, or a claim.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Literal

from zae_limiter import DrawLease, Lease, RateLimiter, Repository, RunBudget, RunLease
from zae_limiter.aio.keyed_lease import KeyedLease
from zae_limiter.aio.keyed_runs import KeyedRunLease

Variant = Literal["async", "sync"]
TWINS: dict[str, type] = {
    "SyncRateLimiter": RateLimiter,
    "SyncRepository": Repository,
    "SyncLease": Lease,
    "SyncDrawLease": DrawLease,
    "SyncRunBudget": RunBudget,
    "SyncRunLease": RunLease,
    "SyncKeyedLease": KeyedLease,
    "SyncKeyedRunLease": KeyedRunLease,
}


class Awaited:
    """A sync object that is awaited wherever its async twin is; every call has a thread to block."""

    def __init__(self, target: Any, threads: ThreadPoolExecutor) -> None:
        self._target = target
        self._threads = threads
        self._twin = TWINS[type(target).__name__]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if name == "acquire":
            return lambda *args, **kwargs: _Block(value(*args, **kwargs), self._threads)
        if inspect.iscoroutinefunction(inspect.getattr_static(self._twin, name, None)):
            return partial(self._call, value)
        if name in ("draw", "budget"):
            return lambda *args, **kwargs: self._faced(value(*args, **kwargs))
        return self._faced(value)

    async def _call(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self._faced(await _in_thread(self._threads, call, *args, **kwargs))

    def _faced(self, value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(self._faced, value))
        return Awaited(value, self._threads) if type(value).__name__ in TWINS else value


class _Block:
    """A sync ``with`` block as an async one."""

    def __init__(self, inner: Any, threads: ThreadPoolExecutor) -> None:
        self._inner = inner
        self._threads = threads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Awaited:
        return Awaited(await _in_thread(self._threads, self._inner.__enter__), self._threads)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _in_thread(self._threads, self._inner.__exit__, kind, error, trace)


def _in_thread(threads: ThreadPoolExecutor, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Awaitable[Any]:
    return asyncio.get_running_loop().run_in_executor(threads, partial(call, *args, **kwargs))
