"""``limiter.limit`` around objects that are called like functions, in both variants."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from support.core.worlds import World, in_thread
from zae_limiter import Limit, RateLimitExceeded, ValidationError


class Plain:
    def __call__(self, number: int) -> int:
        return number + 1


class Awaited:
    async def __call__(self, number: int) -> int:
        return number + 1


class Yielding:
    def __call__(self) -> Iterator[int]:
        yield 1


class YieldingAsync:
    async def __call__(self) -> AsyncIterator[int]:
        yield 1


async def decorator(world: World) -> Any:
    """``limiter.limit`` of the variant itself, for two calls."""
    limiter: Any = (await world.process(default_limits=[Limit.per_hour("rpm", 2)])).limiter
    return (limiter if world.variant == "async" else limiter._target).limit("e", "r", {"rpm": 1})


@pytest.mark.parametrize("wrapped", [lambda each: each, partial])
async def test_an_object_of_the_limiters_kind_is_limited(world: World, wrapped: Any) -> None:
    call = (await decorator(world))(wrapped(Awaited() if world.variant == "async" else Plain()))
    for number in (1, 2):
        assert await (call(number) if world.variant == "async" else in_thread(call, number)) == number + 1
    with pytest.raises(RateLimitExceeded):
        await (call(3) if world.variant == "async" else in_thread(call, 3))


async def test_an_object_of_the_other_kind_is_refused(world: World) -> None:
    limited = await decorator(world)
    with pytest.raises(ValidationError, match="has the other kind"):
        limited(Plain() if world.variant == "async" else Awaited())


@pytest.mark.parametrize("function", [Yielding(), YieldingAsync()])
async def test_an_object_that_yields_is_refused(world: World, function: object) -> None:
    with pytest.raises(ValidationError, match="yields"):
        (await decorator(world))(function)
