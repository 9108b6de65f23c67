"""Rate limits of FastAPI's routes: a dependency that hands the lease to the route. Needs the extra ``fastapi``.

``install(app)`` once; then ``lease: Annotated[Lease, Depends(RateLimited(...))]`` in each route that is limited. The
tokens are kept or given back as ``zae_limiter.integrations.asgi`` says.
"""

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Any, Final, Unpack

from fastapi import Depends, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from ..aio.lease import Lease
from ..aio.limiter import RateLimiter
from ..http import PROBLEM_MEDIA_TYPE, STATUS
from ..settings import AcquireOptions
from .asgi import AnswerMiddleware, Exchange

_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "violated-policies", "retry-after"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "violated-policies": {"type": "array", "items": {"type": "string"}},
        "retry-after": {"type": ["integer", "null"], "description": "Seconds; null if a retry can never pass."},
        "instance": {"type": "string"},
    },
}
_STRING: Final = {"schema": {"type": "string"}}
REFUSAL: Final[dict[str, Any]] = {
    "description": "Quota Exceeded",
    "headers": {"RateLimit-Policy": _STRING, "RateLimit": _STRING, "Retry-After": {"schema": {"type": "integer"}}},
    "content": {PROBLEM_MEDIA_TYPE: {"schema": _PROBLEM}},
}


class RateLimited:
    """A dependency that takes the request's tokens and is their lease.

    ``identity`` is a dependency that returns the entity's id. ``limiter``, ``resource`` and ``cost`` (tokens by limit)
    are values, or dependencies that return them. ``options`` are those of ``acquire``.
    """

    def __init__(
        self,
        limiter: RateLimiter | Callable[..., Any],
        *,
        identity: Callable[..., Any],
        resource: str | Callable[..., Any],
        cost: Mapping[str, int] | Callable[..., Any],
        **options: Unpack[AcquireOptions],
    ) -> None:
        self._options = options
        given = {"limiter": limiter, "identity": identity, "resource": resource, "cost": cost}
        self.__signature__ = Signature(  # FastAPI reads it, and so resolves what was given
            [
                Parameter("request", Parameter.KEYWORD_ONLY, annotation=Request),
                *(Parameter(name, Parameter.KEYWORD_ONLY, default=_depends(value)) for name, value in given.items()),
            ]
        )

    async def __call__(
        self, *, request: Request, limiter: RateLimiter, identity: str, resource: str, cost: Mapping[str, int]
    ) -> Lease:
        """Take the tokens. Raises the errors of ``acquire``."""
        lease = limiter.acquire(identity, resource, cost, **self._options)
        return await Exchange.of(request.scope).acquire(lease)


def install(app: FastAPI, *, units: Mapping[str, str] | None = None, legacy: bool = False) -> None:
    """Add the middleware that answers refusals and ends leases, and document 429 for every route that is limited.

    ``units`` and ``legacy`` are options of ``zae_limiter.http.headers``.
    """
    app.add_middleware(AnswerMiddleware, units=units, legacy=legacy)
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        for route in _limited_routes(app):
            route.responses.setdefault(STATUS, REFUSAL)
        return plain()

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation extends it


def _depends(value: Any) -> Any:
    if callable(value):
        return Depends(value)

    async def constant() -> Any:  # async: FastAPI runs other functions in a thread
        return value

    return Depends(constant)


def _limited_routes(app: FastAPI) -> Iterator[APIRoute]:
    for route in app.routes:
        if isinstance(route, APIRoute) and _limits(route.dependant):
            yield route


def _limits(dependant: Dependant) -> bool:
    return isinstance(dependant.call, RateLimited) or any(_limits(each) for each in dependant.dependencies)
