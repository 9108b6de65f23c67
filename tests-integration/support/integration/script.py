"""What lives here: random scripts of everything a user does, and how one of them is played.
What never does: which outcome is right.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from zae_limiter import Limit, RateLimiter, ZAELimiterError
from zae_limiter.testing import ManualClock

PROJECTS = ("project-1", "project-2")
KEYS = ("key-1", "key-2", "key-3")
ENTITIES = (*PROJECTS, *KEYS, "stranger")
RESOURCES = ("gpt-4", "openai/gpt-4o")
LIMITS = ("rpm", "tpm")


class Step(NamedTuple):
    """One thing that a user does after a pause; a key of ``ACTIONS``, and what it is done with."""

    pause_ms: int
    action: str
    arguments: dict[str, Any]


class Cancelled(Exception):
    """What the body of a block raises in a script."""


def script(seed: int, length: int) -> list[Step]:
    """The steps that a seed makes."""
    chance = random.Random(seed)
    return [_step(chance) for _ in range(length)]


async def play(steps: list[Step], limiter: RateLimiter, clock: ManualClock) -> list[Any]:
    """What came of each step, in plain values."""
    return [await _outcome(step, limiter, clock) for step in steps]


def _step(chance: random.Random) -> Step:
    action = chance.choices(list(ACTIONS), weights=[10, 3, 3, 2, 1, 1, 2, 2])[0]
    arguments: dict[str, Any] = {"entity": chance.choice(ENTITIES), "resource": chance.choice(RESOURCES)}
    if action in {"acquire", "adjust", "release", "fail"}:
        named = chance.sample(LIMITS, chance.randint(1, 2))
        arguments["amounts"] = {name: chance.choice((0, 1, 2, 5, 30)) for name in named}
    if action == "adjust":
        arguments["more"] = chance.randint(-5, 60)
    if action in {"set own limits", "set resource limits"}:
        arguments["limits"] = [_limit(chance, name) for name in chance.sample(LIMITS, chance.randint(1, 2))]
    if action == "create":
        arguments["parent"] = chance.choice((None, *PROJECTS))
        arguments["cascade"] = arguments["parent"] is not None and chance.random() < 0.8
    return Step(chance.choice((0, 1, 40, 900, 7_000, 70_000)), action, arguments)


def _limit(chance: random.Random, name: str) -> Limit:
    capacity = chance.choice((5, 20, 100))
    return Limit.custom(
        name, capacity, burst=capacity * chance.choice((1, 2)), refill_period=chance.choice((1, 60, 3600))
    )


async def _outcome(step: Step, limiter: RateLimiter, clock: ManualClock) -> Any:
    clock.advance(ms=step.pause_ms)
    try:
        return await ACTIONS[step.action](limiter, **step.arguments)
    except (ZAELimiterError, Cancelled) as error:
        statuses = getattr(error, "statuses", ())
        return type(error).__name__, str(error), [repr(status) for status in statuses]


async def _acquire(limiter: RateLimiter, entity: str, resource: str, amounts: dict[str, int]) -> Any:
    async with limiter.acquire(entity, resource, amounts) as lease:
        pass
    return lease.consumed, lease.degraded, [repr(status) for status in lease.statuses]


async def _adjust(limiter: RateLimiter, entity: str, resource: str, amounts: dict[str, int], more: int) -> Any:
    async with limiter.acquire(entity, resource, amounts) as lease:
        await lease.adjust(**{next(iter(amounts)): more})
    return lease.consumed


async def _release(limiter: RateLimiter, entity: str, resource: str, amounts: dict[str, int]) -> Any:
    async with limiter.acquire(entity, resource, amounts) as lease:
        await lease.release(**amounts)
    return lease.consumed


async def _fail(limiter: RateLimiter, entity: str, resource: str, amounts: dict[str, int]) -> Any:
    async with limiter.acquire(entity, resource, amounts) as lease:
        await lease.consume(**amounts)
        raise Cancelled(str(lease.consumed))


async def _set_own(limiter: RateLimiter, entity: str, resource: str, limits: list[Limit]) -> Any:
    await limiter.set_limits(entity, limits, resource)
    return [repr(limit) for limit in await limiter.get_limits(entity, resource)]


async def _set_resource(limiter: RateLimiter, entity: str, resource: str, limits: list[Limit]) -> Any:
    await limiter.set_resource_defaults(resource, limits)
    return repr(await limiter.repository.resolve_limits(entity, resource))


async def _create(limiter: RateLimiter, entity: str, resource: str, parent: str | None, *, cascade: bool) -> Any:
    return repr(await limiter.create_entity(entity, f"of {resource}", parent, cascade=cascade))


async def _available(limiter: RateLimiter, entity: str, resource: str) -> Any:
    left = await limiter.available(entity, resource)
    return left, await limiter.time_until_available(entity, resource, dict.fromkeys(left, 5))


ACTIONS: dict[str, Callable[..., Awaitable[Any]]] = {
    "acquire": _acquire,
    "adjust": _adjust,
    "release": _release,
    "fail": _fail,
    "set own limits": _set_own,
    "set resource limits": _set_resource,
    "create": _create,
    "available": _available,
}
