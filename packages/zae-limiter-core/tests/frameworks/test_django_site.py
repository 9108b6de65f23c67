"""Django as it calls middleware itself: more than one of them, and what a site must not do."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("django", reason="django is not installed: `just test-frameworks newest` has it")
from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpResponse, JsonResponse
from django.test import AsyncClient, Client
from django.test.utils import override_settings
from django.urls import path

from zae_limiter import (
    Limit,
    RateLimiter,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    ValidationError,
)
from zae_limiter.http import headers, problem
from zae_limiter.integrations.django import AsyncRateLimits, RateLimits, async_lease_of, lease_of

LIMITS = [Limit.per_day("ip", 5), Limit.per_day("user", 1)]
if not settings.configured:
    settings.configure()


class Urls:
    """The module of a site's paths."""

    def __init__(self, view: Any) -> None:
        self.urlpatterns = [path("here", view)]


@contextmanager
def site(view: Any, *middleware: Any) -> Iterator[None]:
    """A site whose settings name the middleware, from the outside in."""
    names = []
    for number, each in enumerate(middleware):
        setattr(sys.modules[__name__], f"middleware_{number}", each)
        names.append(f"{__name__}.middleware_{number}")
    with override_settings(MIDDLEWARE=names, ROOT_URLCONF=Urls(view)):
        yield


@pytest.fixture
def limiter() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)


@pytest.fixture
def async_limiter() -> RateLimiter:
    return RateLimiter(Repository.in_memory(), default_limits=LIMITS)


def limits(limiter: SyncRateLimiter, cost: Any, **more: Any) -> RateLimits:
    return RateLimits(limiter, identity=lambda request: "ann", resource="api", cost=cost, **more)


def async_limits(limiter: RateLimiter, cost: Any, **more: Any) -> AsyncRateLimits:
    return AsyncRateLimits(limiter, identity=lambda request: "ann", resource="api", cost=cost, **more)


def get() -> Any:
    return Client(raise_request_exception=False).get("/here")


async def async_get() -> Any:
    return await AsyncClient(raise_request_exception=False).get("/here")


def hello(request: Any) -> Any:
    return HttpResponse("hello")


def test_a_refusal_of_the_middleware_inside_gives_back_what_those_outside_took(limiter: SyncRateLimiter) -> None:
    with site(hello, limits(limiter, {"ip": 1}), limits(limiter, {}), limits(limiter, {"user": 1})):
        assert [get().status_code for _ in range(4)] == [200, 429, 429, 429]
    assert limiter.available("ann", "api") == {"ip": 4, "user": 0}


def test_middleware_in_between_that_gives_another_answer_than_a_refusal_is_limited_by_the_one_outside(
    limiter: SyncRateLimiter,
) -> None:
    def friendly(get_response: Any) -> Any:
        def answer(request: Any) -> Any:
            response = get_response(request)
            return HttpResponse("log in first") if response.status_code == 429 else response

        return answer

    with site(hello, limits(limiter, {"ip": 1}), friendly, limits(limiter, {"user": 1})):
        answers = [get() for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 200, 429]
    assert all('"ip"' in answer["RateLimit"] for answer in answers[1:5])


def test_a_view_finds_the_lease_from_outside_where_the_middleware_inside_limits_nothing(
    limiter: SyncRateLimiter,
) -> None:
    def view(request: Any) -> Any:
        return JsonResponse(lease_of(request).consumed)

    with site(view, limits(limiter, {"ip": 1}), limits(limiter, {})):
        assert get().json() == {"ip": 1}


async def test_a_refusal_of_async_middleware_inside_gives_back_what_those_outside_took(
    async_limiter: RateLimiter,
) -> None:
    outer, free, inner = (async_limits(async_limiter, cost) for cost in ({"ip": 1}, {}, {"user": 1}))
    with site(hello, outer, free, inner):
        assert [(await async_get()).status_code for _ in range(4)] == [200, 429, 429, 429]
    assert await async_limiter.available("ann", "api") == {"ip": 4, "user": 0}


REFUND = pytest.mark.parametrize(
    ("refund", "left"), [("never", {"ip": 4, "user": 0}), ("before_answer", {"ip": 5, "user": 1})]
)


@REFUND
def test_a_refusal_in_a_view_is_refunded_on_demand_by_every_middleware(
    limiter: SyncRateLimiter, refund: Any, left: dict[str, int]
) -> None:
    def view(request: Any) -> Any:
        lease_of(request).consume(user=1)

    with site(view, limits(limiter, {"ip": 1}, refund=refund), limits(limiter, {"user": 1}, refund=refund)):
        assert get().status_code == 429
    assert limiter.available("ann", "api") == left


@REFUND
async def test_a_refusal_in_a_group_of_tasks_of_a_view_is_answered(
    async_limiter: RateLimiter, refund: Any, left: dict[str, int]
) -> None:
    async def view(request: Any) -> Any:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(async_lease_of(request).consume(user=1))

    outer, inner = (async_limits(async_limiter, cost, refund=refund) for cost in ({"ip": 1}, {"user": 1}))
    with site(view, outer, inner):
        assert (await async_get()).status_code == 429
    assert await async_limiter.available("ann", "api") == left


@pytest.mark.parametrize(
    ("cost", "policy"), [({"user": 1}, '"user";q=1;qu="calls";w=86400'), ({}, '"ip";q=5;qu="clicks";w=86400')]
)
def test_the_fields_are_those_of_the_middleware_furthest_in_that_limits(
    limiter: SyncRateLimiter, cost: dict[str, int], policy: str
) -> None:
    outer = limits(limiter, {"ip": 1}, units={"ip": "clicks"})
    inner = limits(limiter, cost, units={"user": "calls"}, legacy=True)
    with site(hello, outer, limits(limiter, {}), inner):
        response = get()
    assert (response.status_code, response["RateLimit-Policy"]) == (200, policy)
    assert ("X-RateLimit-Limit" in response) == bool(cost)


def test_the_fields_replace_those_of_the_view_that_have_the_same_name(limiter: SyncRateLimiter) -> None:
    def view(request: Any) -> Any:
        return HttpResponse("hello", headers={"ratelimit": '"up";r=1', "Retry-After": "3"})

    with site(view, limits(limiter, {"user": 1})):
        response = get()
    assert response["RateLimit"].startswith('"user";r=0;')
    assert (response["RateLimit-Policy"], response["Retry-After"]) == ('"user";q=1;w=86400', "3")


async def test_a_cost_that_is_no_mapping_is_refused(
    limiter: SyncRateLimiter, async_limiter: RateLimiter, caplog: pytest.LogCaptureFixture
) -> None:
    with site(hello, limits(limiter, lambda request: None)):
        assert get().status_code == 500
    with site(hello, async_limits(async_limiter, lambda request: None)):
        assert (await async_get()).status_code == 500
    assert caplog.text.count("ValidationError: cost None: must map limits to amounts") == 2
    with pytest.raises(ValidationError, match="cost None: must map limits to amounts"):
        limits(limiter, None)
    with pytest.raises(ValidationError, match="cost None: must map limits to amounts"):
        async_limits(async_limiter, None)


def test_an_identity_may_answer_400(limiter: SyncRateLimiter) -> None:
    def identity(request: Any) -> str:
        raise BadRequest

    with site(hello, RateLimits(limiter, identity=identity, resource="api", cost={"ip": 1})):
        assert get().status_code == 400


@pytest.mark.parametrize(("catches", "status"), [(True, 429), (False, 500)])
def test_middleware_of_the_site_answers_its_refusals_itself(
    limiter: SyncRateLimiter, *, catches: bool, status: int
) -> None:
    def own(get_response: Any) -> Any:
        def answer(request: Any) -> Any:
            try:
                lease_of(request).consume(user=2)
            except RateLimitExceeded as error:
                if not catches:
                    raise
                return JsonResponse(problem(error), status=429, headers=headers(error))
            return get_response(request)

        return answer

    with site(hello, limits(limiter, {"ip": 1}), own):
        assert get().status_code == status


def test_a_limiter_of_the_other_kind_and_an_unknown_option_are_refused_at_once(
    limiter: SyncRateLimiter, async_limiter: RateLimiter
) -> None:
    wrong: Any = limiter
    with pytest.raises(ValidationError, match=r"limiter .*: must be a RateLimiter, or a function"):
        async_limits(wrong, {"ip": 1})
    wrong = async_limiter
    with pytest.raises(ValidationError, match=r"limiter .*: must be a SyncRateLimiter, or a function"):
        limits(wrong, {"ip": 1})
    with pytest.raises(ValidationError, match="maxwait 3: is not an option of acquire"):
        limits(limiter, {"ip": 1}, maxwait=3)
