"""Django: a site for WSGI with the sync limiter, one for ASGI with the async one, one for ASGI with the sync one."""

import asyncio
import os
import sys
import time
from typing import Any

import django
from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.urls import path

from support.core.web import limits
from zae_limiter.integrations.django import AsyncRateLimits, RateLimits, async_lease_of, lease_of

KIND, _, ON = os.environ["ZAEL_TEST_DJANGO"].partition(" on ")  # sync, async, sync on asgi


def user(request: Any) -> str:
    return str(request.headers["x-user"])


async def limiter(request: Any) -> Any:
    return await limits.limiter_of(user(request))


sync_middleware = RateLimits(
    lambda request: limits.sync_limiter_of(user(request)),
    identity=user,
    resource="api",
    cost=lambda request: limits.cost_of(request.path),
    units=limits.UNITS,
)
async_middleware = AsyncRateLimits(
    limiter,
    identity=user,
    resource="api",
    cost=lambda request: limits.cost_of(request.path),
    units=limits.UNITS,
)


def answer(request: Any) -> Any:
    return JsonResponse({"user": user(request)})


def stream(request: Any) -> Any:
    return StreamingHttpResponse(limits.sync_parts(lease_of(request)))


def endless(request: Any) -> Any:
    return StreamingHttpResponse(limits.sync_endless(lease_of(request)))


def fail(request: Any) -> Any:
    raise limits.Failed


def broken(request: Any) -> Any:
    return HttpResponse("broken", status=500)


def more(request: Any) -> Any:
    return lease_of(request).consume(tokens=limits.MORE)


def balance(request: Any) -> Any:
    return JsonResponse(limits.sync_present().available(user(request), "api"))


def late(request: Any) -> Any:
    lease_of(request).consume(tokens=1)
    time.sleep(limits.WORK_SECONDS)
    lease_of(request).settle(tokens=7)
    return HttpResponse("nobody reads this")


def async_late(request: Any) -> Any:  # on a thread, for an async middleware
    async_to_sync(async_lease_of(request).consume)(tokens=1)
    time.sleep(limits.WORK_SECONDS)
    async_to_sync(async_lease_of(request).settle)(tokens=7)
    return HttpResponse("nobody reads this")


async def async_answer(request: Any) -> Any:
    return answer(request)


async def async_stream(request: Any) -> Any:
    return StreamingHttpResponse(limits.parts(async_lease_of(request)))


async def async_endless(request: Any) -> Any:
    return StreamingHttpResponse(limits.endless(async_lease_of(request)))


async def async_more(request: Any) -> Any:
    await async_lease_of(request).consume(tokens=limits.MORE)


async def gone(request: Any) -> Any:
    await asyncio.sleep(3600)  # Django cancels it


async def async_balance(request: Any) -> Any:
    return JsonResponse(await limits.present().available(user(request), "api"))


views = {"answer": answer, "stream": stream, "endless": endless, "late": late, "more": more, "balance": balance}
if KIND == "async":
    views = {name: globals()[f"async_{name}"] for name in views} | {"gone": gone}
views |= {"fail": fail, "broken": broken}
urlpatterns = [path(name, view) for name, view in views.items()]

settings.configure(
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="of a test",
    ROOT_URLCONF=sys.modules[__name__],
    MIDDLEWARE=[f"{__name__}.{KIND}_middleware"],
)
django.setup()
if KIND == "async" or ON == "asgi":
    from django.core.asgi import get_asgi_application

    app = get_asgi_application()
else:
    from django.core.wsgi import get_wsgi_application

    app = get_wsgi_application()
