"""What limits nothing says so: a lease that nobody enters, a decorated function that gives a generator."""

import gc
import inspect
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any, cast

import pytest

from support.core.worlds import World, in_thread
from zae_limiter import Limit, ValidationError

LIMITS = [Limit.per_hour("rpm", 2)]


async def limiter_of(world: World, **options: Any) -> Any:
    """The limiter of the variant itself."""
    limiter: Any = (await world.process(default_limits=LIMITS, **options)).limiter
    return limiter if world.variant == "async" else limiter._target


@pytest.mark.parametrize("observers", [[], [lambda event: None]], ids=["alone", "observed"])
async def test_a_lease_that_nobody_enters_warns_with_the_place_of_its_call(world: World, observers: list[Any]) -> None:
    limiter = await limiter_of(world, observers=observers)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        line = cast("FrameType", inspect.currentframe()).f_lineno + 1
        kept = limiter.acquire("ann", "api", {"rpm": 1})
        assert not told  # it may be entered later
        del kept
        gc.collect()
    (warning,) = told
    assert (warning.category, warning.filename, warning.lineno) == (ResourceWarning, __file__, line)
    assert "ann/api: it was never entered" in str(warning.message)


async def test_an_entered_lease_does_not_warn_whatever_becomes_of_it(world: World) -> None:
    limiter: Any = (await world.process(default_limits=LIMITS)).limiter
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        async with limiter.acquire("ann", "api", {"rpm": 2}):
            pass
        with pytest.raises(Exception, match="retry in"):
            await limiter.acquire("ann", "api", {"rpm": 1}).__aenter__()
        with pytest.raises(ValidationError):
            limiter.acquire("", "api", {"rpm": 1})
        gc.collect()
    assert told == []


async def test_a_decorated_function_that_gives_a_generator_warns(world: World) -> None:
    limited = (await limiter_of(world)).limit("ann", "api", {"rpm": 1})

    def numbers() -> Iterator[int]:
        yield 1

    async def awaited() -> Iterator[int]:
        return numbers()

    def plain() -> Iterator[int]:
        return numbers()

    call = limited(awaited if world.variant == "async" else plain)
    with pytest.warns(ResourceWarning, match="runs after the block"):
        assert list(await (call() if world.variant == "async" else in_thread(call))) == [1]
