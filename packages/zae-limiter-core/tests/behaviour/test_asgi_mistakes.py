"""Mistakes of whoever writes an application: found where the middleware is made, or at a request that names them."""

from collections.abc import Mapping
from typing import Any

import pytest

from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.integrations.asgi import AnswerMiddleware, RateLimitMiddleware, Receive, Scope, Send

LIMITER = RateLimiter(Repository.in_memory(), default_limits=[Limit.per_minute("rpm", 10)])


async def nothing(*_: Any) -> Any:
    pytest.fail("nothing is read or sent")


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    pytest.fail("the application ran")


def made(**more: Any) -> RateLimitMiddleware:
    given = {"limiter": LIMITER, "identity": "user", "resource": "api", "cost": {"rpm": 1}, **more}
    return RateLimitMiddleware(hello, **given)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"limiter": None}, "limiter None: must be a RateLimiter, or a function"),
        ({"limiter": SyncRateLimiter(SyncRepository.in_memory())}, "limiter .*: must be a RateLimiter, or a function"),
        ({"cost": None}, "cost None: must map limits to amounts"),
        ({"cost": "rpm"}, "cost 'rpm': must map limits to amounts"),
        (
            {"maxwait": 3},
            "maxwait 3: is not an option of acquire: there are cascade, draws, idempotency_key, .*, rollback",
        ),
        ({"max_wait": "long"}, "max_wait 'long': must be a number"),
        ({"limits": []}, "limits"),
        ({"draws": ["account"]}, "draws .*: must be a list of draws"),
    ],
)
def test_what_no_request_could_be_limited_with_is_refused_at_once(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        made(**more)


@pytest.mark.parametrize("cost", [None, 0, "", []])
async def test_a_cost_that_is_no_mapping_is_refused_at_the_request(cost: Any) -> None:
    async def later(scope: Scope) -> Mapping[str, int]:
        found: Mapping[str, int] = cost
        return found

    for given in (later, lambda scope: cost):
        with pytest.raises(ValidationError, match=r"cost .*: must map limits to amounts, .*; \{\} costs nothing"):
            await made(cost=given)({"type": "http", "path": "/"}, nothing, nothing)


async def test_draws_of_a_forgotten_return_are_refused() -> None:
    with pytest.raises(ValidationError, match="draws None: must be a list of draws"):
        await made(draws=lambda scope: None)({"type": "http", "path": "/"}, nothing, nothing)


def test_a_unit_that_no_field_can_have_is_refused_at_once() -> None:
    with pytest.raises(ValidationError, match="printable ASCII"):
        AnswerMiddleware(hello, units={"rpm": "Anträge"})
    units: Any = {"rpm": 5}
    with pytest.raises(ValidationError, match=r"units\['rpm'\] 5: must be a string"):
        AnswerMiddleware(hello, units=units)
    units = "tokens"
    with pytest.raises(ValidationError, match="units 'tokens': must map"):
        AnswerMiddleware(hello, units=units)
