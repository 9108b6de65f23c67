"""Rate limits of FastAPI's routes: a dependency that hands the lease to the route. Needs the extra ``fastapi``.

``install(app)`` once; then ``lease: Annotated[Lease, Depends(RateLimited(...))]`` in each route that is limited. The
tokens are kept or given back as ``zae_limiter.integrations.asgi`` says.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature, isfunction, signature
from typing import Any, Final, Unpack, get_args

from fastapi import Depends, FastAPI, routing
from fastapi.dependencies.models import Dependant
from fastapi.requests import HTTPConnection

from ..aio.lease import Lease
from ..aio.limiter import RateLimiter
from ..exceptions import ValidationError
from ..flows.acquire.requests import NO_DRAWS, EachCallOptions
from ..http import DISABLED, PAYMENT_REQUIRED, PROBLEM_MEDIA_TYPE, STATUS, Show, check_show
from ..values.draws import Draw
from ..values.estimates import Amount
from ..values.limit_status import Reason
from . import asgi
from .addresses import AddressOptions
from .answers import INVALID, JSON_MEDIA_TYPE, UNAVAILABLE, AnswerOptions, Answers
from .arguments import Rule, check_cost
from .asgi import AnswerMiddleware, Exchange
from .leases import Refund

_PLAIN: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
    },
}
_REFUSED: Final = {
    **_PLAIN,
    "properties": {
        **_PLAIN["properties"],
        "reason": {"type": "string", "enum": list(get_args(Reason))},
        "violated-policies": {"type": "array", "items": {"type": "string"}},
        "retry-after": {"type": ["integer", "null"], "description": "Seconds; null if a retry can never pass."},
    },
}
_TEXT: Final = {"type": ["string", "null"]}
_OPENAI: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "object", "properties": dict.fromkeys(("message", "type", "param", "code"), _TEXT)}
    },
}
_REQUESTS: Final = ("request", "req", "connection", "conn", "scope")  # which no path or query is likely to have
_STRING: Final = {"schema": {"type": "string"}}
_SECONDS: Final = {"schema": {"type": "integer"}}
ANSWERS: Final[Mapping[int, dict[str, Any]]] = {
    STATUS: {
        "description": "Too Many Requests: too fast, used up, or never to pass, as the reason says",
        "headers": {
            "RateLimit-Policy": _STRING,
            "RateLimit": _STRING,
            "Retry-After": _SECONDS,
            "x-should-retry": _STRING,
        },
        "content": {PROBLEM_MEDIA_TYPE: {"schema": _REFUSED}},
    },
    INVALID: {
        "description": "Bad Request: an id that no entity or resource can have",
        "content": {PROBLEM_MEDIA_TYPE: {"schema": _PLAIN}},
    },
    DISABLED: {"description": "Forbidden: access is disabled", "content": {PROBLEM_MEDIA_TYPE: {"schema": _REFUSED}}},
    UNAVAILABLE: {
        "description": "Service Unavailable: the rate limiter cannot decide",
        "headers": {"Retry-After": _SECONDS},
        "content": {PROBLEM_MEDIA_TYPE: {"schema": _PLAIN}},
    },
}
"""What a limited route may answer instead of its own, by status, as OpenAPI has it."""


class RateLimited:
    """A dependency that takes the request's tokens and returns their lease; ``None`` if nothing is limited.

    It limits no websocket, and no request that costs nothing (``{}``).

    ``identity`` is a dependency that returns the entity's id: ``def identity(request: Request)``, no ``lambda
    request:``, whose parameter FastAPI would read from the query. ``limiter``, ``resource``, ``cost`` (tokens by limit)
    and ``draws`` (further buckets) are values, or dependencies that return them. ``options`` are those of ``acquire``.
    ``refund``: ``"never"`` once the application has begun, or ``"before_answer"``. ``show`` replaces that of
    ``install`` for these routes. ``idempotency_key``: ``retry_key``, or another dependency; without one, each request
    counts.
    """

    def __init__(
        self,
        limiter: RateLimiter | Callable[..., Any],
        *,
        identity: Callable[..., Any],
        resource: str | Callable[..., Any],
        cost: Mapping[str, Amount] | Callable[..., Any],
        draws: Sequence[Draw] | Callable[..., Any] = NO_DRAWS,
        refund: Refund = "never",
        show: Show | None = None,
        idempotency_key: Callable[..., Any] | None = None,
        **options: Unpack[EachCallOptions],
    ) -> None:
        self._rule = Rule(RateLimiter, limiter, identity, resource, cost, draws, refund, options, idempotency_key)
        check_show("own" if show is None else show)
        self._show = show
        given: dict[str, Any] = {
            "limiter": limiter,
            "identity": identity,
            "resource": resource,
            "cost": cost,
            "draws": draws,
        }
        if idempotency_key is not None:
            given["idempotency_key"] = idempotency_key
        for name, value in given.items():
            _check_dependency(name, value)
        self.__signature__ = Signature(  # FastAPI reads it, and so resolves these dependencies
            [
                Parameter("connection", Parameter.KEYWORD_ONLY, annotation=HTTPConnection),
                *(Parameter(name, Parameter.KEYWORD_ONLY, default=_depends(value)) for name, value in given.items()),
            ]
        )

    async def __call__(
        self,
        *,
        connection: HTTPConnection,
        limiter: RateLimiter,
        identity: str,
        resource: str,
        cost: Mapping[str, Amount],
        draws: Sequence[Draw] = NO_DRAWS,
        idempotency_key: str | None = None,
    ) -> Lease | None:
        """Take the tokens. Raises the errors of ``acquire``."""
        if connection.scope["type"] == "websocket" or not check_cost(cost):
            return None
        exchange = Exchange.of(connection.scope)
        lease = self._rule.acquire(limiter, identity, resource, cost, draws, idempotency_key)
        return await exchange.acquire(lease, refund=self._rule.refund, show=self._show)


def client_address(**options: Unpack[AddressOptions]) -> Callable[[HTTPConnection], Awaitable[str]]:
    """Return an ``identity``: the address of the client, as ``zae_limiter.integrations.addresses`` finds it."""
    of_scope = asgi.client_address(**options)

    async def identity(connection: HTTPConnection) -> str:  # async: FastAPI runs other functions in a thread
        return of_scope(connection.scope)

    return identity


async def retry_key(connection: HTTPConnection) -> str | None:
    """Return the key by which a retried request counts once: an ``idempotency_key``, of its ``Idempotency-Key``."""
    return None if connection.scope["type"] == "websocket" else asgi.retry_key(connection.scope)


def install(app: FastAPI, **options: Unpack[AnswerOptions]) -> None:
    """Add the middleware that answers refusals and ends leases, and document ``ANSWERS`` (400, 403, 429, 503) for every
    route that is limited. What a route documents of a status itself stays.

    ``show``, ``names``, ``units`` and ``legacy`` are options of ``zae_limiter.http.headers``. ``style="openai"``
    answers with errors and fields of OpenAI's API, ``payment_required=True`` with 402 where money is used up.
    """
    answers = _documented(Answers(**options))
    app.add_middleware(AnswerMiddleware, **options)
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        for operation in _limited_operations(app, document["paths"]):
            for status, answer in answers.items():
                operation["responses"].setdefault(str(status), answer)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation extends it


def _documented(answers: Answers) -> dict[int, dict[str, Any]]:
    """Return ``ANSWERS`` as these options give them."""
    found = {**ANSWERS}
    if answers.payment_required:
        found[PAYMENT_REQUIRED] = {**ANSWERS[STATUS], "description": "Payment Required: money is used up"}
    if answers.style == "openai":
        content = {JSON_MEDIA_TYPE: {"schema": _OPENAI}}
        found = {status: {**each, "content": content} for status, each in found.items()}
    return found


def _check_dependency(name: str, given: object) -> None:
    """Raise ``ValidationError`` for a function of the request whose parameter FastAPI would read from the query.

    FastAPI knows the request by the annotation of a parameter, which a ``lambda`` has not: every call would be a 422.
    """
    for each in signature(given).parameters.values() if isfunction(given) else ():
        if each.name in _REQUESTS and each.annotation is Parameter.empty and each.default is Parameter.empty:
            problem = f"has a parameter {each.name!r} without a type, which FastAPI reads from the query"
            raise ValidationError(name, given, f"{problem}: write def {name}(request: Request), or a dependency")


def _depends(value: Any) -> Any:
    if callable(value):
        return Depends(value)

    async def constant() -> Any:  # async: FastAPI runs other functions in a thread
        return value

    return Depends(constant)


def _limited_operations(app: FastAPI, paths: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what the document says of the routes that have a ``RateLimited``."""
    contexts = getattr(
        routing, "iter_route_contexts", None
    )  # newer ``app.routes`` have the included routers themselves
    routes: Iterable[Any] = app.routes if contexts is None else contexts(app.routes)
    for route in routes:
        dependant, methods = getattr(route, "dependant", None), getattr(route, "methods", None)
        if dependant is not None and methods and _limits(dependant):  # a websocket has no methods
            documented = paths.get(route.path_format, {})  # without the routes that are left out of the document
            yield from (documented[name] for method in methods if (name := method.lower()) in documented)


def _limits(dependant: Dependant) -> bool:
    return isinstance(dependant.call, RateLimited) or any(_limits(each) for each in dependant.dependencies)
