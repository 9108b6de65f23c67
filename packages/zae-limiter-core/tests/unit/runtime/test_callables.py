import inspect
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from zae_limiter.runtime.callables import is_awaited, yields


class Called:
    def __call__(self) -> None: ...

    async def awaited(self) -> None: ...


class Awaited:
    async def __call__(self) -> None: ...


def plain() -> None: ...


async def awaited() -> None: ...


def yielding() -> Iterator[int]:
    yield 1


async def yielding_async() -> AsyncIterator[int]:
    yield 1


def marked() -> None: ...


if hasattr(inspect, "markcoroutinefunction"):  # new in Python 3.12
    inspect.markcoroutinefunction(marked)


FUNCTIONS = {
    "plain": plain,
    "awaited": awaited,
    "yielding": yielding,
    "yielding async": yielding_async,
    "marked": marked,
    "method": Called().awaited,
    "builtin": len,
    "class": Called,
    "async mock": AsyncMock(),
    "mock": Mock(),
    "number": 3,
}


@pytest.mark.parametrize("called", FUNCTIONS.values(), ids=FUNCTIONS)
def test_it_tells_what_inspect_tells(called: Any) -> None:
    assert is_awaited(called) == inspect.iscoroutinefunction(called)
    assert yields(called) == (inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called))


def test_it_looks_into_partials_and_objects() -> None:
    assert is_awaited(partial(partial(awaited), 1))
    assert is_awaited(Awaited())
    assert not is_awaited(Called())
    assert yields(partial(yielding))
